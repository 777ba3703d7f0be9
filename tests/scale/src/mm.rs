//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::collections::BTreeMap;

use kitbag::ConfigNamespaces;

use crate::choices::{ImageProcessorBackend, MmAttentionBackend, MmFeatureTransport, MmGlobalCacheBackend};

/// Images, audio and video.
#[derive(ConfigNamespaces)]
#[config(ns = "mm")]
pub struct Mm {
    /// Turn on the multimodal path; None lets the model decide.
    enable_multimodal: Option<bool>,
    /// Attention kernels of the encoder.
    mm_attention_backend: Option<MmAttentionBackend>,
    /// Process media once and broadcast.
    #[config(default = false)]
    enable_broadcast_mm_inputs_process: bool,
    /// Cache by media prefix.
    #[config(default = false)]
    enable_prefix_mm_cache: bool,
    /// Data-parallel encoder; None defers to model, then false.
    #[config(load_time)]
    mm_enable_dp_encoder: Option<bool>,
    /// JSON preprocessing knobs per modality.
    mm_process_config: Option<BTreeMap<String, String>>,
    /// Threads running processors; 0 = model default.
    #[config(default = 0)]
    mm_processor_worker_num: usize,
    /// Threads fetching media; 0 = model default.
    #[config(default = 0)]
    mm_io_worker_num: usize,
    /// Host allow-list for client media `URLs`.
    #[config(default = "")]
    allowed_media_domains: Vec<String>,
    /// Size cap per remote download.
    #[config(default = 64)]
    media_url_max_file_size_mb: usize,
    /// Memory budget of the preprocessing cache.
    #[config(load_time)]
    mm_preprocess_cache_size_mb: Option<usize>,
    /// Believe client-sent content hashes.
    #[config(default = false)]
    trust_mm_content_hashes: bool,
    /// Per-modality limits.
    limit_mm_data_per_request: Option<String>,
    /// Shared embedding cache across engines.
    #[config(default = false)]
    enable_mm_global_cache: bool,
    /// Image processor implementation.
    #[config(default = ImageProcessorBackend::Auto)]
    image_processor_backend: ImageProcessorBackend,
    /// Store of the shared embedding cache.
    #[config(default = MmGlobalCacheBackend::Mooncake)]
    mm_global_cache_backend: MmGlobalCacheBackend,
    /// Deprecated; choose the pil backend instead.
    #[config(default = false)]
    disable_fast_image_processor: bool,
    /// How features travel between processes.
    #[config(load_time)]
    mm_feature_transport: Option<MmFeatureTransport>,
}
