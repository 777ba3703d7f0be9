//! What a driver answers to PTX that it does not take, in words.

use cudarc::driver::sys::CUresult;

use super::library;

/// The version of CUDA whose compiler has written PTX, as it says above it.
pub(super) fn release(text: &str) -> Option<&str> {
    let comments = text.lines().take_while(|line| line.starts_with("//"));
    let mut releases = comments.filter_map(|line| Some(line.split_once(", release ")?.1.split(',').next()?.trim()));
    releases.next()
}

/// Why a driver does not take PTX of some version of CUDA, if that is neither the program's fault nor a lack of memory.
pub(super) fn refusal(answer: CUresult, release: Option<&str>) -> Option<String> {
    let why = match answer {
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            let driver = library::driver_version().map_or_else(|_| String::new(), |(major, minor)| {
                format!(" of version {major}.{minor}")
            });
            let (of, newer) = match release {
                Some(release) => (format!("that of NVRTC {release}"), format!("of CUDA {release} or later")),
                None => ("this one".to_owned(), "that is newer".to_owned()),
            };
            format!("one{driver} does not know {of}: install a driver {newer}, or an NVRTC no newer than the driver")
        }
        CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND => {
            "its own compiler, libnvidia-ptxjitcompiler.so.1, is not on the library path; it is installed with NVIDIA's \
             driver"
                .to_owned()
        }
        CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED => {
            "compiling it is switched off (CUDA_DISABLE_PTX_JIT in the environment)".to_owned()
        }
        _ => return None,
    };
    Some(why)
}
