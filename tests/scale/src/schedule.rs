//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

use crate::choices::{RetractionPolicy, SchedulePolicy};

/// How requests are admitted and batched.
#[derive(ConfigNamespaces)]
#[config(ns = "schedule")]
pub struct Schedule {
    /// Fraction of memory for weights plus KV; heuristic default.
    #[config(range = 0.0..=1.0)]
    mem_fraction_static: Option<f64>,
    /// Concurrent request cap.
    max_running_requests: Option<usize>,
    /// Queue cap.
    max_queued_requests: Option<usize>,
    /// KV pool tokens; computed when unset.
    max_total_tokens: Option<usize>,
    /// Prefill chunk tokens; -1 disables.
    chunked_prefill_size: Option<i64>,
    /// Decode rounds between prefills.
    #[config(load_time)]
    prefill_decode_interval: Option<usize>,
    /// Apply that spacing only above this batch size.
    #[config(default = 0)]
    prefill_decode_interval_min_bs: usize,
    /// Vary chunk size under pipeline parallelism.
    #[config(default = false)]
    enable_dynamic_chunking: bool,
    /// Tokens per prefill batch.
    #[config(default = 16384)]
    max_prefill_tokens: usize,
    /// Requests per prefill batch.
    prefill_max_requests: Option<usize>,
    /// Queue order.
    #[config(default = SchedulePolicy::Fcfs)]
    schedule_policy: SchedulePolicy,
    /// Honour request priority.
    #[config(default = false)]
    enable_priority_scheduling: bool,
    /// Priority without preemption.
    #[config(default = false)]
    disable_priority_preemption: bool,
    /// Priority of unlabelled requests.
    default_priority_value: Option<i64>,
    /// Reject labelled requests if priorities are off.
    #[config(default = false)]
    abort_on_priority_when_disabled: bool,
    /// Invert priority order.
    #[config(default = false)]
    schedule_low_priority_values_first: bool,
    /// Gap needed to preempt.
    #[config(default = 10)]
    priority_scheduling_preemption_threshold: i64,
    /// Which decode request is retracted.
    #[config(default = RetractionPolicy::Length)]
    retraction_policy: RetractionPolicy,
    /// Admission caution; scaled by 0.3 under attention DP.
    #[config(default = 1.0)]
    schedule_conservativeness: f64,
    /// KV page tokens; heavily rewritten by resolution.
    #[config(range = 1.., load_time)]
    page_size: Option<usize>,
    /// NPU C128 cache page.
    #[config(default = 16)]
    c128_page_size: usize,
    /// Sliding-window pool versus full pool; fallback 0.8.
    #[config(range = 0.0..=1.0, load_time)]
    swa_full_tokens_ratio: Option<f64>,
    /// Cached prefix tails kept in the SWA pool.
    swa_prefix_tails: Option<usize>,
    /// Single pool instead of hybrid SWA.
    #[config(default = false, load_time)]
    disable_hybrid_swa_memory: bool,
    /// No KV pool for embedding-only work.
    #[config(default = false)]
    prefill_only_disable_kv_cache: bool,
    /// No chunked prefix attention; also gated at load time.
    #[config(default = false, hot)]
    disable_chunked_prefix_cache: bool,
    /// No CPU/GPU overlap; many rules force it.
    #[config(default = false, load_time)]
    disable_overlap_schedule: bool,
    /// Decode steps per scheduling round.
    #[config(default = 1, range = 1..)]
    num_continuous_decode_steps: usize,
    /// Passes between request polls.
    #[config(default = 1, range = 1..)]
    scheduler_recv_interval: usize,
    /// Mix prefill and decode in a batch.
    #[config(default = false)]
    enable_mixed_chunk: bool,
    /// Recurrent state slots; recomputed at pool build.
    #[config(hot)]
    max_mamba_cache_size: Option<usize>,
    /// State memory versus KV memory; fallback 0.9.
    #[config(load_time)]
    mamba_full_memory_ratio: Option<f64>,
    /// Delay prefill to align DP ranks.
    #[config(default = false)]
    enable_prefill_delayer: bool,
    /// Cap in passes.
    #[config(default = 30)]
    prefill_delayer_max_delay_passes: usize,
    /// Do not delay below this usage.
    #[config(range = 0.0..=1.0)]
    prefill_delayer_token_usage_low_watermark: Option<f64>,
    /// Histogram edges in passes.
    prefill_delayer_forward_passes_buckets: Option<Vec<f64>>,
    /// Histogram edges in seconds.
    prefill_delayer_wait_seconds_buckets: Option<Vec<f64>>,
    /// Queue-based trigger ratio.
    #[config(range = 0.0..=1.0)]
    prefill_delayer_queue_min_ratio: Option<f64>,
    /// Cap in milliseconds.
    prefill_delayer_max_delay_ms: Option<f64>,
    /// Wait until N slots free up.
    min_free_slots_delay: Option<usize>,
}
