//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kitbag::ConfigNamespaces;

use crate::choices::{KvCanary, LogFormat};

/// Logs, metrics, traces and dumps.
#[derive(ConfigNamespaces)]
#[config(ns = "observability")]
pub struct Observability {
    /// Log verbosity.
    #[config(default = "info")]
    log_level: String,
    /// HTTP log verbosity; falls back to `log_level`.
    log_level_http: Option<String>,
    /// Log request traffic.
    #[config(default = false)]
    log_requests: bool,
    /// 0..3 detail of request logs.
    #[config(default = 2, range = 0..=3)]
    log_requests_level: usize,
    /// Text or json.
    #[config(default = LogFormat::Text)]
    log_requests_format: LogFormat,
    /// Stdout and/or folders.
    log_requests_target: Option<Vec<String>>,
    /// Paths hidden from access logs.
    #[config(default = "")]
    uvicorn_access_log_exclude_prefixes: Vec<String>,
    /// Where recent requests are dumped after a crash.
    crash_dump_folder: Option<PathBuf>,
    /// Print custom timing marks.
    #[config(default = false)]
    show_time_cost: bool,
    /// Export Prometheus metrics.
    #[config(default = false)]
    enable_metrics: bool,
    /// Metrics sidecar port in legacy `gRPC` mode.
    smg_http_sidecar_port: Option<u16>,
    /// Estimate model FLOP utilisation.
    #[config(default = false)]
    enable_mfu_metrics: bool,
    /// Metrics from every TP rank.
    #[config(default = false)]
    enable_metrics_for_all_schedulers: bool,
    /// Decode iterations between load snapshots.
    #[config(default = 15)]
    load_snapshot_publish_interval: usize,
    /// HTTP header carrying extra labels.
    #[config(default = "x-custom-labels")]
    tokenizer_metrics_custom_labels_header: String,
    /// Labels accepted from that header.
    tokenizer_metrics_allowed_custom_labels: Option<Vec<String>>,
    /// Static labels.
    extra_metric_labels: Option<BTreeMap<String, String>>,
    /// Histogram edges: time to first token.
    bucket_time_to_first_token: Option<Vec<f64>>,
    /// Histogram edges: inter-token latency.
    bucket_inter_token_latency: Option<Vec<f64>>,
    /// Histogram edges: end-to-end latency.
    bucket_e2e_request_latency: Option<Vec<f64>>,
    /// Histogram rule: prompt tokens.
    prompt_tokens_buckets: Option<Vec<String>>,
    /// Histogram rule: generated tokens.
    generation_tokens_buckets: Option<Vec<String>>,
    /// Warn about GC pauses above this; 0 off.
    #[config(default = 0.0)]
    gc_warning_threshold_secs: f64,
    /// Decode iterations between log lines.
    #[config(default = 40)]
    decode_log_interval: usize,
    /// Per-request timing logs.
    #[config(default = false)]
    enable_request_time_stats_logging: bool,
    /// JSON enabling KV event publication.
    kv_events_config: Option<String>,
    /// Opt-in socket that publishes load.
    load_publish_endpoint: Option<String>,
    /// Per-iteration metrics over IPC.
    #[config(default = false)]
    enable_forward_pass_metrics: bool,
    /// Worker name in those metrics (hidden flag).
    #[config(default = "")]
    forward_pass_metrics_worker_id: String,
    /// Endpoint of those metrics (hidden flag; overridden at run time).
    #[config(hot)]
    forward_pass_metrics_ipc_name: Option<String>,
    /// `OpenTelemetry` tracing.
    #[config(default = false)]
    enable_trace: bool,
    /// Components to trace.
    #[config(default = "request")]
    trace_modules: String,
    /// Collector address.
    #[config(default = "localhost:4317")]
    otlp_traces_endpoint: String,
    /// Service name in traces.
    otlp_service_name: Option<String>,
    /// Write per-request metrics to disk.
    #[config(default = false)]
    export_metrics_to_file: bool,
    /// Folder for that.
    export_metrics_to_file_dir: Option<PathBuf>,
    /// Dependency injection: collector class per role (no CLI).
    stat_loggers: Option<BTreeMap<String, String>>,
    /// KV cache self-check: none, log, raise.
    #[config(default = KvCanary::None)]
    kv_canary: KvCanary,
    /// How much real KV data the canary hashes.
    #[config(default = "none")]
    kv_canary_real_data: String,
    /// Forward steps between full sweeps.
    #[config(default = 0)]
    kv_canary_sweep_interval: usize,
    /// Folder for tensor dumps.
    debug_tensor_dump_output_folder: Option<PathBuf>,
    /// Layers to dump.
    debug_tensor_dump_layers: Option<Vec<usize>>,
    /// Input used for the dump.
    debug_tensor_dump_input_file: Option<PathBuf>,
    /// JSON list of hooks to attach.
    forward_hooks: Option<String>,
    /// `msProbe` settings file.
    msprobe_dump_config: Option<String>,
}
