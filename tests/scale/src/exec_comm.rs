//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

use crate::choices::{BoundaryReduction, FlashinferAllreduceFusionBackend};

/// Collective communication.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.comm")]
pub struct ExecComm {
    /// Emit NVTX ranges per layer.
    #[config(default = false)]
    enable_layerwise_nvtx_marker: bool,
    /// Use `NVLink` SHARP in NCCL when available.
    #[config(default = false)]
    enable_nccl_nvls: bool,
    /// Use NCCL symmetric-memory collectives.
    #[config(default = false, load_time)]
    enable_symm_mem: bool,
    /// Turn off the hand-written all-reduce kernel.
    #[config(default = false, load_time)]
    disable_custom_all_reduce: bool,
    /// Use MSCCL++ for suitable message sizes.
    #[config(default = false)]
    enable_mscclpp: bool,
    /// Use torch symmetric memory all-reduce (SM90+).
    #[config(default = false)]
    enable_torch_symm_mem: bool,
    /// Inkling: reduce-scatter on hidden dim around short convolution.
    #[config(default = false)]
    enable_scattered_sconv: bool,
    /// Open communicators at startup to avoid a slow first request.
    #[config(default = false)]
    pre_warm_nccl: bool,
    /// Collective used where an FFN boundary reduces; auto picks per model.
    #[config(default = BoundaryReduction::Auto, load_time)]
    boundary_reduction: BoundaryReduction,
    /// INT8-compress TP traffic (limited support).
    #[config(default = Some(false))]
    enable_quant_communications: Option<bool>,
    /// Deprecated boolean; the valued backend field replaced it.
    #[config(default = false)]
    enable_flashinfer_allreduce_fusion: bool,
    /// Hard off-switch that beats every model default.
    #[config(default = false)]
    enforce_disable_flashinfer_allreduce_fusion: bool,
    /// Which `FlashInfer` all-reduce fusion to use; unset may be auto-enabled.
    #[config(load_time)]
    flashinfer_allreduce_fusion_backend: Option<FlashinferAllreduceFusionBackend>,
    /// AMD aiter all-reduce fusion.
    #[config(default = false, load_time)]
    enable_aiter_allreduce_fusion: bool,
    /// Skip aiter fusion for extend-type batches only.
    #[config(default = false, load_time)]
    disable_aiter_allreduce_fusion_in_prefill: bool,
    /// Skip aiter fusion for decode-type batches only.
    #[config(default = false, load_time)]
    disable_aiter_allreduce_fusion_in_decode: bool,
}
