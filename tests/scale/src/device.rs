//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use std::time::Duration;

use kitbag::ConfigNamespaces;

/// Devices, and how the process treats them.
#[derive(ConfigNamespaces)]
#[config(ns = "device")]
pub struct Device {
    /// Accelerator family; unset means probe the host.
    device: Option<String>,
    /// First GPU index used by this engine.
    #[config(default = 0)]
    base_gpu_id: usize,
    /// Stride between successive GPU indices.
    #[config(default = 1)]
    gpu_id_step: usize,
    /// Global RNG seed; resolution picks one if unset.
    random_seed: Option<u64>,
    /// Apple-MLX path: really sample instead of argmax decoding.
    #[config(default = false)]
    mlx_enable_sampling: bool,
    /// Kill the server if one forward exceeds this many seconds.
    #[config(default = "300s")]
    watchdog_timeout: Duration,
    /// Dump diagnostics (no kill) after this many seconds.
    soft_watchdog_timeout: Option<Duration>,
    /// Trade latency for low CPU use when no work is queued.
    #[config(default = false)]
    sleep_on_idle: bool,
    /// Spawn scheduler workers as Ray actors.
    #[config(default = false)]
    use_ray: bool,
    /// In-process callback for SIGQUIT; no CLI, not serialisable.
    custom_sigquit_handler: Option<String>,
    /// NUMA node per subprocess, by position; unset autodetects.
    numa_node: Option<Vec<usize>>,
    /// 1 to 3 integers passed to the Python GC thresholds.
    gc_threshold: Option<Vec<usize>>,
}
