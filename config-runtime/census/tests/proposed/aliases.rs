//! Proposed by `kitbag-census schema`.

use kitbag::{ConfigChoice, ConfigNamespaces};

/// Settings of the server.
#[derive(ConfigNamespaces)]
pub struct Args {
    /// Namespace `spec`.
    #[config(nested)]
    pub spec: Spec,
    /// Namespace `schedule`.
    #[config(nested)]
    pub schedule: Schedule,
    /// Namespace `memory`.
    #[config(nested)]
    pub memory: Memory,
    /// Namespace `graph`.
    #[config(nested)]
    pub graph: Graph,
    /// Namespace `moe`.
    #[config(nested)]
    pub moe: Moe,
    /// Namespace `parallel`.
    #[config(nested)]
    pub parallel: Parallel,
    /// Namespace `disagg`.
    #[config(nested)]
    pub disagg: Disagg,
    /// Namespace `model`.
    #[config(nested)]
    pub model: Model,
    /// Namespace `mamba`.
    #[config(nested)]
    pub mamba: Mamba,
    /// Namespace `overlap`.
    #[config(nested)]
    pub overlap: Overlap,
    /// Namespace `attention`.
    #[config(nested)]
    pub attention: Attention,
}

/// Namespace `spec`: names that begin with `spec`.
#[derive(ConfigNamespaces)]
#[config(ns = "spec")]
pub struct Spec {
    /// Steps of the draft model.
    // Read in src/draft.rs (2), src/verify.rs (1).
    #[config(default = 3, flag = "spec-steps")]
    pub steps: usize,
    /// Branches per step.
    // Read in src/draft.rs (1), src/verify.rs (1).
    #[config(default = 1, flag = "spec-topk")]
    pub topk: usize,
    /// Tokens that are verified at once.
    // Read in src/draft.rs (1), src/verify.rs (1).
    #[config(default = 4, flag = "spec-tokens")]
    pub tokens: usize,
    /// The draft model.
    // Read in src/args.rs (1), src/draft.rs (1), src/verify.rs (1).
    #[config(flag = "spec-model")]
    pub model: Option<String>,
    /// Least probability to accept.
    // Read in src/draft.rs (1), src/verify.rs (1).
    #[config(default = 0.5, flag = "spec-accept")]
    pub accept: f32,
}

/// Namespace `schedule`: names that begin with `schedule`.
#[derive(ConfigNamespaces)]
#[config(ns = "schedule")]
pub struct Schedule {
    /// In which order requests run.
    // Read in src/schedule.rs (1).
    #[config(default = Policy::Fcfs, flag = "schedule-policy")]
    pub policy: Policy,
    /// Most prompt tokens at once.
    // Read in src/schedule.rs (3).
    #[config(default = 512, flag = "schedule-chunk")]
    pub chunk: usize,
    /// Most requests at once.
    // Read in src/schedule.rs (3).
    #[config(default = 64, flag = "schedule-batch")]
    pub batch: usize,
    /// How careful admission is.
    // Read in src/schedule.rs (2).
    #[config(default = 1.0, flag = "schedule-budget")]
    pub budget: f32,
}

/// Namespace `memory`: names that begin with `memory`.
#[derive(ConfigNamespaces)]
#[config(ns = "memory")]
pub struct Memory {
    /// Part of the memory that is used.
    // Read in src/memory.rs (1).
    #[config(default = 0.9, flag = "memory-fraction")]
    pub fraction: f32,
    /// Setting `memory_pages`.
    // Read in src/args.rs (1), src/memory.rs (2).
    #[config(default = 64 * 1024, flag = "memory-pages")]
    pub pages: usize,
    /// Setting `memory_page_size`.
    // Read in src/args.rs (1), src/memory.rs (2).
    #[config(default = 16, flag = "memory-page-size")]
    pub page_size: usize,
    /// Setting `memory_swap`.
    // Read in src/memory.rs (2).
    #[config(default = false, flag = "memory-swap")]
    pub swap: bool,
}

