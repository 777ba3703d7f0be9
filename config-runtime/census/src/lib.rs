//! Which code reads which setting.
//!
//! [`scan`] finds every read of a hand-written settings struct, before a program moves to `kitbag`; [`schema`] proposes the
//! namespaces to move to, and [`pin`] holds the reads that remain, so that they only become fewer. [`unread`] finds the
//! leaves of a `kitbag` schema that no code reads, as the compiler sees it.

#![forbid(unsafe_code)]

pub mod census;
mod index;
pub mod pin;
mod roles;
pub mod schema;
pub mod sources;
mod types;
pub mod unread;
mod walk;

pub use census::{Census, scan};
pub use sources::Sources;
