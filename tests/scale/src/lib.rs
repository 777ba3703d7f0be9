//! The settings of a large inference engine, 543 in 21 namespaces, declared once.
//!
//! The namespaces are written by `generate.py` from `fields.tsv`; the functions over settings and the topology are
//! written by hand. What is not a setting is not declared as one: which values the operator chose is asked of
//! [`was_chosen`], and the ranks and groups of a running engine are a [`Topology`](topology::Topology).

// Settings that switch something are booleans, and a namespace has many of them.
#![allow(clippy::struct_excessive_bools, reason = "a switch is a boolean, and a namespace has many")]
// Names of settings come from the list of fields, where they are unique without their namespace.
#![allow(clippy::struct_field_names, reason = "names are those of the list of fields")]

pub mod args;
pub mod choices;
pub mod derived;
pub mod device;
pub mod disagg;
pub mod exec;
pub mod exec_comm;
pub mod exec_deterministic;
pub mod exec_dllm;
pub mod exec_features;
pub mod exec_graph;
pub mod exec_kernel;
pub mod exec_mamba;
pub mod exec_moe;
pub mod exec_offload;
pub mod exec_overlap;
pub mod lora;
pub mod memory;
pub mod mm;
pub mod model;
pub mod observability;
pub mod parallel;
mod rules;
pub mod schedule;
pub mod serving;
pub mod spec;
pub mod topology;

pub use args::Args;
use kitbag::{ConfigError, Context};

/// Whether somebody gave the setting a value, whatever the value is.
///
/// Three settings have behaviour of their own when the operator chose them: the prefix cache's eviction policy, the
/// ratio of full tokens and the quantisation of the draft model. That is a question to the value's origin.
///
/// # Errors
/// No setting has this path.
pub fn was_chosen(cfg: &Context<Args>, path: &str) -> Result<bool, ConfigError> {
    Ok(cfg.explain(path)?.is_chosen())
}
