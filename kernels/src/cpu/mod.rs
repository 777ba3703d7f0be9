//! The CPU operations: float32 matrix products, normalisation, rotary positions, paged attention, routing to experts and
//! dequantisation.
//!
//! Every operation takes plain slices and a [`Workers`] handle, which carries the threads to use and the instruction set they may
//! use. Nothing here reads configuration, the environment or process-wide state.
//!
//! # Shapes
//!
//! All tensors are row-major `f32`. A shape is written `[tokens, heads, head_dim]`, slowest dimension first. Slices whose length does
//! not fit the stated shape are a programming error and panic; sizes that come from files are checked before they get here.
//!
//! # Order of additions
//!
//! For a given instruction set each output element is summed in one fixed order, whatever the number of threads and however
//! many tokens are computed together. Splitting a prompt into chunks therefore changes no bit of the result.

#![deny(unsafe_code)]

mod activation;
mod attention;
pub mod dequant;
mod elementwise;
mod experts;
mod isa;
mod matmul;
mod norm;
mod rope;
mod routing;
#[allow(unsafe_code)]
mod simd;
mod workers;

pub use activation::silu_mul;
pub use attention::{AttentionShape, PagedKv, SequenceSpan, paged_attention};
pub use elementwise::{add_bias, clip};
pub use experts::{ExpertGroups, combine_experts, grouped_matmul};
pub use isa::{CpuFeatures, Isa};
pub use matmul::matmul;
pub use norm::{rms_norm, rms_norm_heads};
pub use rope::{RopeTable, apply_rope};
pub use routing::{ExpertWeights, Routing, route};
pub use workers::{Workers, WorkersError};

#[cfg(test)]
mod testing;
