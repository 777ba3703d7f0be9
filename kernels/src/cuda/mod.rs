//! CUDA: kernels written in C++ for the run-time compiler, and their safe launchers.
//!
//! [`CudaDevice::open`] finds the driver and the compiler; a kernel is compiled for a shape once, at start-up, and then
//! launched by a method that checks every size first. bf16 values are `u16`, their bits.
//!
//! No environment variable is read here, and nothing is configured but by values passed in.

mod decode_attention;
mod device;
mod error;
mod grouped_gemm;
mod kv_pool;
mod library;
mod nvrtc;
mod prefill_attention;

pub mod check;

pub use check::{Report, self_check};
pub use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
pub use decode_attention::{DecodeAttention, DecodeAttentionArgs, DecodeAttentionShape, DecodeWorkspace};
pub use device::{CudaDevice, CudaOptions};
pub use error::CudaError;
pub use grouped_gemm::{GroupedGemm, GroupedGemmArgs, GroupedGemmShape, RowGroups};
pub use kv_pool::{KvLayout, KvShape};
pub use nvrtc::{Compiled, Compiler, KernelSource, Program, Target};
pub use prefill_attention::{PrefillAttention, PrefillAttentionArgs, PrefillAttentionShape};
