//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigChoice;

/// Boundary reduction: 5 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum BoundaryReduction {
    /// Spelt `auto`.
    Auto,
    /// Spelt `ar`.
    Ar,
    /// Spelt `rs`.
    Rs,
    /// Spelt `rsv`.
    Rsv,
    /// Spelt `rs+rsv`.
    #[config(name = "rs+rsv")]
    RsPlusRsv,
}

/// Flashinfer allreduce fusion backend: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum FlashinferAllreduceFusionBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `trtllm`.
    Trtllm,
    /// Spelt `mnnvl`.
    Mnnvl,
    /// Spelt `cutedsl`.
    Cutedsl,
}

/// Rl on policy target: `fsdp`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum RlOnPolicyTarget {
    /// Spelt `fsdp`.
    Fsdp,
}

/// Hidden states: `last` or `full`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum HiddenStates {
    /// Spelt `last`.
    Last,
    /// Spelt `full`.
    Full,
}

/// Cuda graph backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum CudaGraphBackend {
    /// Spelt `full`.
    Full,
    /// Spelt `breakable`.
    Breakable,
    /// Spelt `disabled`.
    Disabled,
}

/// Attention backend: 25 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum AttentionBackend {
    /// Spelt `triton`.
    Triton,
    /// Spelt `torch_native`.
    #[config(name = "torch_native")]
    TorchNative,
    /// Spelt `flex_attention`.
    #[config(name = "flex_attention")]
    FlexAttention,
    /// Spelt `dsa`.
    Dsa,
    /// Spelt `nsa`.
    Nsa,
    /// Spelt `qsa`.
    Qsa,
    /// Spelt `dsv4`.
    Dsv4,
    /// Spelt `compressed`.
    Compressed,
    /// Spelt `fa3`.
    Fa3,
    /// Spelt `fa4`.
    Fa4,
    /// Spelt `flashinfer`.
    Flashinfer,
    /// Spelt `llada2_cfg_flashinfer`.
    #[config(name = "llada2_cfg_flashinfer")]
    Llada2CfgFlashinfer,
    /// Spelt `flashmla`.
    Flashmla,
    /// Spelt `trtllm_mla`.
    #[config(name = "trtllm_mla")]
    TrtllmMla,
    /// Spelt `cutedsl_mla`.
    #[config(name = "cutedsl_mla")]
    CutedslMla,
    /// Spelt `tokenspeed_mla`.
    #[config(name = "tokenspeed_mla")]
    TokenspeedMla,
    /// Spelt `trtllm_mha`.
    #[config(name = "trtllm_mha")]
    TrtllmMha,
    /// Spelt `hpc_ops`.
    #[config(name = "hpc_ops")]
    HpcOps,
    /// Spelt `minicpm_flashattn`.
    #[config(name = "minicpm_flashattn")]
    MinicpmFlashattn,
    /// Spelt `minicpm_flashinfer`.
    #[config(name = "minicpm_flashinfer")]
    MinicpmFlashinfer,
    /// Spelt `aiter`.
    Aiter,
    /// Spelt `wave`.
    Wave,
    /// Spelt `intel_amx`.
    #[config(name = "intel_amx")]
    IntelAmx,
    /// Spelt `ascend`.
    Ascend,
    /// Spelt `intel_xpu`.
    #[config(name = "intel_xpu")]
    IntelXpu,
}

/// Kv dequant dtype: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum KvDequantDtype {
    /// Spelt `auto`.
    Auto,
    /// Spelt `nvfp4`.
    Nvfp4,
    /// Spelt `fp8_e4m3`.
    #[config(name = "fp8_e4m3")]
    Fp8E4m3,
}

/// Grammar backend: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum GrammarBackend {
    /// Spelt `xgrammar`.
    Xgrammar,
    /// Spelt `outlines`.
    Outlines,
    /// Spelt `llguidance`.
    Llguidance,
    /// Spelt `none`.
    None,
}

/// Fp8 gemm runner backend: 9 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum Fp8GemmRunnerBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `deep_gemm`.
    #[config(name = "deep_gemm")]
    DeepGemm,
    /// Spelt `flashinfer_trtllm`.
    #[config(name = "flashinfer_trtllm")]
    FlashinferTrtllm,
    /// Spelt `flashinfer_cutlass`.
    #[config(name = "flashinfer_cutlass")]
    FlashinferCutlass,
    /// Spelt `flashinfer_deepgemm`.
    #[config(name = "flashinfer_deepgemm")]
    FlashinferDeepgemm,
    /// Spelt `flashinfer_cutedsl`.
    #[config(name = "flashinfer_cutedsl")]
    FlashinferCutedsl,
    /// Spelt `cutlass`.
    Cutlass,
    /// Spelt `triton`.
    Triton,
    /// Spelt `aiter`.
    Aiter,
}

