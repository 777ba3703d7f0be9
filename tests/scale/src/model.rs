//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kitbag::ConfigNamespaces;

use crate::choices::{
    KvCacheDtype, LoadFormat, ModelDtype, QsaIndexerDtype, Quantization, RemoteInstanceWeightLoaderBackend,
    StartupWeightLoadMode, WeightCacheMode,
};
use crate::derived;

/// The model and how its weights are loaded.
#[derive(ConfigNamespaces)]
#[config(
    ns = "model",
    derived(
        /// Weights load while the engine starts.
        is_startup_weight_load_overlap: bool = derived::is_startup_weight_load_overlap(startup_weight_load_mode),
        /// Weights come or go by the transfer engine.
        transfer_engine_enabled: bool = derived::transfer_engine_enabled(
            remote_instance_weight_loader_start_seed_via_transfer_engine,
            load_format,
            remote_instance_weight_loader_backend,
            modelexpress_config
        ),
    )
)]
pub struct Model {
    /// Weights location: local folder or hub id (required).
    #[config(hot)]
    model_path: String,
    /// Weight file loader; auto tries safetensors then pt.
    #[config(default = LoadFormat::Auto, hot)]
    load_format: LoadFormat,
    /// JSON passed to the chosen loader.
    #[config(default = "{}")]
    model_loader_extra_config: String,
    /// Allow model code from the hub.
    #[config(default = false)]
    trust_remote_code: bool,
    /// Context window override; human-readable sizes accepted.
    context_length: Option<usize>,
    /// Serve as an embedding model.
    #[config(default = false)]
    is_embedding: bool,
    /// Hub branch, tag or commit of the target model.
    revision: Option<String>,
    /// Native, transformers or other implementation.
    #[config(default = "auto")]
    model_impl: String,
    /// Which parser reads the model config.
    #[config(default = "auto")]
    model_config_parser: String,
    /// JSON patch over the model's own config.
    #[config(default = "{}")]
    json_model_override_args: String,
    /// Weight/activation type; auto follows the checkpoint.
    #[config(default = ModelDtype::Auto, hot)]
    dtype: ModelDtype,
    /// Quantisation method; None lets the checkpoint decide.
    #[config(load_time)]
    quantization: Option<Quantization>,
    /// File with KV scaling factors.
    quantization_param_path: Option<PathBuf>,
    /// KV storage type; auto follows the model, model rules may change it.
    #[config(default = KvCacheDtype::Auto, load_time)]
    kv_cache_dtype: KvCacheDtype,
    /// Storage type of the compressed QSA index cache.
    #[config(default = QsaIndexerDtype::Auto)]
    qsa_indexer_dtype: QsaIndexerDtype,
    /// `ModelOpt` recipe to apply.
    modelopt_quant: Option<String>,
    /// Reload a `ModelOpt-quantised` checkpoint.
    modelopt_checkpoint_restore_path: Option<PathBuf>,
    /// Write the `ModelOpt` checkpoint here.
    modelopt_checkpoint_save_path: Option<PathBuf>,
    /// Write a hub-style quantised model here.
    modelopt_export_path: Option<PathBuf>,
    /// Quantise in memory then serve.
    #[config(default = false)]
    quantize_and_serve: bool,
    /// `FlashRL` quantisation profile file.
    rl_quant_profile: Option<String>,
    /// Serial, or overlap loading with graph capture.
    #[config(default = StartupWeightLoadMode::Serial)]
    startup_weight_load_mode: StartupWeightLoadMode,
    /// Import paths of extra weight loaders.
    custom_weight_loader: Option<Vec<String>>,
    /// Read safetensors without mmap.
    #[config(default = false)]
    weight_loader_disable_mmap: bool,
    /// Warm the page cache before loading.
    #[config(default = false)]
    weight_loader_prefetch_checkpoints: bool,
    /// Prefetch threads per rank.
    #[config(default = 4)]
    weight_loader_prefetch_num_threads: usize,
    /// Evict page cache after each shard.
    #[config(default = false)]
    weight_loader_drop_cache_after_load: bool,
    /// Seed host for pulling weights from a live engine.
    remote_instance_weight_loader_seed_instance_ip: Option<String>,
    /// Service port of that seed.
    remote_instance_weight_loader_seed_instance_service_port: Option<u16>,
    /// Ports for the weight-sending group.
    remote_instance_weight_loader_send_weights_group_ports: Option<Vec<u16>>,
    /// Nccl, `transfer_engine` or modelexpress.
    #[config(default = RemoteInstanceWeightLoaderBackend::Nccl)]
    remote_instance_weight_loader_backend: RemoteInstanceWeightLoaderBackend,
    /// Act as a seed over the transfer engine.
    #[config(default = false)]
    remote_instance_weight_loader_start_seed_via_transfer_engine: bool,
    /// Port of the per-rank info service.
    #[config(default = 6789)]
    engine_info_bootstrap_port: u16,
    /// Entries for `ModelExpress` loading, such as its transport.
    modelexpress_config: Option<BTreeMap<String, String>>,
    /// Hub download cache folder.
    download_dir: Option<PathBuf>,
    /// Verify weight files; bare flag uses the hub id.
    model_checksum: Option<String>,
    /// Remove the checkpoint once loaded.
    #[config(default = false)]
    delete_ckpt_after_loading: bool,
    /// Path of a decrypted target config.
    decrypted_config_file: Option<PathBuf>,
    /// Path of a decrypted draft config.
    decrypted_draft_config_file: Option<PathBuf>,
    /// Stay not-ready until weights arrive externally.
    #[config(default = false)]
    checkpoint_engine_wait_weights_before_ready: bool,
    /// Off, daemon or client for GPU-resident weight sharing.
    #[config(default = WeightCacheMode::Off)]
    weight_cache_mode: WeightCacheMode,
    /// Unix socket of the weight cache daemon.
    weight_cache_socket: Option<String>,
    /// Seconds to wait for that daemon.
    #[config(default = "1800s")]
    weight_cache_timeout: Duration,
}
