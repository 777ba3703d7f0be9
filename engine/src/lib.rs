//! An inference engine for large language models.
//!
//! A request goes through these modules from top to bottom:
//!
//! * [`checkpoint`] opens a model folder or GGUF file: [`weights`] indexes its tensors, [`model`] reads its configuration and
//!   [`text`] its vocabulary and chat template. [`default_model`] obtains a model when none is named, [`hub`] one of that name.
//! * [`runner`] owns the loaded model and the pages of [`kv`], and takes sequences forward.
//!   What it was built with is a [`built::Built`].
//! * [`mod@generate`] prefills a prompt and decodes token by token with [`sampling`].
//!
//! [`tuning`] makes the products of a model on CUDA ready before the first request: compiled, and in the blocks that are fastest.
//! A [`cancel::Cancel`] stops what is underway. [`mod@bench`] times and compares runs of a runner, [`inspect`] describes a model that is not loaded.
//!
//! [`sizing`], [`scheduling`] and [`speculation`] have the rules of settings that are to come.
//!
//! # Architecture invariant
//!
//! Everything here takes plain values. Only the binary and its launch module read the configuration, and nothing reads the
//! environment or keeps process-wide state, so two engines in one process do not know of each other.

#![deny(unsafe_code)]

mod backend;
pub mod bench;
pub mod built;
mod byte_text;
pub mod cancel;
pub mod checkpoint;
pub mod default_model;
mod error;
pub mod generate;
pub mod hub;
pub mod inspect;
pub mod kv;
pub mod memory;
pub mod model;
pub mod runner;
pub mod sampling;
pub mod scheduling;
pub mod sizing;
pub mod speculation;
pub mod text;
pub mod tuning;
pub mod weights;

#[cfg(test)]
#[path = "../tests/support/hub.rs"]
#[allow(dead_code)] // The tests of the command use the rest.
mod hub_server;

pub use error::{Error, Result};