/// Namespace `graph`: names that begin with `graph`.
#[derive(ConfigNamespaces)]
#[config(ns = "graph")]
pub struct Graph {
    /// Batch sizes of captured graphs.
    // Read in src/graph.rs (3).
    #[config(default = vec![1, 2, 4], flag = "graph-batches")]
    pub batches: Vec<usize>,
    /// Setting `graph_pad`.
    // Read in src/graph.rs (2).
    #[config(default = true, flag = "graph-pad")]
    pub pad: bool,
}

/// Namespace `moe`: names that begin with `moe`.
#[derive(ConfigNamespaces)]
#[config(ns = "moe")]
pub struct Moe {
    /// Setting `moe_experts`.
    // Read in src/moe.rs (3).
    #[config(default = 8, flag = "moe-experts")]
    pub experts: usize,
    /// Setting `moe_backend`.
    // Read in src/moe.rs (2).
    #[config(default = MoeBackend::Grouped, flag = "moe-backend")]
    pub backend: MoeBackend,
}

/// Namespace `parallel`: names that begin with `parallel`.
#[derive(ConfigNamespaces)]
#[config(ns = "parallel")]
pub struct Parallel {
    /// Setting `parallel_tensor`.
    // Read in src/args.rs (1), src/parallel.rs (2).
    // Its default is `std::thread::available_parallelism() . map_or(1 , Into::into)`: write a rule, `auto = function`.
    #[config(flag = "parallel-tensor")]
    pub tensor: usize,
    /// Setting `parallel_pipeline`.
    // Read in src/args.rs (1), src/parallel.rs (2).
    #[config(default = 1, flag = "parallel-pipeline")]
    pub pipeline: usize,
}

/// Namespace `disagg`: names that begin with `disagg`.
#[derive(ConfigNamespaces)]
#[config(ns = "disagg")]
pub struct Disagg {
    /// Setting `disagg_mode`.
    // Read in src/disagg.rs (2).
    #[config(default = "null", flag = "disagg-mode")]
    pub mode: Option<String>,
    /// Setting `disagg_port`.
    // Read in src/disagg.rs (2).
    #[config(default = 8998, flag = "disagg-port")]
    pub port: u16,
}

/// Namespace `model`: names that begin with `model`.
#[derive(ConfigNamespaces)]
#[config(ns = "model")]
pub struct Model {
    /// Setting `model_path`.
    // Read in src/model.rs (1).
    #[config(default = "model", flag = "model-path")]
    pub path: std::path::PathBuf,
    /// Setting `model_dtype`.
    // Read in src/model.rs (2).
    #[config(default = "auto", flag = "model-dtype")]
    pub dtype: String,
}

/// Namespace `mamba`: names that begin with `mamba`.
#[derive(ConfigNamespaces)]
#[config(ns = "mamba")]
pub struct Mamba {
    /// Setting `mamba_slots`.
    // Read in src/main.rs (1), src/mamba.rs (1).
    #[config(default = 32, flag = "mamba-slots")]
    pub slots: usize,
    /// Setting `mamba_chunk`.
    // Read in src/mamba.rs (1).
    #[config(default = 256, flag = "mamba-chunk")]
    pub chunk: usize,
}

/// Namespace `overlap`: names that begin with `overlap`.
#[derive(ConfigNamespaces)]
#[config(ns = "overlap")]
pub struct Overlap {
    /// Whether the scheduler runs beside the model.
    // Read in src/overlap.rs (1).
    #[config(default = true)]
    pub overlap: bool,
    /// Setting `overlap_depth`.
    // Read in src/overlap.rs (1).
    #[config(default = 2, flag = "overlap-depth")]
    pub depth: usize,
}

/// Namespace `attention`: names that begin with `attention`.
#[derive(ConfigNamespaces)]
#[config(ns = "attention")]
pub struct Attention {
    /// Setting `attention_prefill`.
    // Read in src/args.rs (2).
    #[config(default = "flash", flag = "attention-prefill")]
    pub prefill: String,
    /// Setting `attention_decode`.
    // Read in src/args.rs (1).
    #[config(flag = "attention-decode")]
    pub decode: Option<String>,
}

/// What computes the experts.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
pub enum MoeBackend {
    /// `Triton`.
    Triton,
    /// `Grouped`.
    Grouped,
}

/// In which order requests run.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
pub enum Policy {
    /// First come, first served.
    Fcfs,
    /// The longest shared prefix first.
    LongestPrefix,
}
