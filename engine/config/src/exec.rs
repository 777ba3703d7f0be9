//! `exec`: what the computation runs on.

use std::path::PathBuf;
use std::time::Duration;

use kitbag::{ByteSize, ConfigChoice, ConfigNamespaces, Facts};

/// What the computation runs on.
#[derive(ConfigNamespaces)]
#[config(ns = "exec")]
pub struct Exec {
    /// The device. `auto` is `cuda` where there are a driver, the compiler NVRTC, a GPU, and kernels for the model; `cpu` elsewhere.
    #[config(default = Device::Auto, load_time)]
    pub device: Device,
    /// Threads for computation on the CPU; one per CPU unless set.
    #[config(auto = Facts::cpus, range = 1..=1024)]
    pub threads: usize,
    /// Memory of the device that weights, computation, keys and values may take together; what is free there, or what this process
    /// may still have of the CPU's, unless set.
    pub memory_limit: Option<ByteSize>,
    /// Kernels of the CPU and of CUDA.
    #[config(nested)]
    pub kernel: Kernel,
    /// What results may depend on.
    #[config(nested)]
    pub deterministic: Deterministic,
    /// Steps that are captured.
    #[config(nested)]
    pub graph: Graph,
}

/// Steps that are captured.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.graph")]
pub struct Graph {
    /// On CUDA, launch each kernel by itself, instead of a step of single tokens as a whole, which is captured the second time that
    /// one of its size runs.
    #[config(default = false)]
    pub disable_cuda_graph: bool,
}

/// What results may depend on.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.deterministic")]
pub struct Deterministic {
    /// Logits have the same bits however a prompt is cut and whatever is computed beside it. On the CPU they always have. On CUDA
    /// single tokens then go through the kernel of prompts, which takes longer where the context is long.
    #[config(default = false)]
    pub enable_deterministic_inference: bool,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum Device {
    /// The GPU if there is one that can run the model.
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// A number format of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum ActivationDtype {
    /// The most exact.
    Auto,
    /// Single precision.
    F32,
    /// The upper half of single precision.
    Bf16,
    /// Bytes with a scale for each block.
    Int8,
}

/// A form of weights in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum WeightDtype {
    /// What the model suggests.
    Auto,
    /// As its files have them.
    Stored,
    /// Single precision.
    F32,
    /// The upper half of single precision.
    Bf16,
}

/// A kernel of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum AttentionBackend {
    /// The best that there is.
    Auto,
    /// The CPU's, for any model.
    CpuPaged,
    /// CUDA's for any number of tokens, which sums a context in one order.
    CudaPaged,
    /// CUDA's for single tokens, which divides a context among blocks and merges the parts.
    CudaSplitKv,
}

/// Numbers of rows that matrix products are prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum GemmWarmup {
    /// None.
    Off,
    /// Each up to 1024, and from there on ever fewer, up to a piece of a prompt.
    Fast,
    /// Each up to a piece of a prompt.
    Full,
}

/// Where the blocks of matrix products come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ConfigChoice)]
pub enum GemmAutotune {
    /// Built in.
    Off,
    /// A table of an earlier start.
    Kept,
    /// The same, or else a measurement.
    Auto,
}

/// Settings that decide something on CUDA alone.
pub const ON_CUDA_ALONE: [&str; 10] = [
    "exec.graph.disable_cuda_graph",
    "exec.kernel.decode_split_tokens",
    "exec.kernel.gemm_warmup",
    "exec.kernel.gemm_autotune",
    "exec.kernel.gemm_autotune_limit",
    "exec.kernel.nvrtc_path",
    "exec.kernel.cuda_driver_path",
    "exec.kernel.prebuilt_kernels",
    "exec.kernel.kernel_cache_dir",
    "exec.kernel.kernel_cache_limit",
];

fn rows_of_a_block(rows: usize) -> Result<(), String> {
    if rows.is_power_of_two() { Ok(()) } else { Err(format!("{rows} is not 16, 32, 64 or 128")) }
}