/// Fp4 gemm runner backend: 6 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum Fp4GemmRunnerBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `flashinfer_cudnn`.
    #[config(name = "flashinfer_cudnn")]
    FlashinferCudnn,
    /// Spelt `flashinfer_cutedsl`.
    #[config(name = "flashinfer_cutedsl")]
    FlashinferCutedsl,
    /// Spelt `flashinfer_cutlass`.
    #[config(name = "flashinfer_cutlass")]
    FlashinferCutlass,
    /// Spelt `flashinfer_trtllm`.
    #[config(name = "flashinfer_trtllm")]
    FlashinferTrtllm,
    /// Spelt `marlin`.
    Marlin,
}

/// Bf16 gemm backend: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum Bf16GemmBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `cutedsl`.
    Cutedsl,
    /// Spelt `gemv`.
    Gemv,
    /// Spelt `torch`.
    Torch,
}

/// Dsa prefill backend: 12 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DsaPrefillBackend {
    /// Spelt `flashmla_sparse`.
    #[config(name = "flashmla_sparse")]
    FlashmlaSparse,
    /// Spelt `flashmla_sparse_q8`.
    #[config(name = "flashmla_sparse_q8")]
    FlashmlaSparseQ8,
    /// Spelt `flashmla_kv`.
    #[config(name = "flashmla_kv")]
    FlashmlaKv,
    /// Spelt `flashmla_auto`.
    #[config(name = "flashmla_auto")]
    FlashmlaAuto,
    /// Spelt `flashinfer_sparse_mla`.
    #[config(name = "flashinfer_sparse_mla")]
    FlashinferSparseMla,
    /// Spelt `triton_sparse_mla`.
    #[config(name = "triton_sparse_mla")]
    TritonSparseMla,
    /// Spelt `fa3`.
    Fa3,
    /// Spelt `tilelang`.
    Tilelang,
    /// Spelt `triton`.
    Triton,
    /// Spelt `aiter`.
    Aiter,
    /// Spelt `trtllm`.
    Trtllm,
    /// Spelt `intel_xpu`.
    #[config(name = "intel_xpu")]
    IntelXpu,
}

/// Dsv4 prefill backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum Dsv4PrefillBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `flashmla_sparse`.
    #[config(name = "flashmla_sparse")]
    FlashmlaSparse,
    /// Spelt `flashmla_sparse_q8`.
    #[config(name = "flashmla_sparse_q8")]
    FlashmlaSparseQ8,
}

/// Dsa decode backend: 11 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DsaDecodeBackend {
    /// Spelt `flashmla_sparse`.
    #[config(name = "flashmla_sparse")]
    FlashmlaSparse,
    /// Spelt `flashmla_sparse_q8`.
    #[config(name = "flashmla_sparse_q8")]
    FlashmlaSparseQ8,
    /// Spelt `flashmla_kv`.
    #[config(name = "flashmla_kv")]
    FlashmlaKv,
    /// Spelt `flashmla_auto`.
    #[config(name = "flashmla_auto")]
    FlashmlaAuto,
    /// Spelt `flashinfer_sparse_mla`.
    #[config(name = "flashinfer_sparse_mla")]
    FlashinferSparseMla,
    /// Spelt `fa3`.
    Fa3,
    /// Spelt `tilelang`.
    Tilelang,
    /// Spelt `triton`.
    Triton,
    /// Spelt `aiter`.
    Aiter,
    /// Spelt `trtllm`.
    Trtllm,
    /// Spelt `intel_xpu`.
    #[config(name = "intel_xpu")]
    IntelXpu,
}

/// Dsv4 attn backend: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum Dsv4AttnBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `flashmla`.
    Flashmla,
    /// Spelt `flashmla_mega`.
    #[config(name = "flashmla_mega")]
    FlashmlaMega,
    /// Spelt `trtllm`.
    Trtllm,
}

/// Dsa paged mqa logits backend: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DsaPagedMqaLogitsBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `deepgemm`.
    Deepgemm,
    /// Spelt `cutedsl`.
    Cutedsl,
    /// Spelt `aiter`.
    Aiter,
}

/// Dsa topk backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DsaTopkBackend {
    /// Spelt `sgl-kernel`.
    SglKernel,
    /// Spelt `torch`.
    Torch,
    /// Spelt `flashinfer`.
    Flashinfer,
}

