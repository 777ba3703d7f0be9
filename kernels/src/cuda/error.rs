//! What can go wrong between a shape and a finished launch.

use std::fmt;
use std::path::PathBuf;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use cudarc::nvrtc::result::NvrtcError;

use super::library::NEEDED;

/// An error of the CUDA side of this crate.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// No driver library was found.
    #[error("no CUDA driver: libcuda.so is not on the library path (it is installed with NVIDIA's driver)")]
    NoDriver,

    /// A library that was named or found as the driver is another.
    #[error("{} is no CUDA driver: {why}", path.display())]
    OtherLibrary {
        /// Its file, or the name that the library path has it by.
        path: PathBuf,
        /// How that is seen, and what would help.
        why: &'static str,
    },

    /// The driver is there, and another library is in its place.
    #[error(
        "{} cannot be used as the CUDA driver, since libcuda.so is another library: one that this process has opened \
         before, or one that the library path has first, whose folder has to be taken off it",
        path.display()
    )]
    OtherDriver {
        /// The driver's file, or the name that the library path has it by.
        path: PathBuf,
    },

    /// The run-time compiler was not found, or a part of it.
    #[error("no CUDA compiler: {missing}, of NVRTC {}, is not {}{instead}", NEEDED.0, place(looked_in.as_ref()))]
    NoCompiler {
        /// The library.
        missing: String,
        /// The folder that was searched; the library path where none was given.
        looked_in: Option<PathBuf>,
        /// What there is instead, or why nothing can be seen, as the end of a sentence.
        instead: String,
    },

    /// A driver that cannot load what compilers make for this program.
    #[error(
        "the CUDA driver is of version {}.{}, and the kernels need one of {}.{} or later: install a newer driver of \
         NVIDIA's (580 or later)",
        version.0, version.1, needed.0, needed.1
    )]
    OldDriver {
        /// The version of CUDA that it is made for.
        version: (u32, u32),
        /// The least that works.
        needed: (u32, u32),
    },

    /// A run-time compiler of another generation.
    #[error(
        "the CUDA compiler {} is NVRTC {}.{}, and this program works with NVRTC {needed}: install that",
        place(looked_in.as_ref()), version.0, version.1
    )]
    OtherCompiler {
        /// Its version.
        version: (u32, u32),
        /// The major version that works.
        needed: u32,
        /// The folder that it is in; the library path where none was given.
        looked_in: Option<PathBuf>,
    },

    /// A device that is too old for the kernels.
    #[error("the device's compute capability is {major}.{minor}; the kernels need 8.0 or above")]
    OldDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },

    /// Something about prebuilt kernels that cannot be used.
    #[error("prebuilt kernels: {}: {why}", path.display())]
    Prebuilt {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// A kernel that was not built before, where nothing can compile it.
    #[error(
        "the prebuilt kernels in {} have none of {what}, and nothing can compile it ({compiler}): build it for this \
         model with `cargo xtask kernels --prebuilt`, or install NVRTC",
        folder.display()
    )]
    NotPrebuilt {
        /// The folder.
        folder: PathBuf,
        /// The kernel and its target, or the device.
        what: String,
        /// Why it cannot be compiled.
        compiler: String,
    },

    /// A library is there and does not load.
    #[error("{} does not load: {message}", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// What the system's loader said.
        message: String,
    },

    /// There is no device of that number.
    #[error("no CUDA device {ordinal}: the driver reports {}", numbered(*devices))]
    NoDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many devices there are.
        devices: usize,
    },

    /// The driver refused something or a kernel failed.
    #[error("{action}: {}", Answer(*source))]
    Driver {
        /// What was being done.
        action: &'static str,
        /// The driver's answer. A failed kernel is often reported by a later call than its launch.
        source: DriverError,
    },

    /// The driver does not load the code of a kernel.
    #[error("loading {kernel}: {}", Answer(*source))]
    Load {
        /// The source file and its sizes.
        kernel: String,
        /// The driver's answer.
        source: DriverError,
    },

    /// A device for which there is no machine code, and a driver that does not make any of PTX.
    #[error(
        "the device (compute capability {}.{}) has to be given PTX, for want of machine code, and the driver does not \
         take it: {why}. Machine code needs no such thing: an NVRTC that knows the device makes it, or `cargo xtask \
         kernels --prebuilt` with a --target that the device runs",
        capability.0, capability.1
    )]
    PtxRefused {
        /// Major and minor number of the device.
        capability: (u32, u32),
        /// What is wrong with driver or PTX, and what would help.
        why: String,
    },

    /// A kernel that was loaded on another device.
    #[error("a kernel that was loaded on device {of} is used with device {with}: each needs its own")]
    OtherDevice {
        /// The number of the device that it was loaded on.
        of: usize,
        /// The number of the other.
        with: usize,
    },

    /// The driver gives no memory of the host that the device can copy from while the program goes on.
    #[error("pinning {bytes} bytes of host memory: {}", Answer(*source))]
    Pinned {
        /// How much was asked for.
        bytes: usize,
        /// The driver's answer.
        source: DriverError,
    },

    /// The compiler refused something other than the source.
    #[error("{action}: {:?}", source.0)]
    Compiler {
        /// What was being done.
        action: &'static str,
        /// The compiler's answer.
        source: NvrtcError,
    },

    /// The compiler failed, and not because of the source.
    #[error("compiling {kernel}: {:?}\n{log}", source.0)]
    CompilerFailed {
        /// The source file's name.
        kernel: String,
        /// The compiler's answer.
        source: NvrtcError,
        /// The compiler's messages.
        log: String,
    },

    /// A kernel does not compile.
    #[error("{kernel} does not compile:\n{log}")]
    Compile {
        /// The source file's name.
        kernel: String,
        /// The compiler's messages.
        log: String,
    },

    /// A shape that no kernel here is made for.
    #[error("{what} is {value}; supported: {supported}")]
    Unsupported {
        /// The offending field.
        what: &'static str,
        /// Its value.
        value: usize,
        /// What it may be.
        supported: &'static str,
    },

    /// A cap for scores that none can be.
    #[error("softcap is {0}; supported: finite numbers above 0")]
    Softcap(f32),

    /// A buffer or argument that does not fit the shape it is launched with.
    #[error("{what} is {found}; this launch needs {needed}")]
    Size {
        /// The offending argument.
        what: &'static str,
        /// Its size or value.
        found: usize,
        /// What the launch needs, in words or as a number.
        needed: String,
    },
}

