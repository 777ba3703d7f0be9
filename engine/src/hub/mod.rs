//! Models from a model hub: what they are called, and how they get here.
//!
//! [`Named`] tells a path from a name, [`Hub`] is a hub as its address says, and [`pull()`] fetches a model into a cache
//! folder, whole or not at all.

mod client;
mod name;
mod pull;

pub use client::Hub;
pub use name::{ALIASES, ModelName, Named};
pub(crate) use pull::pull_file;
pub use pull::{PulledFile, Record, cached, pull};