/// Mamba backend: `triton` or `flashinfer`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum MambaBackend {
    /// Spelt `triton`.
    Triton,
    /// Spelt `flashinfer`.
    Flashinfer,
}

/// Ssm dtype: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SsmDtype {
    /// Spelt `float32`.
    Float32,
    /// Spelt `bfloat16`.
    Bfloat16,
    /// Spelt `float16`.
    Float16,
}

/// Mamba radix cache strategy: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum MambaRadixCacheStrategy {
    /// Spelt `auto`.
    Auto,
    /// Spelt `no_buffer`.
    #[config(name = "no_buffer")]
    NoBuffer,
    /// Spelt `extra_buffer`.
    #[config(name = "extra_buffer")]
    ExtraBuffer,
    /// Spelt `extra_buffer_lazy`.
    #[config(name = "extra_buffer_lazy")]
    ExtraBufferLazy,
}

/// Linear attn backend: 8 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum LinearAttnBackend {
    /// Spelt `triton`.
    Triton,
    /// Spelt `cutedsl`.
    Cutedsl,
    /// Spelt `flashinfer`.
    Flashinfer,
    /// Spelt `flashkda`.
    Flashkda,
    /// Spelt `nvidia_kda`.
    #[config(name = "nvidia_kda")]
    NvidiaKda,
    /// Spelt `ptx_kda`.
    #[config(name = "ptx_kda")]
    PtxKda,
    /// Spelt `helion`.
    Helion,
    /// Spelt `intel_xpu`.
    #[config(name = "intel_xpu")]
    IntelXpu,
}

/// Linear attn verify backend: 9 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum LinearAttnVerifyBackend {
    /// Spelt `triton`.
    Triton,
    /// Spelt `cutedsl`.
    Cutedsl,
    /// Spelt `flashinfer`.
    Flashinfer,
    /// Spelt `flashkda`.
    Flashkda,
    /// Spelt `nvidia_kda`.
    #[config(name = "nvidia_kda")]
    NvidiaKda,
    /// Spelt `ptx_kda`.
    #[config(name = "ptx_kda")]
    PtxKda,
    /// Spelt `helion`.
    Helion,
    /// Spelt `intel_xpu`.
    #[config(name = "intel_xpu")]
    IntelXpu,
    /// Spelt `nv_cutedsl`.
    #[config(name = "nv_cutedsl")]
    NvCutedsl,
}

/// Moe a2a backend: 12 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum MoeA2aBackend {
    /// Spelt `none`.
    None,
    /// Spelt `deepep`.
    Deepep,
    /// Spelt `mooncake`.
    Mooncake,
    /// Spelt `nixl`.
    Nixl,
    /// Spelt `mori`.
    Mori,
    /// Spelt `ascend_fuseep`.
    #[config(name = "ascend_fuseep")]
    AscendFuseep,
    /// Spelt `flashinfer`.
    Flashinfer,
    /// Spelt `megamoe`.
    Megamoe,
    /// Spelt `deepep_v2`.
    #[config(name = "deepep_v2")]
    DeepepV2,
    /// Spelt `pplx`.
    Pplx,
    /// Spelt `ascend_tp`.
    #[config(name = "ascend_tp")]
    AscendTp,
    /// Spelt `flashinfer_megamoe`.
    #[config(name = "flashinfer_megamoe")]
    FlashinferMegamoe,
}

/// Deepep v2 mode: `direct` or `hybrid`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DeepepV2Mode {
    /// Spelt `direct`.
    Direct,
    /// Spelt `hybrid`.
    Hybrid,
}

