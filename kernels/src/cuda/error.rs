//! What can go wrong between a shape and a finished launch.

use std::path::PathBuf;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use cudarc::nvrtc::result::NvrtcError;

/// An error of the CUDA side of this crate.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// No driver library was found.
    #[error("no CUDA driver: libcuda.so is not on the library path (it is installed with NVIDIA's driver)")]
    NoDriver,

    /// A library that was named as the driver is another.
    #[error("{} is no CUDA driver: it has no cuDriverGetVersion", path.display())]
    OtherLibrary {
        /// Its file.
        path: PathBuf,
    },

    /// No run-time compiler was found.
    #[error("no CUDA compiler: NVRTC (libnvrtc.so) is not {}", place(looked_in.as_ref()))]
    NoCompiler {
        /// The folder that was searched; the library path where none was given.
        looked_in: Option<PathBuf>,
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
    #[error("no CUDA device {ordinal}: the driver reports {devices}")]
    NoDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many devices there are.
        devices: usize,
    },

    /// The driver refused something or a kernel failed.
    #[error("{action}: {source}")]
    Driver {
        /// What was being done.
        action: &'static str,
        /// The driver's answer. A failed kernel is often reported by a later call than its launch.
        source: DriverError,
    },

    /// The driver gives no memory of the host that the device can copy from while the program goes on.
    #[error("pinning {} MiB of host memory: {source}", bytes.div_ceil(1 << 20))]
    Pinned {
        /// How much was asked for.
        bytes: usize,
        /// The driver's answer.
        source: DriverError,
    },

    /// The compiler refused something other than the source.
    #[error("{action}: {source}")]
    Compiler {
        /// What was being done.
        action: &'static str,
        /// The compiler's answer.
        source: NvrtcError,
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
    /// Whether a kernel has failed, or the device has: then what was done to memory is not known, and everything that follows
    /// fails too, in all of the process that uses the device.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        use CUresult::{
            CUDA_ERROR_ASSERT, CUDA_ERROR_CONTAINED, CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_EXTERNAL_DEVICE,
            CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_INSTRUCTION,
            CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED,
            CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_MPS_CLIENT_TERMINATED,
            CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_TENSOR_MEMORY_LEAK, CUDA_ERROR_UNKNOWN,
        };
        let Self::Driver { source, .. } = self else { return false };
        // Those of which NVIDIA's documentation says that the process has to be ended, and what is reported of a device that has
        // fallen off its bus.
        matches!(
            source.0,
            CUDA_ERROR_ASSERT
                | CUDA_ERROR_CONTAINED
                | CUDA_ERROR_ECC_UNCORRECTABLE
                | CUDA_ERROR_EXTERNAL_DEVICE
                | CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUDA_ERROR_ILLEGAL_ADDRESS
                | CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUDA_ERROR_INVALID_ADDRESS_SPACE
                | CUDA_ERROR_INVALID_PC
                | CUDA_ERROR_LAUNCH_FAILED
                | CUDA_ERROR_LAUNCH_TIMEOUT
                | CUDA_ERROR_MISALIGNED_ADDRESS
                | CUDA_ERROR_MPS_CLIENT_TERMINATED
                | CUDA_ERROR_NVLINK_UNCORRECTABLE
                | CUDA_ERROR_TENSOR_MEMORY_LEAK
                | CUDA_ERROR_UNKNOWN
        )
    }

    /// Whether the device had too little memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Driver { source: DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY), .. })
    }
}

fn place(folder: Option<&PathBuf>) -> String {
    folder.map_or_else(|| "on the library path".to_owned(), |folder| format!("in {}", folder.display()))
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

    #[test]
    fn what_ends_a_process_lasts_and_what_is_refused_does_not() {
        let lasts = |code| CudaError::Driver { action: "running kernels", source: DriverError(code) }.is_lasting();
        for code in [
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
            CUresult::CUDA_ERROR_CONTAINED,
            CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK,
            CUresult::CUDA_ERROR_UNKNOWN,
        ] {
            assert!(lasts(code), "{code:?}");
        }
        for code in [
            CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            CUresult::CUDA_ERROR_INVALID_VALUE,
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        ] {
            assert!(!lasts(code), "{code:?}");
        }
    }
}
