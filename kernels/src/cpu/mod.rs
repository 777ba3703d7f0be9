//! The CPU operations: matrix products with weights of any stored type, normalisation, rotary positions, paged attention and
//! routing to experts.
//!
//! Every operation takes plain slices and a [`Workers`] handle, which carries the threads to use and the instruction set they may
//! use. Nothing here reads configuration, the environment or process-wide state.
//!
//! # Shapes
//!
//! All tensors are row-major; they are `f32` but for a [`Matrix`] of weights, which stays as its file has it. A shape is written `[tokens, heads, head_dim]`, slowest dimension first. Slices whose length does
//! not fit the stated shape are a programming error and panic; sizes that come from files are checked before they get here.
//!
//! # Order of additions
//!
//! For a given instruction set each output element is summed in one fixed order, whatever the number of threads and however
//! many tokens are computed together. Splitting a prompt into chunks therefore changes no bit of the result. A product is summed in
//! as many sums as a vector has lanes, which are then added; [`paged_attention`] has its own order. Instruction sets differ in their
//! lanes and in what they round, so they differ in the last bits.

#![deny(unsafe_code)]

mod activation;
mod attention;
mod dequant;
mod elementwise;
mod experts;
mod isa;
mod matmul;
mod matrix;
mod norm;
mod rope;
mod routing;
#[allow(unsafe_code)]
mod simd;
mod workers;

pub use activation::silu_mul;
pub use attention::{AttentionShape, PagedKv, SequenceSpan, paged_attention};
pub use dequant::ElementType;
pub use elementwise::{add_bias, clip};
pub use experts::{ExpertGroups, combine_experts, grouped_matmul};
pub use isa::{CpuFeatures, Isa};
pub use matmul::matmul;
pub use matrix::Matrix;
pub use norm::{rms_norm, rms_norm_heads};
pub use rope::{RopeTable, apply_rope};
pub use routing::{ExpertWeights, Routing, route};
pub use workers::{Workers, WorkersError};

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod testing;
