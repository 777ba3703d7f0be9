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

const COMPILER: &str = "libnvrtc.so";
const BUILTINS: &str = "libnvrtc-builtins.so";

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
        let (library, path) = find(folder)?;
        let incomplete =
            |error: libloading::Error| CudaError::Library { path: path.clone(), message: library::words(&error) };
        let version = version(&library, incomplete)?;
        if version.0 != NEEDED.0 {
            return Err(CudaError::OtherCompiler { version, needed: NEEDED.0, looked_in: folder.map(Path::to_owned) });
        }
        let functions = Self::of(&library).map_err(incomplete)?;
        if let Some(folder) = folder {
            open_builtins(folder, version)?;
        }
        std::mem::forget(library);
        Ok(functions)
    }
}

/// Installations of several versions lie side by side: the name of the version that is needed comes before that of any.
fn find(folder: Option<&Path>) -> Result<(Library, PathBuf), CudaError> {
    let needed = format!("{COMPILER}.{}", NEEDED.0);
    let missing =
        |instead| CudaError::NoCompiler { missing: needed.clone(), looked_in: folder.map(Path::to_owned), instead };
    if let Some(folder) = folder {
        let path = library::find(folder, COMPILER, &NEEDED.0.to_string()).map_err(missing)?;
        return Ok((library::open(&path)?, path));
    }
    for name in [&*needed, COMPILER] {
        if let Some(library) = library::open_by_name(name)? {
            return Ok((library, PathBuf::from(name)));
        }
    }
    Err(missing(String::new()))
}

/// The compiler opens its builtins by bare name when it first compiles, and then finds those that are loaded.
fn open_builtins(folder: &Path, (major, minor): (u32, u32)) -> Result<(), CudaError> {
    let version = format!("{major}.{minor}");
    let missing = |instead| CudaError::NoCompiler {
        missing: format!("{BUILTINS}.{version}"),
        looked_in: Some(folder.to_owned()),
        instead,
    };
    let path = library::find(folder, BUILTINS, &version).map_err(missing)?;
    std::mem::forget(library::open(&path)?);
    Ok(())
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
        let said = |folder: &Path| Nvrtc::open(Some(folder)).unwrap_err().to_string();
        let missing = "no CUDA compiler: libnvrtc.so.13, of NVRTC 13, is not in";
        let unreadable = said(Path::new("/no/such/folder"));
        assert_eq!(
            unreadable,
            format!("{missing} /no/such/folder, which cannot be read: No such file or directory (os error 2)")
        );
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().display().to_string();
        assert_eq!(said(folder.path()), format!("{missing} {empty}"));
        std::fs::write(folder.path().join("libnvrtc.so.12"), "").unwrap();
        assert_eq!(said(folder.path()), format!("{missing} {empty}, which has libnvrtc.so.12"));
    }
}
