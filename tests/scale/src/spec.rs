//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::path::PathBuf;

use kitbag::ConfigNamespaces;

use crate::choices::{
    DsaTopkBackend, LoadFormat, MoeRunnerBackend, Quantization, SpeculativeAttention, SpeculativeBoundaryReduction,
    SpeculativeDraftKvCacheDtype, SpeculativeMoeA2aBackend, SpeculativeNgramMatchType,
};
use crate::derived;

/// Speculative decoding.
#[derive(ConfigNamespaces)]
#[config(
    ns = "spec",
    derived(
        /// Draft tokens that buffers are built for.
        at_launch max_speculative_num_draft_tokens: Option<usize> = derived::max_speculative_num_draft_tokens(
            speculative_num_draft_tokens,
            speculative_adaptive,
            speculative_adaptive_config
        ),
    )
)]
pub struct Spec {
    /// Drafting scheme, builtin or registered; None = off.
    speculative_algorithm: Option<String>,
    /// Draft `LoRA` for UNO.
    uno_lora_path: Option<PathBuf>,
    /// Draft weights location.
    speculative_draft_model_path: Option<String>,
    /// Resolved FFN-boundary collective for the draft.
    #[config(default = SpeculativeBoundaryReduction::RsPlusRsv, load_time)]
    speculative_boundary_reduction: SpeculativeBoundaryReduction,
    /// Hub revision of the draft.
    speculative_draft_model_revision: Option<String>,
    /// Loader for the draft; None = same as target.
    speculative_draft_load_format: Option<LoadFormat>,
    /// Draft steps per round.
    #[config(hot)]
    speculative_num_steps: Option<usize>,
    /// Branches per draft step.
    speculative_eagle_topk: Option<usize>,
    /// Tokens verified per round.
    #[config(range = 1.., hot)]
    speculative_num_draft_tokens: Option<usize>,
    /// DFLASH name for the verify window.
    speculative_dflash_block_size: Option<usize>,
    /// Domino candidate pool; 0 = whole vocabulary.
    #[config(default = 2048)]
    speculative_domino_candidate_pool_size: usize,
    /// DSPARK draft block; window is block+1.
    speculative_dspark_block_size: Option<usize>,
    /// Profiled cost table for DSPARK planning.
    speculative_dspark_sps_table_path: Option<PathBuf>,
    /// Temperature calibration for DSPARK confidence.
    speculative_dspark_confidence_sts_path: Option<PathBuf>,
    /// Pad DSPARK verify tokens up to a captured size.
    #[config(default = false)]
    speculative_dspark_align_verify_tokens_to_graph_tier: bool,
    /// Accept outright above this target probability.
    #[config(default = 1.0, range = 0.0..=1.0, hot)]
    speculative_accept_threshold_single: f64,
    /// Relaxes acceptance by dividing by this.
    #[config(default = 1.0, range = 0.0..=1.0, hot)]
    speculative_accept_threshold_acc: f64,
    /// Rejection sampling (topk 1 only).
    #[config(default = false)]
    speculative_use_rejection_sampling: bool,
    /// Verify a block at once (topk 1).
    #[config(default = false)]
    speculative_use_block_verification: bool,
    /// Reduced draft vocabulary map.
    speculative_token_map: Option<String>,
    /// Which half (prefill/decode) serves verify and draft-extend.
    #[config(default = SpeculativeAttention::Prefill, load_time)]
    speculative_attention_mode: SpeculativeAttention,
    /// Attention kernels of the draft.
    #[config(load_time)]
    speculative_draft_attention_backend: Option<String>,
    /// DSA index top-k kernel for the draft.
    #[config(default = DsaTopkBackend::SglKernel)]
    speculative_dsa_topk_backend: DsaTopkBackend,
    /// KV type of the draft pool only.
    #[config(load_time)]
    speculative_draft_kv_cache_dtype: Option<SpeculativeDraftKvCacheDtype>,
    /// Sliding window of the draft.
    speculative_draft_window_size: Option<usize>,
    /// Always-visible leading tokens for the draft.
    speculative_draft_sink_size: Option<usize>,
    /// Expert kernels of the draft; defaults from target.
    #[config(load_time)]
    speculative_moe_runner_backend: Option<MoeRunnerBackend>,
    /// Expert dispatcher of the draft; defaults from target.
    #[config(load_time)]
    speculative_moe_a2a_backend: Option<SpeculativeMoeA2aBackend>,
    /// Tri-state `MegaMoE` type for the draft.
    speculative_enable_w4a4_mxfp4_megamoe: Option<bool>,
    /// Quantisation of the draft.
    speculative_draft_model_quantization: Option<Quantization>,
    /// EAGLE with several draft layers.
    #[config(default = false, load_time)]
    enable_multi_layer_eagle: bool,
    /// Change draft steps at run time by acceptance.
    #[config(default = false)]
    speculative_adaptive: bool,
    /// JSON tuning for adaptive drafting.
    speculative_adaptive_config: Option<Vec<usize>>,
    /// Folder for split-spec traces.
    spec_trace_dir: Option<PathBuf>,
    /// Minimum tree breadth of n-gram drafting.
    #[config(default = 1)]
    speculative_ngram_min_bfs_breadth: usize,
    /// Maximum tree breadth of n-gram drafting.
    #[config(default = 10)]
    speculative_ngram_max_bfs_breadth: usize,
    /// Matching rule of the n-gram tree.
    #[config(default = SpeculativeNgramMatchType::Bfs)]
    speculative_ngram_match_type: SpeculativeNgramMatchType,
    /// Depth bound of the n-gram tree.
    #[config(default = 18)]
    speculative_ngram_max_trie_depth: usize,
    /// Entries kept by the n-gram tree.
    #[config(default = 10_000_000)]
    speculative_ngram_capacity: usize,
    /// JSONL corpus preloaded into the suffix automaton.
    speculative_ngram_external_corpus_path: Option<PathBuf>,
    /// Draft nodes reserved for the external corpus.
    #[config(default = 0)]
    speculative_ngram_external_sam_budget: usize,
    /// Refuse corpora above this token count.
    #[config(default = 10_000_000)]
    speculative_ngram_external_corpus_max_tokens: usize,
}
