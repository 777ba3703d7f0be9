//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::time::Duration;

use kitbag::ConfigNamespaces;

use crate::choices::{CpStrategy, DcpCommBackend, LoadBalanceMethod};
use crate::{derived, rules};

/// Widths of all kinds of parallelism, and node layout.
#[derive(ConfigNamespaces)]
#[config(
    ns = "parallel",
    derived(
        /// Ranks that share an attention head's work.
        attn_tp_size: usize = derived::attn_tp_size(tp_size, attn_dp_size, attn_cp_size),
        /// Ranks that take requests of their own.
        #[cases(tp_size = [8], dp_size = [1, 4], attn_dp_size = [1, 2, 8])]
        num_dp_ranks: usize = derived::num_dp_ranks(dp_size, attn_dp_size),
        /// Width of decode context parallelism as attention sees it.
        attn_dcp_size: usize = derived::attn_dcp_size(dcp_size),
        /// Width of expert parallelism.
        #[cases(tp_size = [8], ep_size = [1, 4, 8])]
        moe_ep_size: usize = derived::moe_ep_size(ep_size),
        /// Ranks that share one expert.
        moe_tp_size: usize = derived::moe_tp_size(tp_size, ep_size, moe_dp_size),
        /// Decode context parallelism is on.
        dcp_enabled: bool = derived::dcp_enabled(dcp_size),
        /// Ranks at launch, those of the engine joined included.
        at_publish launch_world_size: usize = derived::launch_world_size(ep_join_rank_offset, tp_size, pp_size),
        /// Ranks there may ever be.
        at_publish max_world_size: usize = derived::max_world_size(max_ep_size, launch_world_size),
    ),
    validate(
        rules::attention_divides(tp_size, attn_dp_size, attn_cp_size),
        rules::experts_divide(tp_size, ep_size, moe_dp_size),
        rules::one_data_parallelism(dp_size, attn_dp_size),
        rules::node_is_known(node_rank, nnodes),
    )
)]
pub struct Parallel {
    /// Rendezvous port; unset picks a free one.
    nccl_port: Option<u16>,
    /// Distributed init timeout.
    dist_timeout: Option<Duration>,
    /// Rendezvous address.
    dist_init_addr: Option<String>,
    /// Block all ranks until an external activation call.
    gated_launch_port: Option<u16>,
    /// Number of nodes.
    #[config(default = 1, range = 1..)]
    nnodes: usize,
    /// Index of this node.
    #[config(default = 0)]
    node_rank: usize,
    /// Tensor-parallel width.
    #[config(default = 1, range = 1..)]
    tp_size: usize,
    /// Decode context-parallel width.
    #[config(default = 1, range = 1..)]
    dcp_size: usize,
    /// Pipeline stages.
    #[config(default = 1, range = 1..)]
    pp_size: usize,
    /// Micro-batch cap; scheduler fills a default after publish.
    #[config(hot)]
    pp_max_micro_batch_size: Option<usize>,
    /// Batches in flight in the pipeline.
    #[config(default = 0)]
    pp_async_batch_depth: usize,
    /// Independent model replicas.
    #[config(default = 1, range = 1.., load_time)]
    dp_size: usize,
    /// Attention data-parallel groups inside one TP group.
    #[config(default = 1, range = 1.., load_time)]
    attn_dp_size: usize,
    /// How DP ranks get requests; auto resolves.
    #[config(default = LoadBalanceMethod::Auto)]
    load_balance_method: LoadBalanceMethod,
    /// Attention context-parallel width.
    #[config(default = 1, range = 1.., load_time)]
    attn_cp_size: usize,
    /// `MoE` data-parallel width.
    #[config(default = 1, range = 1..)]
    moe_dp_size: usize,
    /// Distributed weight data parallel group; must equal TP.
    #[config(default = 1, range = 1..)]
    dwdp_size: usize,
    /// Collective for the DCP reduction; unset resolves per host.
    #[config(load_time)]
    dcp_comm_backend: Option<DcpCommBackend>,
    /// Replicate the Q projection under DCP; tri-state.
    #[config(load_time)]
    dcp_replicate_q_proj: Option<bool>,
    /// Context parallel prefill.
    #[config(default = false)]
    enable_prefill_cp: bool,
    /// Zigzag or interleave sharding.
    cp_strategy: Option<CpStrategy>,
    /// Resolved: CP group is the TP group (no CLI).
    #[config(default = false, load_time)]
    enable_cp_tp_group_sharing: bool,
    /// Split sparse-attention cache layers over CP ranks.
    #[config(default = false)]
    enable_dsa_cache_layer_split: bool,
    /// Slice attention weights during decode under CP.
    #[config(default = false)]
    enable_cp_decode_attn_tp: bool,
    /// Shard resident KV by page over the replicating group.
    #[config(default = false)]
    enable_kv_cache_sharding: bool,
    /// Deprecated boolean, turned into `attn_dp_size` (no CLI).
    #[config(default = false, load_time)]
    enable_dp_attention: bool,
    /// Control messages per DP group instead of whole TP.
    #[config(default = false)]
    enable_dp_attention_local_control_broadcast: bool,
    /// Vocabulary split over attention TP.
    #[config(default = false, load_time)]
    enable_dp_lm_head: bool,
    /// All-to-all LM head; tri-state default.
    #[config(load_time)]
    enable_tp_lm_head_all_to_all: Option<bool>,
    /// Scattered attention input.
    #[config(default = false, load_time)]
    enable_attn_tp_input_scattered: bool,
    /// Shared expert sharded over attention TP.
    #[config(default = false)]
    enable_shared_experts_attn_tp: bool,
    /// Explicit shared-expert TP width.
    #[config(range = 1..)]
    shared_experts_tp_size: Option<usize>,
    /// Dense MLP sharded over attention TP.
    #[config(default = false)]
    enable_dense_mlp_attn_tp: bool,
    /// Sequence parallel layer norm in prefill.
    #[config(default = false)]
    enable_layernorm_sp: bool,
    /// `MegaMoE` inside that mode.
    #[config(default = false)]
    enable_megamoe_for_layernorm_sp: bool,
    /// Skip scheduler-side attention TP gather.
    #[config(default = false)]
    disable_attn_tp_gather: bool,
    /// Verify GPU peer access.
    #[config(default = false)]
    enable_p2p_check: bool,
    /// Expert-parallel width; widened by A2A backends and at run time.
    #[config(default = 1, range = 1.., hot)]
    ep_size: usize,
    /// TP width of dense `MLPs` in `MoE` models.
    #[config(range = 1.., load_time)]
    moe_dense_tp_size: Option<usize>,
    /// First global rank of a joining group.
    #[config(default = 0, flag = "elastic-ep-join-rank-offset")]
    ep_join_rank_offset: usize,
    /// EP width that fixes the expert storage layout.
    elastic_ep_initial_size: Option<usize>,
    /// Largest EP width allowed at run time.
    #[config(range = 1..)]
    max_ep_size: Option<usize>,
}
