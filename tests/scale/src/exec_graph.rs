//! Written by `python3 tests/scale/generate.py`; edit that or `fields.tsv`, and run it again.

use kitbag::ConfigNamespaces;

use crate::choices::CudaGraphBackend;

/// Captured graphs and compilation.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.graph")]
pub struct ExecGraph {
    /// Structured per-phase (decode/prefill) graph settings; canonical form.
    cuda_graph_config: Option<String>,
    /// Shorthand folded into the structured decode phase.
    cuda_graph_backend_decode: Option<CudaGraphBackend>,
    /// Shorthand folded into the structured prefill phase.
    cuda_graph_backend_prefill: Option<CudaGraphBackend>,
    /// Largest decode batch captured.
    cuda_graph_max_bs_decode: Option<usize>,
    /// Largest prefill token bucket captured.
    cuda_graph_max_bs_prefill: Option<usize>,
    /// Longest sequence a prefill graph replay will accept.
    cuda_graph_max_seq_len_prefill: Option<usize>,
    /// Explicit decode capture sizes.
    #[config(hot)]
    cuda_graph_bs_decode: Option<Vec<usize>>,
    /// Explicit prefill capture sizes.
    cuda_graph_bs_prefill: Option<Vec<usize>>,
    /// Context bound for `DeepSeek-V4` prefill graphs.
    cuda_graph_prefill_max_context: Option<usize>,
    /// Shorthand: prefill phase disabled.
    #[config(default = false)]
    disable_prefill_cuda_graph: bool,
    /// Shorthand: decode phase disabled.
    #[config(default = false)]
    disable_decode_cuda_graph: bool,
    /// Legacy master off-switch; deprecated flag only.
    #[config(default = false, hot)]
    disable_cuda_graph: bool,
    /// No padding to a captured size; run eager instead.
    #[config(default = false)]
    disable_cuda_graph_padding: bool,
    /// Profile the capture phase.
    #[config(default = false)]
    enable_profile_cuda_graph: bool,
    /// Leave Python GC running while capturing.
    #[config(default = false)]
    enable_cudagraph_gc: bool,
    /// Break the graph at every op to debug capture.
    #[config(default = false)]
    debug_cuda_graph: bool,
    /// Compile the model; seeds the capture flag at publish.
    #[config(default = false)]
    enable_torch_compile: bool,
    /// Extra diagnostics for compile.
    #[config(default = false)]
    enable_torch_compile_debug_mode: bool,
    /// Largest batch that uses the compiled model.
    #[config(default = 32)]
    torch_compile_max_bs: usize,
}
