//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kitbag::{ByteSize, ConfigNamespaces};

use crate::choices::{SamplingDefaults, TokenizerBackend, TokenizerMode};

/// The service and its tokenizers.
#[derive(ConfigNamespaces)]
#[config(ns = "serving")]
pub struct Serving {
    /// Keep Responses-API objects in memory.
    #[config(default = false)]
    enable_response_store: bool,
    /// Tokenizer location; filled from the model path.
    tokenizer_path: Option<PathBuf>,
    /// Auto or slow.
    #[config(default = TokenizerMode::Auto)]
    tokenizer_mode: TokenizerMode,
    /// Huggingface or fastokens.
    #[config(default = TokenizerBackend::Huggingface)]
    tokenizer_backend: TokenizerBackend,
    /// Tokenizer processes.
    #[config(default = 1, range = 1..)]
    tokenizer_worker_num: usize,
    /// Detokenizer processes.
    #[config(default = 1, range = 1..)]
    detokenizer_worker_num: usize,
    /// Token ids in, no tokenizer.
    #[config(default = false)]
    skip_tokenizer_init: bool,
    /// Bind address.
    #[config(default = "127.0.0.1")]
    host: String,
    /// Bind port.
    #[config(default = 30000)]
    port: u16,
    /// Path prefix behind a proxy.
    #[config(default = "")]
    fastapi_root_path: String,
    /// One listener per HTTP worker.
    #[config(default = false)]
    enable_http_worker_reuseport: bool,
    /// Legacy `gRPC` server instead of HTTP.
    #[config(default = false)]
    smg_grpc_mode: bool,
    /// Deprecated spelling of the above.
    #[config(default = false)]
    grpc_mode: bool,
    /// Native `gRPC` port; setting it enables the server.
    grpc_port: Option<u16>,
    /// `gRPC` chunk timeout.
    #[config(default = 300)]
    grpc_response_timeout_secs: usize,
    /// Native `gRPC` runtime threads.
    grpc_worker_threads: Option<usize>,
    /// Module run next to the `gRPC` server.
    sidecar: Option<String>,
    /// JSON argv for it.
    sidecar_args: Option<Vec<String>>,
    /// No warm-up request.
    #[config(default = false)]
    skip_server_warmup: bool,
    /// Named warm-up functions.
    warmups: Option<String>,
    /// Granian HTTP/2 server.
    #[config(default = false)]
    enable_http2: bool,
    /// Advertised stream limit.
    #[config(default = 200)]
    http2_max_concurrent_streams: usize,
    /// Connection window bytes.
    #[config(default = "1MiB")]
    http2_initial_connection_window_size: ByteSize,
    /// TLS key.
    ssl_keyfile: Option<PathBuf>,
    /// TLS certificate.
    ssl_certfile: Option<PathBuf>,
    /// TLS CA bundle.
    ssl_ca_certs: Option<PathBuf>,
    /// TLS key password (secret).
    ssl_keyfile_password: Option<String>,
    /// Reload certificates on change.
    #[config(default = false)]
    enable_ssl_refresh: bool,
    /// Client API key (secret).
    api_key: Option<String>,
    /// Admin API key (secret).
    admin_api_key: Option<String>,
    /// Name reported to clients; defaults to the model path.
    served_model_name: Option<String>,
    /// Weight label; changed at run time.
    #[config(default = "default", hot)]
    weight_version: String,
    /// Built-in name or file.
    chat_template: Option<String>,
    /// Let requests override the template.
    #[config(default = false)]
    trust_request_chat_template: bool,
    /// Template choice when several ship.
    hf_chat_template_name: Option<String>,
    /// Built-in name or file.
    completion_template: Option<String>,
    /// Backend file folder.
    file_storage_path: Option<PathBuf>,
    /// Report cached tokens in usage.
    #[config(default = false)]
    enable_cache_report: bool,
    /// Always return prompt ids.
    #[config(default = false)]
    return_input_ids: bool,
    /// Always return sampled ids.
    #[config(default = false)]
    return_output_ids: bool,
    /// Reasoning extractor; auto detects (manual CLI).
    #[config(hot)]
    reasoning_parser: Option<String>,
    /// JSON defaults for template arguments.
    default_chat_template_kwargs: Option<BTreeMap<String, String>>,
    /// Cache only the prompt of reasoning output.
    #[config(default = false)]
    strip_thinking_cache: bool,
    /// Filter tokens during the thinking phase.
    #[config(default = false)]
    enable_strict_thinking: bool,
    /// Tool-call extractor; auto detects (manual CLI).
    #[config(hot)]
    tool_call_parser: Option<String>,
    /// Demo or tool server `URLs`.
    tool_server: Option<String>,
    /// Openai or model generation config.
    #[config(default = SamplingDefaults::Model)]
    sampling_defaults: SamplingDefaults,
    /// Audio seconds buffered per ASR session.
    #[config(default = 60)]
    asr_max_buffer_seconds: usize,
    /// ASR session cap.
    #[config(default = 32)]
    asr_max_concurrent_sessions: usize,
    /// JSON hint returned to clients.
    preferred_sampling_params: Option<String>,
    /// Truncate instead of reject.
    #[config(default = false)]
    allow_auto_truncate: bool,
    /// Tokens per streamed chunk.
    #[config(default = 1, range = 1..)]
    stream_interval: usize,
    /// Notifications per event loop yield.
    #[config(default = 16)]
    batch_notify_size: usize,
    /// Usage on every stream.
    #[config(default = false)]
    stream_response_default_include_usage: bool,
    /// Disjoint segments in streams.
    #[config(default = false)]
    incremental_streaming_output: bool,
    /// Streaming session mode.
    #[config(default = false)]
    enable_streaming_session: bool,
    /// Whitespace regex for constrained JSON.
    constrained_json_whitespace_pattern: Option<String>,
    /// Compact constrained JSON.
    #[config(default = false)]
    constrained_json_disable_any_whitespace: bool,
    /// Whitespace run limit.
    constrained_json_max_whitespace_cnt: Option<usize>,
    /// Batch concurrent tokenisation.
    #[config(default = false)]
    enable_dynamic_batch_tokenizer: bool,
    /// Its batch size.
    #[config(default = 32)]
    dynamic_batch_tokenizer_batch_size: usize,
    /// Its wait.
    #[config(default = "2ms")]
    dynamic_batch_tokenizer_batch_timeout: Duration,
    /// Batch-encode inputs.
    #[config(default = false)]
    enable_tokenizer_batch_encode: bool,
    /// Decode completions one by one.
    #[config(default = false)]
    disable_tokenizer_batch_decode: bool,
}
