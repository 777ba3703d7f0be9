//! Schemas that several tests share; the namespaces of one of them live here, those that nest them in the tests, as
//! in a workspace whose crates contribute namespaces.

pub mod exported;

use std::path::PathBuf;
use std::time::Duration;

use kitbag::{ByteSize, ConfigChoice, ConfigNamespaces, Facts};

/// Which device runs the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ConfigChoice)]
pub enum Device {
    /// Best available.
    Auto,
    /// The processor.
    Cpu,
    /// A graphics card, with captured graphs.
    CudaGraph,
}

/// How requests are scheduled.
#[derive(ConfigNamespaces)]
#[config(
    ns = "schedule",
    derived(
        /// Pages that hold all tokens.
        #[cases(max_tokens = [512, 513, 4096], page_size = [1, 16, 100])]
        pages: usize = pages(max_tokens, page_size),
        pages_and_spare: usize = with_spare(pages)
    ),
    validate(chunk_fits(chunk, max_tokens))
)]
pub struct Schedule {
    /// Tokens in a page.
    #[config(default = 16, range = 1..=256)]
    page_size: usize,
    /// Tokens that fit in the cache.
    #[config(default = 4096, range = 1.., load_time)]
    max_tokens: usize,
    /// Tokens prefilled at once.
    #[config(default = 512, range = 1.., hot)]
    chunk: usize,
}

fn pages(max_tokens: usize, page_size: usize) -> usize {
    max_tokens.div_ceil(page_size)
}

fn with_spare(pages: usize) -> usize {
    pages + 1
}

fn chunk_fits(chunk: usize, max_tokens: usize) -> Result<(), String> {
    if chunk <= max_tokens { Ok(()) } else { Err("a chunk is larger than the cache".to_owned()) }
}

/// Where work runs.
#[derive(ConfigNamespaces)]
#[config(ns = "exec")]
pub struct Exec {
    /// Device that runs the model.
    #[config(default = Device::Auto)]
    device: Device,
    /// Threads; one per core unless set.
    #[config(auto = Facts::cpus)]
    threads: usize,
    /// Kernels.
    #[config(nested)]
    kernel: Kernel,
}

/// How kernels are built.
#[derive(ConfigNamespaces)]
#[config(ns = "exec.kernel", derived(block_bytes: usize = block_bytes(block_rows)))]
pub struct Kernel {
    /// Rows of a block.
    #[config(default = 64, range = 16..=128)]
    block_rows: usize,
    /// Folder of compiled kernels.
    cache_dir: Option<PathBuf>,
    /// Compile without waiting for the first use.
    #[config(default = true, hot)]
    eager: bool,
}

fn block_bytes(rows: usize) -> usize {
    rows * 128
}

/// How the service behaves.
#[derive(ConfigNamespaces)]
#[config(ns = "service")]
pub struct Service {
    /// Name in logs.
    #[config(default = "thumbs", hot)]
    title: String,
    /// How long a client may wait.
    #[config(default = "1.5s", hot)]
    patience: Duration,
    /// Largest body.
    #[config(default = "8MiB")]
    body_limit: ByteSize,
    /// Hosts allowed to connect.
    #[config(default = "localhost")]
    allow: Vec<String>,
    /// Sampling temperature.
    #[config(default = 0.0, range = 0.0..=2.0, hot)]
    temperature: f32,
}
