//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

/// Diffusion language models.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.dllm")]
pub struct ExecDllm {
    /// Diffusion-LM decoding algorithm name.
    dllm_algorithm: Option<String>,
    /// YAML with diffusion algorithm knobs.
    dllm_algorithm_config: Option<String>,
    /// First-done-first-out scheduling for diffusion LM (on by default).
    #[config(default = true)]
    dllm_fdfo: bool,
}