impl CudaError {
    /// What the driver has answered, if it is the driver's.
    fn answer(&self) -> Option<CUresult> {
        match self {
            Self::Driver { source, .. } | Self::Load { source, .. } | Self::Pinned { source, .. } => Some(source.0),
            _ => None,
        }
    }

    /// Whether a kernel has failed, or the device has: then what was done to memory is not known, and everything that follows
    /// fails too, in all of the process that uses the device.
    ///
    /// Any call of the driver may be the one to tell it.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.answer().is_some_and(|answer| ENDS_THE_PROCESS.contains(&answer) || LOSES_THE_DEVICE.contains(&answer))
    }

    /// Whether the device had too little memory. A lack of memory of the host is another thing.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        !matches!(self, Self::Pinned { .. }) && self.answer() == Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    }
}

/// What the driver has answered, by name and in its words.
struct Answer(DriverError);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(answer) = self;
        write!(f, "{:?}", answer.0)?;
        answer.error_string().map_or(Ok(()), |words| write!(f, " ({})", words.to_string_lossy()))
    }
}

/// Answers of which NVIDIA's documentation says, at `CUresult`, that the process has to be ended and started again to go on with
/// CUDA.
const ENDS_THE_PROCESS: [CUresult; 13] = [
    CUresult::CUDA_ERROR_CONTAINED,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK,
    CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
];