/// Moe runner backend: 22 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum MoeRunnerBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `deep_gemm`.
    #[config(name = "deep_gemm")]
    DeepGemm,
    /// Spelt `triton`.
    Triton,
    /// Spelt `triton_kernel`.
    #[config(name = "triton_kernel")]
    TritonKernel,
    /// Spelt `flashinfer_trtllm`.
    #[config(name = "flashinfer_trtllm")]
    FlashinferTrtllm,
    /// Spelt `experimental_sgl_trtllm`.
    #[config(name = "experimental_sgl_trtllm")]
    ExperimentalSglTrtllm,
    /// Spelt `flashinfer_trtllm_routed`.
    #[config(name = "flashinfer_trtllm_routed")]
    FlashinferTrtllmRouted,
    /// Spelt `flashinfer_cutlass`.
    #[config(name = "flashinfer_cutlass")]
    FlashinferCutlass,
    /// Spelt `flashinfer_mxfp4`.
    #[config(name = "flashinfer_mxfp4")]
    FlashinferMxfp4,
    /// Spelt `flashinfer_cutedsl`.
    #[config(name = "flashinfer_cutedsl")]
    FlashinferCutedsl,
    /// Spelt `flashinfer_megamoe`.
    #[config(name = "flashinfer_megamoe")]
    FlashinferMegamoe,
    /// Spelt `cutlass`.
    Cutlass,
    /// Spelt `aiter`.
    Aiter,
    /// Spelt `marlin`.
    Marlin,
    /// Spelt `humming`.
    Humming,
    /// Spelt `experimental_sgl_marlin`.
    #[config(name = "experimental_sgl_marlin")]
    ExperimentalSglMarlin,
    /// Spelt `lora_cutedsl`.
    #[config(name = "lora_cutedsl")]
    LoraCutedsl,
    /// Spelt `lora_triton`.
    #[config(name = "lora_triton")]
    LoraTriton,
    /// Spelt `lora_marlin`.
    #[config(name = "lora_marlin")]
    LoraMarlin,
    /// Spelt `hpc_ops`.
    #[config(name = "hpc_ops")]
    HpcOps,
    /// Spelt `megamoe`.
    Megamoe,
    /// Spelt `intel_xpu`.
    #[config(name = "intel_xpu")]
    IntelXpu,
}

/// Flashinfer mxfp4 moe precision: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum FlashinferMxfp4MoePrecision {
    /// Spelt `default`.
    Default,
    /// Spelt `bf16`.
    Bf16,
    /// Spelt `fp8`.
    Fp8,
}

/// Deepep mode: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DeepepMode {
    /// Spelt `auto`.
    Auto,
    /// Spelt `normal`.
    Normal,
    /// Spelt `low_latency`.
    #[config(name = "low_latency")]
    LowLatency,
}

/// Deepep dispatcher output dtype: 5 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DeepepDispatcherOutputDtype {
    /// Spelt `auto`.
    Auto,
    /// Spelt `bf16`.
    Bf16,
    /// Spelt `fp8`.
    Fp8,
    /// Spelt `int8`.
    Int8,
    /// Spelt `nvfp4`.
    Nvfp4,
}

/// Flashinfer a2a dispatch type: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum FlashinferA2aDispatchType {
    /// Spelt `auto`.
    Auto,
    /// Spelt `bf16`.
    Bf16,
    /// Spelt `nvfp4`.
    Nvfp4,
    /// Spelt `mxfp8`.
    Mxfp8,
}

/// Ep dispatch algorithm: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum EpDispatchAlgorithm {
    /// Spelt `static`.
    Static,
    /// Spelt `dynamic`.
    Dynamic,
    /// Spelt `fake`.
    Fake,
    /// Spelt `lp`.
    Lp,
}

/// Expert distribution recorder mode: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum ExpertDistributionRecorderMode {
    /// Spelt `stat`.
    Stat,
    /// Spelt `stat_approx`.
    #[config(name = "stat_approx")]
    StatApprox,
    /// Spelt `per_pass`.
    #[config(name = "per_pass")]
    PerPass,
    /// Spelt `per_token`.
    #[config(name = "per_token")]
    PerToken,
}

/// Expert balancedness report mode: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum ExpertBalancednessReportMode {
    /// Spelt `off`.
    Off,
    /// Spelt `server_log`.
    #[config(name = "server_log")]
    ServerLog,
    /// Spelt `prometheus`.
    Prometheus,
    /// Spelt `both`.
    Both,
}

/// Elastic ep backend: `mooncake` or `nixl`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum ElasticEpBackend {
    /// Spelt `mooncake`.
    Mooncake,
    /// Spelt `nixl`.
    Nixl,
}

/// Ep join mode: `scale` or `recover`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum EpJoinMode {
    /// Spelt `scale`.
    Scale,
    /// Spelt `recover`.
    Recover,
}

/// Ple offload backend: `pinned` or `file`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum PleOffloadBackend {
    /// Spelt `pinned`.
    Pinned,
    /// Spelt `file`.
    File,
}

/// Decoupled spec role: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DecoupledSpecRole {
    /// Spelt `null`.
    Null,
    /// Spelt `verifier`.
    Verifier,
    /// Spelt `drafter`.
    Drafter,
}

/// Disaggregation role: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DisaggregationRole {
    /// Spelt `null`.
    Null,
    /// Spelt `prefill`.
    Prefill,
    /// Spelt `decode`.
    Decode,
}

