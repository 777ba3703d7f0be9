//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::collections::BTreeMap;

use kitbag::ConfigNamespaces;

use crate::choices::{LoraBackend, LoraEvictionPolicy};

/// Low-rank adapters.
#[derive(ConfigNamespaces)]
#[config(ns = "lora")]
pub struct Lora {
    /// Serve `LoRA` adapters; implied by giving adapter paths.
    enable_lora: Option<bool>,
    /// Load adapter weights asynchronously.
    enable_lora_overlap_loading: Option<bool>,
    /// Largest adapter rank; inferred when unset.
    max_lora_rank: Option<usize>,
    /// Modules that may carry adapters; inferred when unset.
    lora_target_modules: Option<Vec<String>>,
    /// Adapters to load: path, name=path, or JSON.
    lora_paths: Option<BTreeMap<String, String>>,
    /// Cap on adapters held in host memory.
    max_loaded_loras: Option<usize>,
    /// Cap on adapters active in one batch (base counts).
    #[config(default = 8)]
    max_loras_per_batch: usize,
    /// Lru or fifo for the adapter pool.
    #[config(default = LoraEvictionPolicy::Lru)]
    lora_eviction_policy: LoraEvictionPolicy,
    /// `multi-LoRA` kernel family.
    #[config(default = LoraBackend::Csgmv)]
    lora_backend: LoraBackend,
    /// Chunk bound of the chunked SGMV kernel.
    #[config(default = "16", range = 16..=128)]
    max_lora_chunk_size: Option<usize>,
    /// Share outer `LoRA` factors across experts.
    experts_shared_outer_loras: Option<bool>,
    /// Compute `MoE` `LoRA` as virtual experts.
    #[config(default = false)]
    lora_use_virtual_experts: bool,
    /// Error on unmatched adapter weights.
    #[config(default = false)]
    lora_strict_loading: bool,
    /// Seconds a waiting adapter may starve before draining another.
    #[config(default = 0.0)]
    lora_drain_wait_threshold: f64,
}
