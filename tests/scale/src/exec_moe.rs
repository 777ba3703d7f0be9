//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::path::PathBuf;
use std::time::Duration;

use kitbag::ConfigNamespaces;

use crate::choices::{
    DeepepDispatcherOutputDtype, DeepepMode, DeepepV2Mode, ElasticEpBackend, EpDispatchAlgorithm, EpJoinMode,
    ExpertBalancednessReportMode, ExpertDistributionRecorderMode, FlashinferA2aDispatchType,
    FlashinferMxfp4MoePrecision, MoeA2aBackend, MoeRunnerBackend,
};
use crate::derived;

/// Mixture-of-experts layers.
#[derive(ConfigNamespaces)]
#[config(
    ns = "exec.moe",
    derived(
        /// This process joins a running engine.
        is_ep_joiner: bool = derived::is_ep_joiner(ep_join_mode),
        /// It joins to widen the engine, not to replace a rank.
        is_ep_scale_joiner: bool = derived::is_ep_scale_joiner(ep_join_mode),
    )
)]
pub struct ExecMoe {
    /// Fuse expert sum with the all-reduce in the Triton `MoE`.
    #[config(default = false)]
    enable_fused_moe_sum_all_reduce: bool,
    /// Expert all-to-all dispatcher.
    #[config(default = MoeA2aBackend::None, load_time)]
    moe_a2a_backend: MoeA2aBackend,
    /// 4-bit x 4-bit MXFP4 `MegaMoE` kernel.
    #[config(default = false)]
    enable_w4a4_mxfp4_megamoe: bool,
    /// `DeepEP` v2 topology fixed at start: direct or hybrid.
    #[config(default = DeepepV2Mode::Direct)]
    deepep_v2_mode: DeepepV2Mode,
    /// Kernel family that runs the experts.
    #[config(default = MoeRunnerBackend::Auto, load_time)]
    moe_runner_backend: MoeRunnerBackend,
    /// Compute precision of `FlashInfer` MXFP4 experts.
    #[config(default = FlashinferMxfp4MoePrecision::Default)]
    flashinfer_mxfp4_moe_precision: FlashinferMxfp4MoePrecision,
    /// Normal / `low_latency` / auto dispatch mode.
    #[config(default = DeepepMode::Auto)]
    deepep_mode: DeepepMode,
    /// Ascend fused-EP kernel variant.
    #[config(default = 2, range = 1..=2)]
    fuseep_mode: usize,
    /// Dtype emitted by the `DeepEP` dispatcher.
    #[config(default = DeepepDispatcherOutputDtype::Auto)]
    deepep_dispatcher_output_dtype: DeepepDispatcherOutputDtype,
    /// Activation dtype of the `FlashInfer` dispatcher.
    flashinfer_a2a_dispatch_type: Option<FlashinferA2aDispatchType>,
    /// Spare expert copies for load balancing.
    #[config(default = 0)]
    ep_num_redundant_experts: usize,
    /// How a rank is chosen among redundant copies.
    ep_dispatch_algorithm: Option<EpDispatchAlgorithm>,
    /// Initial expert placement; trivial or a file/JSON.
    #[config(default = "trivial")]
    init_expert_location: String,
    /// Dynamic expert placement balancing.
    #[config(default = false)]
    enable_eplb: bool,
    /// Placement algorithm.
    #[config(default = "auto")]
    eplb_algorithm: String,
    /// Forward passes between rebalances.
    #[config(default = 1000)]
    eplb_rebalance_num_iterations: usize,
    /// Layers moved per forward while rebalancing.
    eplb_rebalance_layers_per_chunk: Option<usize>,
    /// Skip rebalancing when utilisation is above this.
    #[config(default = 1.0, range = 0.0..=1.0)]
    eplb_min_rebalancing_utilization_threshold: f64,
    /// Granularity of expert usage recording.
    expert_distribution_recorder_mode: Option<ExpertDistributionRecorderMode>,
    /// Ring size of the recorder; -1 unbounded.
    expert_distribution_recorder_buffer_size: Option<usize>,
    /// Off / `server_log` / prometheus / both.
    #[config(default = ExpertBalancednessReportMode::Off)]
    expert_balancedness_report_mode: ExpertBalancednessReportMode,
    /// Tuned `DeepEP` parameters, JSON text or path.
    deepep_config: Option<String>,
    /// Collective backend for elastic expert parallelism.
    elastic_ep_backend: Option<ElasticEpBackend>,
    /// Keep backup copies of expert weights for recovery.
    #[config(default = false)]
    enable_elastic_expert_backup: bool,
    /// NIC selection for Mooncake transfers.
    mooncake_ib_device: Option<String>,
    /// Route the shared expert as an extra slot to the least-loaded rank.
    #[config(default = false)]
    enable_waterfill: bool,
    /// Recover (rejoin a slot) or scale (new rank) for elastic EP.
    #[config(flag = "elastic-ep-join-mode")]
    ep_join_mode: Option<EpJoinMode>,
    /// Seconds allowed for a pending scale operation.
    #[config(default = "600s")]
    elastic_ep_scale_timeout: Duration,
    /// Skip quantise-before-gather for the cutlass FP4 `MoE`.
    #[config(default = false)]
    disable_flashinfer_cutlass_moe_fp4_allgather: bool,
    /// Keep shared experts out of the routed kernel.
    #[config(default = false, load_time)]
    disable_shared_experts_fusion: bool,
    /// Fuse shared experts even where normally disabled.
    #[config(default = false)]
    enforce_shared_experts_fusion: bool,
    /// Page routed experts between host and GPU.
    #[config(default = false)]
    enable_paged_experts: bool,
    /// Experts per layer kept on GPU when paging.
    paged_experts_num_resident: Option<usize>,
    /// Ktransformers: CPU expert weights folder.
    kt_weight_path: Option<PathBuf>,
    /// Ktransformers: CPU weight format.
    #[config(default = "AMXINT4")]
    kt_method: String,
    /// Ktransformers: CPU worker threads.
    kt_cpuinfer: Option<usize>,
    /// Ktransformers: thread pools, one per NUMA node.
    #[config(default = 2)]
    kt_threadpool_count: usize,
    /// Ktransformers: experts kept on GPU.
    kt_num_gpu_experts: Option<usize>,
    /// Ktransformers: experts deferred to CPU per token.
    kt_max_deferred_experts_per_token: Option<usize>,
}
