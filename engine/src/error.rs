//! What can go wrong, in words for the person who started the engine.

use std::io;
use std::path::{Path, PathBuf};

use kernels::cuda::CudaError;

/// Any failure of the engine.
///
/// A message says what was found, where, and, where there is one, what to do about it. Damaged input of any kind ends here and
/// never in a panic.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the byte offset or the key.
        problem: String,
    },
    /// A file asks for something this version cannot compute.
    #[error("{}: not supported: {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The feature, by the name the file uses.
        what: String,
    },
    /// The tensors of a checkpoint are not those of its configuration.
    #[error("{}: the weights do not fit the configuration:\n  {}", path.display(), problems.join("\n  "))]
    Weights {
        /// The checkpoint.
        path: PathBuf,
        /// Every missing, misshapen and left-over tensor.
        problems: Vec<String>,
    },
    /// A model could not be fetched from a hub.
    #[error("{0}")]
    Pull(String),
    /// The default model could not be obtained.
    #[error("{0}")]
    DefaultModel(String),
    /// Text could not be turned into tokens or back.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The conversation could not be rendered.
    #[error("chat template: {0}")]
    ChatTemplate(String),
    /// A request cannot be served as it stands.
    #[error("{0}")]
    Request(String),
    /// A setting has a value the engine cannot work with.
    #[error("{0}")]
    Setting(String),
    /// The model produced numbers no token can be chosen from.
    #[error(transparent)]
    Sampling(#[from] crate::sampling::SamplingError),
    /// There is no room for more keys and values.
    #[error(transparent)]
    OutOfPages(#[from] crate::kv::OutOfPages),
    /// Pages were returned that are not held.
    #[error(transparent)]
    Free(#[from] crate::kv::FreeError),
    /// The CUDA device, its driver or its compiler refused something.
    #[error("CUDA: {0}")]
    Cuda(#[source] CudaError),
    /// A CUDA device has too little memory.
    #[error(transparent)]
    NoRoom(#[from] crate::model::NoRoom),
    /// A kernel failed, and so does everything that follows on the CUDA device.
    #[error("CUDA: {0}: this process cannot use the device any more, start the engine again")]
    DeviceLost(#[source] CudaError),
    /// The worker threads could not be started.
    #[error(transparent)]
    Workers(#[from] kernels::cpu::WorkersError),
}

impl From<CudaError> for Error {
    fn from(error: CudaError) -> Self {
        if error.is_lasting() { Self::DeviceLost(error) } else { Self::Cuda(error) }
    }
}

/// A result with the engine's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }
}