/// Disaggregation decode allocation policy: `early` or `prefill_complete`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DisaggregationDecodeAllocationPolicy {
    /// Spelt `early`.
    Early,
    /// Spelt `prefill_complete`.
    #[config(name = "prefill_complete")]
    PrefillComplete,
}

/// Disaggregation transfer backend: 6 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DisaggregationTransferBackend {
    /// Spelt `mooncake`.
    Mooncake,
    /// Spelt `nixl`.
    Nixl,
    /// Spelt `ascend`.
    Ascend,
    /// Spelt `fake`.
    Fake,
    /// Spelt `mori`.
    Mori,
    /// Spelt `mooncake_tcp`.
    #[config(name = "mooncake_tcp")]
    MooncakeTcp,
}

/// Disaggregation decode retraction backup: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DisaggregationDecodeRetractionBackup {
    /// Spelt `cpu_tensor`.
    #[config(name = "cpu_tensor")]
    CpuTensor,
    /// Spelt `host_pool`.
    #[config(name = "host_pool")]
    HostPool,
    /// Spelt `none`.
    None,
}

/// Encoder transfer backend: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum EncoderTransferBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `zmq_to_scheduler`.
    #[config(name = "zmq_to_scheduler")]
    ZmqToScheduler,
    /// Spelt `zmq_to_tokenizer`.
    #[config(name = "zmq_to_tokenizer")]
    ZmqToTokenizer,
    /// Spelt `mooncake`.
    Mooncake,
}

/// Lora eviction policy: `lru` or `fifo`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum LoraEvictionPolicy {
    /// Spelt `lru`.
    Lru,
    /// Spelt `fifo`.
    Fifo,
}

/// Lora backend: 5 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum LoraBackend {
    /// Spelt `triton`.
    Triton,
    /// Spelt `csgmv`.
    Csgmv,
    /// Spelt `ascend`.
    Ascend,
    /// Spelt `torch_native`.
    #[config(name = "torch_native")]
    TorchNative,
    /// Spelt `triton_v2`.
    #[config(name = "triton_v2")]
    TritonV2,
}

/// Radix eviction policy: 5 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum RadixEvictionPolicy {
    /// Spelt `lru`.
    Lru,
    /// Spelt `lfu`.
    Lfu,
    /// Spelt `slru`.
    Slru,
    /// Spelt `priority`.
    Priority,
    /// Spelt `tlru`.
    Tlru,
}

/// Hicache host memory mode: `cache` or `buffer_only`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum HicacheHostMemoryMode {
    /// Spelt `cache`.
    Cache,
    /// Spelt `buffer_only`.
    #[config(name = "buffer_only")]
    BufferOnly,
}

/// Hicache write policy: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum HicacheWritePolicy {
    /// Spelt `write_back`.
    #[config(name = "write_back")]
    WriteBack,
    /// Spelt `write_through`.
    #[config(name = "write_through")]
    WriteThrough,
    /// Spelt `write_through_selective`.
    #[config(name = "write_through_selective")]
    WriteThroughSelective,
}

/// Hicache io backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum HicacheIoBackend {
    /// Spelt `direct`.
    Direct,
    /// Spelt `kernel`.
    Kernel,
    /// Spelt `kernel_ascend`.
    #[config(name = "kernel_ascend")]
    KernelAscend,
}

/// Hicache mem layout: 5 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum HicacheMemLayout {
    /// Spelt `layer_first`.
    #[config(name = "layer_first")]
    LayerFirst,
    /// Spelt `page_first`.
    #[config(name = "page_first")]
    PageFirst,
    /// Spelt `page_first_direct`.
    #[config(name = "page_first_direct")]
    PageFirstDirect,
    /// Spelt `page_first_kv_split`.
    #[config(name = "page_first_kv_split")]
    PageFirstKvSplit,
    /// Spelt `page_head`.
    #[config(name = "page_head")]
    PageHead,
}

/// Hicache storage backend: 14 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum HicacheStorageBackend {
    /// Spelt `file`.
    File,
    /// Spelt `sim`.
    Sim,
    /// Spelt `mooncake`.
    Mooncake,
    /// Spelt `npu_memcache`.
    #[config(name = "npu_memcache")]
    NpuMemcache,
    /// Spelt `hf3fs`.
    Hf3fs,
    /// Spelt `nixl`.
    Nixl,
    /// Spelt `aibrix`.
    Aibrix,
    /// Spelt `dynamic`.
    Dynamic,
    /// Spelt `eic`.
    Eic,
    /// Spelt `simm`.
    Simm,
    /// Spelt `mori`.
    Mori,
    /// Spelt `shm`.
    Shm,
    /// Spelt `tensorcast`.
    Tensorcast,
    /// Spelt `seaweedfs`.
    Seaweedfs,
}

