//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

use crate::choices::{LinearAttnBackend, LinearAttnVerifyBackend, MambaBackend, MambaRadixCacheStrategy, SsmDtype};

/// State-space and linear-attention layers.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.mamba")]
pub struct ExecMamba {
    /// State-space kernels.
    #[config(default = MambaBackend::Triton)]
    mamba_backend: MambaBackend,
    /// Dtype of recurrent states; None reads the model.
    mamba_ssm_dtype: Option<SsmDtype>,
    /// Cached states per tree path; -1 unlimited.
    #[config(default = -1)]
    mamba_max_states_per_path: i64,
    /// Stochastic rounding when states are FP16.
    #[config(default = false)]
    enable_mamba_cache_stochastic_rounding: bool,
    /// RNG rounds for that rounding.
    #[config(default = 0)]
    mamba_cache_philox_rounds: usize,
    /// Auto, `no_buffer`, `extra_buffer` or `extra_buffer_lazy`.
    #[config(default = MambaRadixCacheStrategy::Auto, load_time)]
    mamba_radix_cache_strategy: MambaRadixCacheStrategy,
    /// Resolved: model uses the hybrid prefix cache (no CLI).
    #[config(default = false, load_time)]
    uses_mamba_radix_cache: bool,
    /// Decode tokens between tracked states.
    #[config(default = 256)]
    mamba_track_interval: usize,
    /// Store cached states in INT8.
    #[config(default = false)]
    enable_int8_mamba_checkpoint: bool,
    /// INT8 checkpoint slots.
    int8_mamba_ckpt_size: Option<usize>,
    /// Base linear-attention kernels.
    #[config(default = LinearAttnBackend::Triton)]
    linear_attn_backend: LinearAttnBackend,
    /// Decode override for linear attention.
    linear_attn_decode_backend: Option<LinearAttnBackend>,
    /// Prefill override; unset means nobody asked.
    linear_attn_prefill_backend: Option<LinearAttnBackend>,
    /// Verify override; follows decode when unset.
    linear_attn_verify_backend: Option<LinearAttnVerifyBackend>,
    /// Buffered output-only decode for linear attention.
    #[config(default = false)]
    enable_linear_replayssm: bool,
    /// Steps between state flushes.
    #[config(default = 16)]
    linear_replayssm_cache_len: usize,
    /// The same idea for speculative verify.
    #[config(default = false)]
    enable_linear_replayssm_spec: bool,
}
