//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

use crate::choices::HiddenStates;

/// What a forward pass returns besides tokens, and numeric switches.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.features")]
pub struct ExecFeatures {
    /// Compute logits in FP32.
    #[config(default = false)]
    enable_fp32_lm_head: bool,
    /// Allow TF32 matmuls; None defers to model, then false.
    #[config(load_time)]
    enable_tf32_matmul: Option<bool>,
    /// Allow releasing and resuming GPU memory.
    #[config(default = false)]
    enable_memory_saver: bool,
    /// Keep a host copy of all weights across release.
    #[config(default = false)]
    enable_weights_cpu_backup: bool,
    /// Same, draft weights only.
    #[config(default = false)]
    enable_draft_weights_cpu_backup: bool,
    /// Accept user-supplied logit processors (off for safety).
    #[config(default = false)]
    enable_custom_logit_processor: bool,
    /// Statistical text watermarking.
    #[config(default = false)]
    enable_watermark: bool,
    /// JSON or file; expanded into the `watermark_*` fields.
    watermark_config: Option<String>,
    /// Secret derived from the watermark config (redact).
    #[config(load_time)]
    watermark_key: Option<String>,
    /// Second secret derived from the watermark config (redact).
    #[config(load_time)]
    watermark_key_b: Option<String>,
    /// Tokens of context hashed by the watermark.
    #[config(default = 4, load_time)]
    watermark_context_window: usize,
    /// Watermark mixing weight.
    #[config(default = 0.5, range = 0.0..=1.0, load_time)]
    watermark_mixing_probability: f64,
    /// Probability ceiling for watermarking.
    #[config(default = 1.0, range = 0.0..=1.0, load_time)]
    watermark_max_probability: f64,
    /// Watermark requests that do not say.
    #[config(default = false, load_time)]
    watermark_default_enabled: bool,
    /// Watermark every request.
    #[config(default = false, load_time)]
    watermark_enforce_all: bool,
    /// Legacy switch equal to mode full.
    #[config(default = false)]
    enable_return_hidden_states: bool,
    /// Largest hidden-state return mode allowed: last or full.
    return_hidden_states_mode: Option<HiddenStates>,
    /// Capture auxiliary target states without a draft.
    #[config(default = false)]
    enable_return_aux_hidden_states: bool,
    /// Resolved capture convention for auxiliary states.
    #[config(load_time)]
    aux_hidden_state_capture: Option<String>,
    /// Target layers captured for auxiliary states.
    return_aux_hidden_state_layer_ids: Option<Vec<usize>>,
    /// Return expert routing per layer.
    #[config(default = false)]
    enable_return_routed_experts: bool,
    /// Return sparse-index top-k per layer.
    #[config(default = false)]
    enable_return_indexer_topk: bool,
    /// `DeepSeek-V4.1` encoder: rebuild SWA window instead of caching.
    #[config(default = false)]
    enable_encoder_swa_bounded_replay: bool,
    /// Decoder counterpart; may be on by default.
    #[config(load_time)]
    enable_decoder_swa_bounded_replay: Option<bool>,
    /// Limit of token ids in a returned sampling mask.
    #[config(default = 4096)]
    sampling_mask_max_tokens: usize,
    /// No on-disk cache for the outlines grammar engine.
    #[config(default = false)]
    disable_outlines_disk_cache: bool,
    /// Multi-item scoring in one sequence.
    #[config(default = false)]
    enable_mis: bool,
}