/// Hicache storage prefetch policy: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum HicacheStoragePrefetchPolicy {
    /// Spelt `best_effort`.
    #[config(name = "best_effort")]
    BestEffort,
    /// Spelt `wait_complete`.
    #[config(name = "wait_complete")]
    WaitComplete,
    /// Spelt `timeout`.
    Timeout,
}

/// Unified cache external linker backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum UnifiedCacheExternalLinkerBackend {
    /// Spelt `mooncake`.
    Mooncake,
    /// Spelt `mori`.
    Mori,
    /// Spelt `dynamic`.
    Dynamic,
}

/// Mm attention backend: 9 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum MmAttentionBackend {
    /// Spelt `sdpa`.
    Sdpa,
    /// Spelt `fa3`.
    Fa3,
    /// Spelt `fa4`.
    Fa4,
    /// Spelt `triton_attn`.
    #[config(name = "triton_attn")]
    TritonAttn,
    /// Spelt `ascend_attn`.
    #[config(name = "ascend_attn")]
    AscendAttn,
    /// Spelt `aiter_attn`.
    #[config(name = "aiter_attn")]
    AiterAttn,
    /// Spelt `flashinfer_cudnn`.
    #[config(name = "flashinfer_cudnn")]
    FlashinferCudnn,
    /// Spelt `amx_attn`.
    #[config(name = "amx_attn")]
    AmxAttn,
    /// Spelt `xpu_attn`.
    #[config(name = "xpu_attn")]
    XpuAttn,
}

/// Image processor backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum ImageProcessorBackend {
    /// Spelt `auto`.
    Auto,
    /// Spelt `torchvision`.
    Torchvision,
    /// Spelt `pil`.
    Pil,
}

/// Mm global cache backend: `mooncake`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum MmGlobalCacheBackend {
    /// Spelt `mooncake`.
    Mooncake,
}

/// Mm feature transport: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum MmFeatureTransport {
    /// Spelt `cpu`.
    Cpu,
    /// Spelt `cuda_ipc`.
    #[config(name = "cuda_ipc")]
    CudaIpc,
    /// Spelt `cuda_vmm`.
    #[config(name = "cuda_vmm")]
    CudaVmm,
}

/// Load format: 19 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum LoadFormat {
    /// Spelt `auto`.
    Auto,
    /// Spelt `pt`.
    Pt,
    /// Spelt `safetensors`.
    Safetensors,
    /// Spelt `instanttensor`.
    Instanttensor,
    /// Spelt `npcache`.
    Npcache,
    /// Spelt `dummy`.
    Dummy,
    /// Spelt `sharded_state`.
    #[config(name = "sharded_state")]
    ShardedState,
    /// Spelt `presharded`.
    Presharded,
    /// Spelt `gguf`.
    Gguf,
    /// Spelt `expert_pack`.
    #[config(name = "expert_pack")]
    ExpertPack,
    /// Spelt `bitsandbytes`.
    Bitsandbytes,
    /// Spelt `mistral`.
    Mistral,
    /// Spelt `layered`.
    Layered,
    /// Spelt `flash_rl`.
    #[config(name = "flash_rl")]
    FlashRl,
    /// Spelt `remote`.
    Remote,
    /// Spelt `remote_instance`.
    #[config(name = "remote_instance")]
    RemoteInstance,
    /// Spelt `fastsafetensors`.
    Fastsafetensors,
    /// Spelt `private`.
    Private,
    /// Spelt `runai_streamer`.
    #[config(name = "runai_streamer")]
    RunaiStreamer,
}

/// Model dtype: 6 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum ModelDtype {
    /// Spelt `auto`.
    Auto,
    /// Spelt `half`.
    Half,
    /// Spelt `float16`.
    Float16,
    /// Spelt `bfloat16`.
    Bfloat16,
    /// Spelt `float`.
    Float,
    /// Spelt `float32`.
    Float32,
}

