//! Models from a model hub: what they are called, and how they get here.
//!
//! [`Named`] tells a path from a name, [`Hub`] is a hub as its address says and [`Connection`] how it is reached, and
//! [`pull()`] fetches a model into a cache folder, whole or not at all.

mod client;
mod connection;
mod name;
mod pull;
mod staging;
mod transfer;

pub use client::Hub;
pub use connection::Connection;
pub use name::{ALIASES, ModelName, Named};
pub(crate) use pull::pull_file;
pub use pull::{PulledFile, Record, cached, pull};
pub(crate) use staging::Staging;
