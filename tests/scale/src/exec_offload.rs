//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::path::PathBuf;

use kitbag::ConfigNamespaces;

use crate::choices::PleOffloadBackend;

/// Weights kept on the host.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.offload")]
pub struct ExecOffload {
    /// Host RAM reserved for weight offload, GB.
    #[config(default = 0)]
    cpu_offload_gb: usize,
    /// Layers per offload group.
    #[config(default = -1)]
    offload_group_size: i64,
    /// Offloaded layers inside one group.
    #[config(default = 1)]
    offload_num_in_group: usize,
    /// Prefetch distance for offload.
    #[config(default = 1)]
    offload_prefetch_step: usize,
    /// Storage mode of offloaded weights.
    #[config(default = "cpu")]
    offload_mode: String,
    /// Keep Qwen4 n-gram embedding table on host.
    #[config(load_time)]
    ple_offload_embedding: Option<bool>,
    /// Pinned memory or mapped file for that table.
    #[config(default = PleOffloadBackend::Pinned)]
    ple_offload_backend: PleOffloadBackend,
    /// Directory of the file-backed table.
    ple_offload_dir: Option<PathBuf>,
}
