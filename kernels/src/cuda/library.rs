//! Finding the driver, so that cudarc finds it too, and opening libraries.
//!
//! cudarc opens the driver by bare name and panics where that fails. A library opened before, by its path, answers
//! to its own name from then on. So what the caller names by path is opened here first, and whether the bare name
//! resolves is asked before cudarc is called for anything else.

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::error::{CudaError, During};

/// Makes the driver available, from `path` where one is given.
///
/// The first driver that a process opens serves it to the end: two different drivers cannot be used in one process.
pub(super) fn load_driver(path: Option<&Path>) -> Result<(), CudaError> {
    if let Some(path) = path {
        let library = open(path)?;
        // SAFETY: the function is looked for and not called.
        if unsafe { library.get::<unsafe extern "C" fn()>(c"cuDriverGetVersion") }.is_err() {
            return Err(CudaError::OtherLibrary { path: path.to_owned() });
        }
        // Never closed: cudarc keeps function addresses of it to the end of the process.
        std::mem::forget(library);
    }
    // SAFETY: opens and closes the library if there is one; CUDA's driver may be initialised by any thread.
    if !unsafe { cudarc::driver::sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    let version = driver_version()?;
    if version < NEEDED { Err(CudaError::OldDriver { version, needed: NEEDED }) } else { Ok(()) }
}

/// The version of CUDA that the driver is made for. The driver has to be there.
pub(super) fn driver_version() -> Result<(u32, u32), CudaError> {
    let mut version = 0_i32;
    // SAFETY: the caller has found the driver, which has had this function ever since, and writes the version to a local.
    unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .during("asking the driver's version")?;
    Ok((version.cast_unsigned() / 1000, version.cast_unsigned() % 1000 / 10))
}

/// The version of CUDA that the driver has to be made for: that of the compiler. Its machine code runs with later ones.
pub(super) const NEEDED: (u32, u32) = (13, 0);

/// The file of `folder` whose name begins with `prefix`; the one that sorts last where there are several versions.
pub(super) fn find(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let begins = |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(prefix));
    std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(begins).max()
}

/// Opens the library of a file.
pub(super) fn open(path: &Path) -> Result<Library, CudaError> {
    let failed = |message: String| CudaError::Library { path: path.to_owned(), message };
    // Relative names without a slash would be searched for; a path must mean that file.
    let path = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
    // SAFETY: the caller names a CUDA library; its initialisers are those that any CUDA program runs.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    // The words of the system's loader are below those of the error.
    library.map_err(|error| failed(error.source().unwrap_or(&error).to_string()))
}

/// Opens a CUDA library that the library path has.
pub(super) fn open_by_name(name: &str) -> Option<Library> {
    // SAFETY: as above.
    unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = load_driver(Some(Path::new("/no/such/libcuda.so"))).unwrap_err();
        assert!(error.to_string().contains("/no/such/libcuda.so"), "{error}");
    }

    #[test]
    fn what_the_loader_says_of_a_file_that_is_no_library_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcuda.so");
        std::fs::write(&path, "not a library at all, and long enough to be looked into by whoever wants to").unwrap();
        let said = load_driver(Some(&path)).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{} does not load: ", path.display())), "{said}");
        assert!(said.contains("invalid ELF header"), "{said}");
    }

    #[test]
    fn another_library_is_not_taken_for_the_driver() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.split_whitespace().find(|word| word.contains("/libc.so")).expect("the process has a C library");
        let said = load_driver(Some(Path::new(path))).unwrap_err().to_string();
        assert_eq!(said, format!("{path} is no CUDA driver: it has no cuDriverGetVersion"));
    }
}
