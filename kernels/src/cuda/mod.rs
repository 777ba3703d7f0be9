//! CUDA: kernels written in C++ for the run-time compiler, and their safe launchers.
//!
//! [`CudaDevice::open`] finds the driver and the compiler; a kernel is compiled for a shape once, at start-up, and then
//! launched by a method that checks every size first. bf16 values are `u16`, their bits.
//!
//! No environment variable is read here, and nothing is configured but by values passed in.

mod argmax;
mod attention_batch;
mod attention_rules;
mod bf16;
mod combine_experts;
mod compiled_ahead;
mod copy_pages;
mod decode_attention;
mod decode_batch;
mod device;
mod driver_name;
mod error;
mod floats;
mod gated_delta;
mod gather_rows;
mod gemm;
mod gemm_tile;
mod graph;
mod group_rows;
mod grouped_gemm;
mod in_order;
mod kernel;
mod kernel_cache;
mod kernel_file;
mod kv_pool;
mod library;
mod merge_splits;
mod merge_states;
mod mla_decode_attention;
mod nvrtc;
mod nvrtc_library;
mod pinned;
mod prebuilt;
mod prefill_attention;
mod ptx;
mod quantised_gemm;
mod rms_norm;
mod rope_kv_write;
mod route_experts;
mod rows;
mod sample;
mod shape_logits;
mod silu_mul;
mod staging;
mod target;

pub mod check;

pub use argmax::{Argmax, ArgmaxArgs};
pub use attention_rules::AttentionRules;
pub use bf16::{from_bf16, to_bf16};
pub use check::{Report, self_check};
pub use combine_experts::{CombineExperts, CombineExpertsArgs, CombineExpertsShape};
pub use compiled_ahead::CompiledAhead;
pub use copy_pages::{CopyPages, CopyPagesArgs};
pub use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
pub use decode_attention::{DecodeAttention, DecodeAttentionArgs, DecodeAttentionShape, DecodeWorkspace};
pub use device::{CudaDevice, CudaOptions, DeviceFacts};
pub use error::CudaError;
pub use floats::{FloatViews, Floats, FloatsMut};
pub use gated_delta::{
    GatedDelta, GatedDeltaInputs, GatedDeltaRuns, GatedDeltaShape, GatedDeltaStates, GatedDeltaWorkspace,
};
pub use gather_rows::{GatherRows, GatherRowsArgs, GatherRowsShape, RowNumbers};
pub use gemm::{Gemm, GemmArgs, GemmShape};
pub use gemm_tile::{GemmTile, GemmTiles, TileRule, TunedTile};
pub use graph::CudaGraph;
pub use group_rows::{GroupRows, GroupRowsArgs, GroupRowsShape};
pub use grouped_gemm::{GatedGemm, GatedGemmShape, GroupedGemm, GroupedGemmArgs, GroupedGemmShape, RowGroups};
pub use kernel::{Kernel, KernelCode, KernelShape, LazyKernel, SizelessKernel};
pub use kernel_cache::{CacheCounts, CacheNotice, KernelCache};
pub use kv_pool::{KvLayout, KvShape};
pub use merge_splits::{MergeSplits, MergeSplitsShape};
pub use merge_states::{AttentionState, MergeStates, MergeStatesArgs, MergeStatesShape};
pub use mla_decode_attention::{MlaDecode, MlaDecodeArgs, MlaDecodeShape};
pub use nvrtc::{Compiled, Compiler, KernelSource, Program};
pub use pinned::{PinnedBuffer, Readback};
pub use prebuilt::Prebuilt;
pub use prefill_attention::{PrefillAttention, PrefillAttentionArgs, PrefillAttentionShape};
pub use quantised_gemm::{BlockFormat, QuantisedGemm, QuantisedGemmArgs, QuantisedGemmShape, QuantisedMatrix};
pub use rms_norm::{RmsNorm, RmsNormArgs, RmsNormShape};
pub use rope_kv_write::{HeadNorm, HeadNormWeights, RopeKvWrite, RopeKvWriteArgs, RopeKvWriteShape, rope_turns};
pub use route_experts::{
    ExpertScoring, RouteExperts, RouteExpertsArgs, RouteExpertsShape, RouteGroups, RouteGroupsShape,
};
pub use rows::{Rows, RowsMut};
pub use sample::{Sample, SampleArgs};
pub use shape_logits::{Logits, Penalties, ShapeLogits, TokenMasks};
pub use silu_mul::{SiluMul, SiluMulArgs, SiluMulShape};
pub use staging::Staging;
pub use target::{Architecture, Target};
