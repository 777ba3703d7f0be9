//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

use crate::choices::{
    AttentionBackend, Bf16GemmBackend, DsaDecodeBackend, DsaPagedMqaLogitsBackend, DsaPrefillBackend, DsaTopkBackend,
    Dsv4AttnBackend, Dsv4PrefillBackend, Fp4GemmRunnerBackend, Fp8GemmRunnerBackend, GrammarBackend, KvDequantDtype,
};

/// Which kernels run.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.kernel")]
pub struct ExecKernel {
    /// Base attention kernels; None means choose.
    #[config(load_time)]
    attention_backend: Option<AttentionBackend>,
    /// Decode half; beats the base field.
    #[config(load_time)]
    decode_attention_backend: Option<AttentionBackend>,
    /// Work-centric decode kernel; None auto-gates.
    enable_lean_attention: Option<bool>,
    /// NVIDIA fused decode megakernel plugin.
    #[config(default = false)]
    enable_nvidia_megakernel: bool,
    /// AMD fused decode monokernel plugin.
    #[config(default = false)]
    enable_amd_monokernel: bool,
    /// Prefill half; beats the base field.
    #[config(load_time)]
    prefill_attention_backend: Option<AttentionBackend>,
    /// Dtype prefill attention sees when KV is nvfp4.
    #[config(default = KvDequantDtype::Auto, load_time)]
    prefill_kv_cache_dequant_dtype: KvDequantDtype,
    /// Sampling kernels; default depends on `FlashInfer` presence.
    #[config(load_time)]
    sampling_backend: Option<String>,
    /// Constrained decoding engine.
    #[config(hot)]
    grammar_backend: Option<GrammarBackend>,
    /// Block FP8 GEMM kernels.
    #[config(default = Fp8GemmRunnerBackend::Auto, load_time, flag = "fp8-gemm-backend")]
    fp8_gemm_runner_backend: Fp8GemmRunnerBackend,
    /// NVFP4 GEMM kernels.
    #[config(default = Fp4GemmRunnerBackend::Auto, load_time, flag = "fp4-gemm-backend")]
    fp4_gemm_runner_backend: Fp4GemmRunnerBackend,
    /// Unquantised BF16 GEMM kernels.
    #[config(default = Bf16GemmBackend::Auto)]
    bf16_gemm_backend: Bf16GemmBackend,
    /// Sparse-attention prefill kernels; None autodetects.
    #[config(load_time)]
    dsa_prefill_backend: Option<DsaPrefillBackend>,
    /// `DeepSeek-V4` sparse prefill path.
    #[config(default = Dsv4PrefillBackend::Auto)]
    dsv4_prefill_backend: Dsv4PrefillBackend,
    /// Neighbouring query tokens sharing an index set: 0, 2 or 4.
    #[config(default = 0, range = 0..=4)]
    dsa_triton_union: usize,
    /// Sparse-attention decode kernels; None autodetects.
    #[config(load_time)]
    dsa_decode_backend: Option<DsaDecodeBackend>,
    /// `DeepSeek-V4` attention path.
    #[config(default = Dsv4AttnBackend::Auto, load_time)]
    dsv4_attn_backend: Dsv4AttnBackend,
    /// Kernel for index logits.
    #[config(default = DsaPagedMqaLogitsBackend::Auto)]
    dsa_paged_mqa_logits_backend: DsaPagedMqaLogitsBackend,
    /// Index top-k kernel for the target.
    #[config(default = DsaTopkBackend::SglKernel, load_time)]
    dsa_topk_backend: DsaTopkBackend,
    /// Skip `FlashInfer` tuning.
    #[config(default = false)]
    disable_flashinfer_autotune: bool,
    /// Operators excluded from tuning.
    flashinfer_autotune_skip_ops: Option<Vec<String>>,
    /// FP32 intermediates in the Triton kernel.
    #[config(default = false)]
    triton_attention_reduce_in_fp32: bool,
    /// KV splits of Triton flash decoding.
    #[config(default = 8)]
    triton_attention_num_kv_splits: usize,
    /// Tile size of those splits (deterministic mode).
    triton_attention_split_tile_size: Option<usize>,
    /// No ragged prefill wrapper for MLA.
    #[config(default = false)]
    flashinfer_mla_disable_ragged: bool,
    /// One kernel for q/k norm and rope.
    #[config(load_time)]
    enable_fused_qk_norm_rope: Option<bool>,
    /// Corner-aligned position-grid resize.
    #[config(default = false)]
    enable_precise_embedding_interpolation: bool,
    /// Experimental FP4 index path.
    #[config(default = false)]
    enable_deepseek_v4_fp4_indexer: bool,
    /// Fused sparse-index decode chain.
    #[config(load_time)]
    enable_dsa_fused_indexer: Option<bool>,
}