/// Quantization: 31 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum Quantization {
    /// Spelt `awq`.
    Awq,
    /// Spelt `fp8`.
    Fp8,
    /// Spelt `mxfp8`.
    Mxfp8,
    /// Spelt `gptq`.
    Gptq,
    /// Spelt `gptq_marlin`.
    #[config(name = "gptq_marlin")]
    GptqMarlin,
    /// Spelt `awq_marlin`.
    #[config(name = "awq_marlin")]
    AwqMarlin,
    /// Spelt `bitsandbytes`.
    Bitsandbytes,
    /// Spelt `gguf`.
    Gguf,
    /// Spelt `modelopt`.
    Modelopt,
    /// Spelt `modelopt_fp8`.
    #[config(name = "modelopt_fp8")]
    ModeloptFp8,
    /// Spelt `modelopt_fp4`.
    #[config(name = "modelopt_fp4")]
    ModeloptFp4,
    /// Spelt `nvfp4_online`.
    #[config(name = "nvfp4_online")]
    Nvfp4Online,
    /// Spelt `modelopt_mixed`.
    #[config(name = "modelopt_mixed")]
    ModeloptMixed,
    /// Spelt `petit_nvfp4`.
    #[config(name = "petit_nvfp4")]
    PetitNvfp4,
    /// Spelt `w8a8_int8`.
    #[config(name = "w8a8_int8")]
    W8a8Int8,
    /// Spelt `w8a8_fp8`.
    #[config(name = "w8a8_fp8")]
    W8a8Fp8,
    /// Spelt `moe_wna16`.
    #[config(name = "moe_wna16")]
    MoeWna16,
    /// Spelt `w4afp8`.
    W4afp8,
    /// Spelt `mxfp4`.
    Mxfp4,
    /// Spelt `auto-round`.
    AutoRound,
    /// Spelt `auto-round-int8`.
    AutoRoundInt8,
    /// Spelt `compressed-tensors`.
    CompressedTensors,
    /// Spelt `modelslim`.
    Modelslim,
    /// Spelt `mxfp_w4a8`.
    #[config(name = "mxfp_w4a8")]
    MxfpW4a8,
    /// Spelt `quark`.
    Quark,
    /// Spelt `quark_int4fp8_moe`.
    #[config(name = "quark_int4fp8_moe")]
    QuarkInt4fp8Moe,
    /// Spelt `quark_mxfp4`.
    #[config(name = "quark_mxfp4")]
    QuarkMxfp4,
    /// Spelt `mlx_q4`.
    #[config(name = "mlx_q4")]
    MlxQ4,
    /// Spelt `mlx_q8`.
    #[config(name = "mlx_q8")]
    MlxQ8,
    /// Spelt `unquant`.
    Unquant,
    /// Spelt `humming`.
    Humming,
}

/// Kv cache dtype: 8 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum KvCacheDtype {
    /// Spelt `auto`.
    Auto,
    /// Spelt `fp8_e5m2`.
    #[config(name = "fp8_e5m2")]
    Fp8E5m2,
    /// Spelt `fp8_e4m3`.
    #[config(name = "fp8_e4m3")]
    Fp8E4m3,
    /// Spelt `mxfp8`.
    Mxfp8,
    /// Spelt `bf16`.
    Bf16,
    /// Spelt `bfloat16`.
    Bfloat16,
    /// Spelt `nvfp4`.
    Nvfp4,
    /// Spelt `fp4_mx_block16`.
    #[config(name = "fp4_mx_block16")]
    Fp4MxBlock16,
}

/// Qsa indexer dtype: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum QsaIndexerDtype {
    /// Spelt `auto`.
    Auto,
    /// Spelt `bfloat16`.
    Bfloat16,
    /// Spelt `fp8_e4m3`.
    #[config(name = "fp8_e4m3")]
    Fp8E4m3,
}

/// Startup weight load mode: `serial` or `overlap`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum StartupWeightLoadMode {
    /// Spelt `serial`.
    Serial,
    /// Spelt `overlap`.
    Overlap,
}

/// Remote instance weight loader backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum RemoteInstanceWeightLoaderBackend {
    /// Spelt `transfer_engine`.
    #[config(name = "transfer_engine")]
    TransferEngine,
    /// Spelt `nccl`.
    Nccl,
    /// Spelt `modelexpress`.
    Modelexpress,
}

/// Weight cache mode: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum WeightCacheMode {
    /// Spelt `off`.
    Off,
    /// Spelt `daemon`.
    Daemon,
    /// Spelt `client`.
    Client,
}

/// Log format: `text` or `json`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum LogFormat {
    /// Spelt `text`.
    Text,
    /// Spelt `json`.
    Json,
}

/// Kv canary: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum KvCanary {
    /// Spelt `none`.
    None,
    /// Spelt `log`.
    Log,
    /// Spelt `raise`.
    Raise,
}