/// Kernels of the CPU and of CUDA.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.kernel")]
pub struct Kernel {
    /// The kernel of attention, where neither of the two settings for prompts and for single tokens says otherwise.
    #[config(default = AttentionBackend::Auto)]
    pub attention_backend: AttentionBackend,
    /// The kernel of attention for prompts. `auto` is `attention_backend`, or the only one that there is for the device.
    #[config(default = AttentionBackend::Auto, load_time)]
    pub prefill_attention_backend: AttentionBackend,
    /// The kernel of attention for single tokens. `auto` is `attention_backend`, or on CUDA `cuda-split-kv`, with
    /// `enable_deterministic_inference` `cuda-paged`.
    #[config(default = AttentionBackend::Auto, load_time)]
    pub decode_attention_backend: AttentionBackend,
    /// Tokens of context that one block of decode attention reads.
    #[config(default = 256, range = 16..=65_536)]
    pub decode_split_tokens: usize,
    /// Rows per block of the grouped matrix product over experts that `engine kernels check` tries: 16, 32, 64 or 128.
    #[config(default = 16, range = 16..=128, validate = rows_of_a_block)]
    pub moe_block_rows: usize,
    /// The numbers of rows for which the kernels of matrix products are compiled before the first request, and the blocks measured.
    /// With `off` a kernel is compiled when a step first needs it. On CUDA.
    #[config(default = GemmWarmup::Fast)]
    pub gemm_warmup: GemmWarmup,
    /// Which blocks matrix products are computed in, which decides how fast they are and no bit of them. `kept` takes those that an
    /// earlier start measured with the same model, device, compiler and sizes, and where there are none the built-in ones, of which
    /// it warns if it has been set; `auto` measures them then, and keeps them beside the compiled kernels. On CUDA.
    #[config(default = GemmAutotune::Kept)]
    pub gemm_autotune: GemmAutotune,
    /// How long a start may measure blocks, and compile for that; the next goes on with what is left. One size of products is
    /// measured in any case.
    #[config(default = Duration::from_mins(1), range = Duration::from_secs(1)..=Duration::from_hours(1))]
    pub gemm_autotune_limit: Duration,
    /// What matrix products read besides the weights. `auto` is the most exact that there is for the device and the weights of the
    /// model: `f32` on the CPU, `bf16` on CUDA. The others do not exist yet and are refused.
    #[config(default = ActivationDtype::Auto, load_time)]
    pub activation_dtype: ActivationDtype,
    /// What the matrices of the model are kept as. On the CPU `auto` is `stored`, as its files have them, or `f32` where weights
    /// are made up. `f32` expands them while loading: it takes more memory and gives the same numbers. On CUDA `auto` is `stored`
    /// where a file has `Q8_0`, `Q4_0` or `Q4_1`, of which matrices stay as large as there, while others become bf16; else it is
    /// `bf16`, which takes more memory and gives the same numbers.
    #[config(default = WeightDtype::Auto, load_time)]
    pub weight_dtype: WeightDtype,
    /// The folder that holds NVRTC and its builtins; the library path unless set.
    pub nvrtc_path: Option<PathBuf>,
    /// The CUDA driver library; the one on the library path unless set.
    pub cuda_driver_path: Option<PathBuf>,
    /// A folder of CUDA kernels that were compiled before, by `cargo xtask kernels --prebuilt`. With it NVRTC is needed only for
    /// kernels that are not there.
    pub prebuilt_kernels: Option<PathBuf>,
    /// Where compiled CUDA kernels are kept from one start to the next; a leading `~` is the home folder.
    #[config(default = "~/.cache/engine/kernels")]
    pub kernel_cache_dir: PathBuf,
    /// What the kept kernels may take of the disk: those that were not used for longest go first. With 0 none are kept.
    #[config(default = ByteSize(256 << 20))]
    pub kernel_cache_limit: ByteSize,
}
