//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

/// How work runs.
#[derive(ConfigNamespaces)]
#[config(ns = "exec")]
pub struct Exec {
    /// Collective communication.
    #[config(nested)]
    comm: crate::exec_comm::ExecComm,
    /// Reproducible results.
    #[config(nested)]
    deterministic: crate::exec_deterministic::ExecDeterministic,
    /// Diffusion language models.
    #[config(nested)]
    dllm: crate::exec_dllm::ExecDllm,
    /// What a forward pass returns besides tokens, and numeric switches.
    #[config(nested)]
    features: crate::exec_features::ExecFeatures,
    /// Captured graphs and compilation.
    #[config(nested)]
    graph: crate::exec_graph::ExecGraph,
    /// Which kernels run.
    #[config(nested)]
    kernel: crate::exec_kernel::ExecKernel,
    /// State-space and linear-attention layers.
    #[config(nested)]
    mamba: crate::exec_mamba::ExecMamba,
    /// Mixture-of-experts layers.
    #[config(nested)]
    moe: crate::exec_moe::ExecMoe,
    /// Weights kept on the host.
    #[config(nested)]
    offload: crate::exec_offload::ExecOffload,
    /// Batches that run side by side.
    #[config(nested)]
    overlap: crate::exec_overlap::ExecOverlap,
}