/// Answers of which it says only what has happened: memory or a link of the device has lost data; the context, with all its
/// memory, is gone; or, of the last, that nobody knows. A device that has fallen off its bus is said to be told by that one. Who
/// went on after any of them would go on with memory of which nothing is known.
const LOSES_THE_DEVICE: [CUresult; 4] = [
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_UNKNOWN,
];

fn place(folder: Option<&PathBuf>) -> String {
    folder.map_or_else(|| "on the library path".to_owned(), |folder| format!("in {}", folder.display()))
}

fn numbered(devices: usize) -> String {
    if devices == 0 { "none".to_owned() } else { format!("{devices}, numbered from 0") }
}

/// Names what was being done when the driver or the compiler refused.
pub(super) trait During<T> {
    fn during(self, action: &'static str) -> Result<T, CudaError>;
}

impl<T> During<T> for Result<T, DriverError> {
    fn during(self, action: &'static str) -> Result<T, CudaError> {
        self.map_err(|source| CudaError::Driver { action, source })
    }
}

impl<T> During<T> for Result<T, NvrtcError> {
    fn during(self, action: &'static str) -> Result<T, CudaError> {
        self.map_err(|source| CudaError::Compiler { action, source })
    }
}

/// Requires `found == needed`.
pub(super) fn require_size(what: &'static str, found: usize, needed: usize) -> Result<(), CudaError> {
    require(what, found, found == needed, || needed.to_string())
}

/// Requires `holds`, described by `needed` where it does not.
pub(super) fn require(
    what: &'static str,
    found: usize,
    holds: bool,
    needed: impl FnOnce() -> String,
) -> Result<(), CudaError> {
    if holds { Ok(()) } else { Err(CudaError::Size { what, found, needed: needed() }) }
}

/// Requires that a shape's field is one that a kernel supports.
pub(super) fn require_supported(
    what: &'static str,
    value: usize,
    holds: bool,
    supported: &'static str,
) -> Result<(), CudaError> {
    if holds { Ok(()) } else { Err(CudaError::Unsupported { what, value, supported }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSALS: [CUresult; 12] = [
        CUresult::CUDA_ERROR_INVALID_VALUE,
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        CUresult::CUDA_ERROR_INVALID_CONTEXT,
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        CUresult::CUDA_ERROR_INVALID_HANDLE,
        CUresult::CUDA_ERROR_NOT_READY,
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        CUresult::CUDA_ERROR_NOT_SUPPORTED,
        CUresult::CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    ];

    /// Whatever was being done when the driver told it.
    fn all(code: CUresult) -> [CudaError; 3] {
        let source = DriverError(code);
        [
            CudaError::Driver { action: "running kernels", source },
            CudaError::Load { kernel: "a.cu".to_owned(), source },
            CudaError::Pinned { bytes: 1, source },
        ]
    }

    #[test]
    fn what_ends_a_process_lasts_and_what_is_refused_does_not() {
        let numbers = [214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999];
        let mut lasting: Vec<_> = ENDS_THE_PROCESS.into_iter().chain(LOSES_THE_DEVICE).collect();
        lasting.sort_unstable();
        assert!(lasting.iter().map(|&code| code as u32).eq(numbers));
        for code in lasting {
            assert!(all(code).iter().all(CudaError::is_lasting), "{code:?}");
        }
        for code in REFUSALS {
            assert!(!all(code).iter().any(CudaError::is_lasting), "{code:?}");
        }
        assert!(!CudaError::NoDriver.is_lasting());
    }

    #[test]
    fn memory_of_the_host_is_none_of_the_device() {
        let out_of_memory = |code| all(code).map(|error| error.is_out_of_memory());
        assert_eq!(out_of_memory(CUresult::CUDA_ERROR_OUT_OF_MEMORY), [true, true, false]);
        assert_eq!(out_of_memory(CUresult::CUDA_ERROR_INVALID_VALUE), [false; 3]);
    }
}
