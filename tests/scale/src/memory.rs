//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kitbag::ConfigNamespaces;

use crate::choices::{
    HicacheHostMemoryMode, HicacheIoBackend, HicacheMemLayout, HicacheStorageBackend, HicacheStoragePrefetchPolicy,
    HicacheWritePolicy, RadixEvictionPolicy, UnifiedCacheExternalLinkerBackend,
};

/// The cache of keys and values.
#[derive(ConfigNamespaces)]
#[config(ns = "memory")]
pub struct Memory {
    /// Eviction rule of the prefix tree.
    #[config(default = RadixEvictionPolicy::Lru, load_time)]
    radix_eviction_policy: RadixEvictionPolicy,
    /// JSON arguments for the rule.
    radix_eviction_policy_config: Option<BTreeMap<String, String>>,
    /// Turn prefix caching off.
    #[config(default = false, load_time)]
    disable_radix_cache: bool,
    /// One buffer per page instead of one per layer.
    #[config(default = false)]
    enable_page_major_kv_layout: bool,
    /// One byte pool shared by hybrid sub-pools.
    #[config(default = false)]
    enable_unified_memory: bool,
    /// Session references guard cached KV.
    #[config(default = false)]
    enable_session_radix_cache: bool,
    /// Registered custom prefix cache.
    radix_cache_backend: Option<String>,
    /// Host (and storage) KV tiers.
    #[config(default = false)]
    enable_hierarchical_cache: bool,
    /// Persistent host tier or only a staging buffer.
    #[config(default = HicacheHostMemoryMode::Cache)]
    hicache_host_memory_mode: HicacheHostMemoryMode,
    /// Host pool size as a multiple of device pool.
    #[config(hot)]
    hicache_ratio: Option<f64>,
    /// Host pool size in GB; beats the ratio.
    #[config(default = 0)]
    hicache_size: usize,
    /// Share of free host memory the pools may take.
    #[config(default = "0.8", range = 0.0..=1.0)]
    hicache_host_memory_fraction: Option<f64>,
    /// When KV is copied down.
    #[config(default = HicacheWritePolicy::WriteThrough, hot)]
    hicache_write_policy: HicacheWritePolicy,
    /// Copy engine `host<->device`.
    #[config(default = HicacheIoBackend::Kernel)]
    hicache_io_backend: HicacheIoBackend,
    /// Host pool layout.
    #[config(default = HicacheMemLayout::PageFirst)]
    hicache_mem_layout: HicacheMemLayout,
    /// Third tier implementation.
    #[config(hot)]
    hicache_storage_backend: Option<HicacheStorageBackend>,
    /// When a storage prefetch stops.
    #[config(default = HicacheStoragePrefetchPolicy::Timeout, hot)]
    hicache_storage_prefetch_policy: HicacheStoragePrefetchPolicy,
    /// JSON or @file for the storage tier.
    #[config(hot)]
    hicache_storage_backend_extra_config: Option<String>,
    /// Passes between storage availability re-checks.
    #[config(default = 8)]
    hicache_storage_prefetch_retry_poll_interval: usize,
    /// Limit of those re-checks.
    #[config(default = 8)]
    hicache_storage_prefetch_retry_max_attempts: usize,
    /// Link the tree straight to an external store.
    #[config(default = false)]
    enable_unified_cache_external_linker: bool,
    /// Store used by the linker.
    #[config(default = UnifiedCacheExternalLinkerBackend::Mooncake)]
    unified_cache_external_linker_backend: UnifiedCacheExternalLinkerBackend,
    /// JSON for the linker.
    unified_cache_external_linker_config: Option<BTreeMap<String, String>>,
    /// Load replicated MLA KV once and broadcast.
    #[config(default = false)]
    enable_linker_mla_dedup: bool,
    /// Hierarchical sparse attention.
    #[config(default = false)]
    enable_hisparse: bool,
    /// JSON for it.
    hisparse_config: Option<String>,
    /// Use `LMCache`.
    #[config(default = false)]
    enable_lmcache: bool,
    /// Its YAML.
    lmcache_config_file: Option<PathBuf>,
    /// Use `FlexKV`.
    #[config(default = false)]
    enable_flexkv: bool,
    /// Its configuration.
    flexkv_config_file: Option<PathBuf>,
}
