//! The functions of NVRTC, out of the very library that was asked for.
//!
//! cudarc has them too, and opens the library by names of its own. The first is `libnvrtc.so`, and what the library path has of
//! that name, often one of another version, comes before one that was opened by its path.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};
use libloading::os::unix::Library;

use super::error::{CudaError, During};
use super::library::{self, NEEDED};

/// What the library path is asked for, the first that is there: installations of several versions lie side by side.
const NAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so"];

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// The functions of a library that is never closed.
        #[derive(Debug, Clone, Copy)]
        pub(super) struct Nvrtc {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> nvrtcResult,)*
        }

        impl Nvrtc {
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the library's version has been asked: these are the functions' arguments in it.
                Ok(unsafe { Self { $($field: *library.get($name)?,)* } })
            }
        }
    };
}

functions! {
    architecture_count = b"nvrtcGetNumSupportedArchs" (*mut c_int);
    architectures = b"nvrtcGetSupportedArchs" (*mut c_int);
    create = b"nvrtcCreateProgram"
        (*mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    compile = b"nvrtcCompileProgram" (nvrtcProgram, c_int, *const *const c_char);
    log_size = b"nvrtcGetProgramLogSize" (nvrtcProgram, *mut usize);
    log = b"nvrtcGetProgramLog" (nvrtcProgram, *mut c_char);
    ptx_size = b"nvrtcGetPTXSize" (nvrtcProgram, *mut usize);
    ptx = b"nvrtcGetPTX" (nvrtcProgram, *mut c_char);
    cubin_size = b"nvrtcGetCUBINSize" (nvrtcProgram, *mut usize);
    cubin = b"nvrtcGetCUBIN" (nvrtcProgram, *mut c_char);
    destroy = b"nvrtcDestroyProgram" (*mut nvrtcProgram);
}

impl Nvrtc {
    /// Opens the library of `folder`, or that of the library path where none is given.
    pub(super) fn open(folder: Option<&Path>) -> Result<Self, CudaError> {
        let looked_in = || folder.map(Path::to_owned);
        let (library, path) = find(folder)?.ok_or_else(|| CudaError::NoCompiler { looked_in: looked_in() })?;
        let incomplete =
            |error: libloading::Error| CudaError::Library { path: path.clone(), message: error.to_string() };
        let version = version(&library, incomplete)?;
        if version.0 != NEEDED.0 {
            return Err(CudaError::OtherCompiler { version, needed: NEEDED.0, looked_in: looked_in() });
        }
        let functions = Self::of(&library).map_err(incomplete)?;
        std::mem::forget(library);
        Ok(functions)
    }
}

fn find(folder: Option<&Path>) -> Result<Option<(Library, PathBuf)>, CudaError> {
    let Some(folder) = folder else {
        return Ok(NAMES.into_iter().find_map(|name| Some((library::open_by_name(name)?, PathBuf::from(name)))));
    };
    // The compiler opens its builtins by bare name when it first compiles: they have to be there before it.
    let files = ["libnvrtc-builtins.so", "libnvrtc.so"].map(|prefix| library::find(folder, prefix));
    let [Some(builtins), Some(compiler)] = files else { return Ok(None) };
    std::mem::forget(library::open(&builtins)?);
    Ok(Some((library::open(&compiler)?, compiler)))
}

fn version(library: &Library, incomplete: impl Fn(libloading::Error) -> CudaError) -> Result<(u32, u32), CudaError> {
    let (mut major, mut minor) = (0_i32, 0_i32);
    // SAFETY: this function has had these arguments in every version, and writes to locals.
    unsafe {
        let version = library.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> nvrtcResult>(b"nvrtcVersion");
        version.map_err(incomplete)?(&raw mut major, &raw mut minor)
    }
    .result()
    .during("asking the compiler's version")?;
    Ok((major.cast_unsigned(), minor.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_compiler_is_named() {
        let error = Nvrtc::open(Some(Path::new("/no/such/folder"))).unwrap_err();
        assert_eq!(error.to_string(), "no CUDA compiler: NVRTC (libnvrtc.so) is not in /no/such/folder");
    }
}