/// Load balance method: 5 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum LoadBalanceMethod {
    /// Spelt `auto`.
    Auto,
    /// Spelt `round_robin`.
    #[config(name = "round_robin")]
    RoundRobin,
    /// Spelt `follow_bootstrap_room`.
    #[config(name = "follow_bootstrap_room")]
    FollowBootstrapRoom,
    /// Spelt `total_requests`.
    #[config(name = "total_requests")]
    TotalRequests,
    /// Spelt `total_tokens`.
    #[config(name = "total_tokens")]
    TotalTokens,
}

/// Dcp comm backend: 3 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum DcpCommBackend {
    /// Spelt `ag_rs`.
    #[config(name = "ag_rs")]
    AgRs,
    /// Spelt `a2a`.
    A2a,
    /// Spelt `fi_a2a`.
    #[config(name = "fi_a2a")]
    FiA2a,
}

/// Cp strategy: `zigzag` or `interleave`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum CpStrategy {
    /// Spelt `zigzag`.
    Zigzag,
    /// Spelt `interleave`.
    Interleave,
}

/// Schedule policy: 9 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SchedulePolicy {
    /// Spelt `lpm`.
    Lpm,
    /// Spelt `random`.
    Random,
    /// Spelt `fcfs`.
    Fcfs,
    /// Spelt `dfs-weight`.
    DfsWeight,
    /// Spelt `lof`.
    Lof,
    /// Spelt `priority`.
    Priority,
    /// Spelt `routing-key`.
    RoutingKey,
    /// Spelt `hrrn`.
    Hrrn,
    /// Spelt `shortest-prefill-first`.
    ShortestPrefillFirst,
}

/// Retraction policy: `length` or `priority`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum RetractionPolicy {
    /// Spelt `length`.
    Length,
    /// Spelt `priority`.
    Priority,
}

/// Tokenizer mode: `auto` or `slow`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum TokenizerMode {
    /// Spelt `auto`.
    Auto,
    /// Spelt `slow`.
    Slow,
}

/// Tokenizer backend: `huggingface` or `fastokens`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum TokenizerBackend {
    /// Spelt `huggingface`.
    Huggingface,
    /// Spelt `fastokens`.
    Fastokens,
}

/// Sampling defaults: `openai` or `model`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SamplingDefaults {
    /// Spelt `openai`.
    Openai,
    /// Spelt `model`.
    Model,
}

/// Speculative boundary reduction: 4 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SpeculativeBoundaryReduction {
    /// Spelt `ar`.
    Ar,
    /// Spelt `rs`.
    Rs,
    /// Spelt `rsv`.
    Rsv,
    /// Spelt `rs+rsv`.
    #[config(name = "rs+rsv")]
    RsPlusRsv,
}

/// Speculative attention: `prefill` or `decode`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SpeculativeAttention {
    /// Spelt `prefill`.
    Prefill,
    /// Spelt `decode`.
    Decode,
}

/// Speculative draft kv cache dtype: 5 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SpeculativeDraftKvCacheDtype {
    /// Spelt `auto`.
    Auto,
    /// Spelt `fp8_e5m2`.
    #[config(name = "fp8_e5m2")]
    Fp8E5m2,
    /// Spelt `fp8_e4m3`.
    #[config(name = "fp8_e4m3")]
    Fp8E4m3,
    /// Spelt `bf16`.
    Bf16,
    /// Spelt `bfloat16`.
    Bfloat16,
}

/// Speculative moe a2a backend: 11 choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SpeculativeMoeA2aBackend {
    /// Spelt `none`.
    None,
    /// Spelt `deepep`.
    Deepep,
    /// Spelt `mooncake`.
    Mooncake,
    /// Spelt `nixl`.
    Nixl,
    /// Spelt `mori`.
    Mori,
    /// Spelt `ascend_fuseep`.
    #[config(name = "ascend_fuseep")]
    AscendFuseep,
    /// Spelt `flashinfer`.
    Flashinfer,
    /// Spelt `megamoe`.
    Megamoe,
    /// Spelt `deepep_v2`.
    #[config(name = "deepep_v2")]
    DeepepV2,
    /// Spelt `pplx`.
    Pplx,
    /// Spelt `ascend_tp`.
    #[config(name = "ascend_tp")]
    AscendTp,
}

/// Speculative ngram match type: `BFS` or `PROB`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ConfigChoice)]
pub enum SpeculativeNgramMatchType {
    /// Spelt `BFS`.
    #[config(name = "BFS")]
    Bfs,
    /// Spelt `PROB`.
    #[config(name = "PROB")]
    Prob,
}
