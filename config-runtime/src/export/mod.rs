//! Documents made from a schema: JSON Schema, reference, file template, listing, man page, shell completion.
//!
//! Every function here is pure: the same schema gives the same text on every machine, so the text can be committed and
//! compared. A program that has a `docs` command of its own prints what these functions return:
//!
//! ```
//! use kitbag::{ConfigNamespaces, export};
//!
//! /// Thumbnail service.
//! #[derive(ConfigNamespaces)]
//! #[config(env = "THUMB")]
//! struct Args {
//!     /// Jobs that may wait per worker.
//!     #[config(ns = "pool", default = 32, range = 1..=4096, hot)]
//!     queue: usize,
//! }
//! for text in [export::json_schema::<Args>(), export::markdown::<Args>(), export::toml_template::<Args>()] {
//!     assert!(text.contains("Jobs that may wait per worker."));
//! }
//! ```
//!
//! Types of your own say with [`Leaf::shape`](crate::Leaf::shape) what their values look like.

#[cfg(any(feature = "man", feature = "completion"))]
mod command;
mod json;
mod json_schema;
mod listing;
mod literal;
mod markdown;
mod range;
mod toml_template;
mod tree;

#[cfg(feature = "man")]
pub use command::man;
#[cfg(feature = "completion")]
pub use command::{Shell, completion, completion_of};
pub use json_schema::json_schema;
pub use listing::listing;
pub use literal::toml_line;
pub use markdown::markdown;
pub use toml_template::toml_template;

pub use crate::leaf::Shape;
