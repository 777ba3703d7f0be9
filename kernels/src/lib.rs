//! Attention, matrix and routing kernels for CPU and CUDA.
//!
//! Kernels take plain values: no configuration, no environment, no process-wide state.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod named;
