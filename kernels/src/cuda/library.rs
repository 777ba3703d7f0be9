//! Finding the driver, so that cudarc finds it too, and opening libraries.
//!
//! cudarc opens the driver by bare name, `libcuda.so` first, and panics where that fails. That name is the driver's only where the
//! package for building programs is installed, and where the library path has a folder of stubs, it is a stub's. So the driver is
//! opened here first, by the name that every installation has or by the path that the caller gives, and before cudarc is called
//! for anything, its names are made to lead to that very library.

use std::error::Error;
use std::path::{Path, PathBuf};

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_NOW, Symbol};

use super::driver_name;
use super::error::{CudaError, During};

/// What the library path has the driver by, the best first.
const DRIVER: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// What cudarc opens, of its names those that a driver can have.
const OPENED_BY_CUDARC: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// A function that every driver has.
const IN_EVERY_DRIVER: &[u8] = b"cuDriverGetVersion\0";

/// Makes the driver available, from `path` where one is given.
///
/// The first driver that a process opens serves it to the end: two different drivers cannot be used in one process.
pub(super) fn load_driver(path: Option<&Path>) -> Result<(), CudaError> {
    let (driver, place) = match path {
        Some(path) => (open(path)?, std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
        None => {
            let found = DRIVER.into_iter().find_map(|name| Some((open_by_name(name).transpose()?, name)));
            let (driver, name) = found.ok_or(CudaError::NoDriver)?;
            (driver?, PathBuf::from(name))
        }
    };
    let Some(function) = address(&driver) else {
        return Err(CudaError::OtherLibrary { path: place, why: "it has no cuDriverGetVersion" });
    };
    // Never closed: cudarc keeps function addresses of it to the end of the process.
    std::mem::forget(driver);
    let leads_there = || opened_by_cudarc().is_some_and(|library| address(&library) == Some(function));
    if !leads_there() {
        driver_name::give(&place);
        if !leads_there() {
            return Err(CudaError::OtherDriver { path: place });
        }
    }
    let version = driver_version().map_err(|error| match error {
        CudaError::Driver { source: DriverError(CUresult::CUDA_ERROR_STUB_LIBRARY), .. } => {
            CudaError::OtherLibrary { path: place, why: STUB }
        }
        other => other,
    })?;
    if version < NEEDED { Err(CudaError::OldDriver { version, needed: NEEDED }) } else { Ok(()) }
}

const STUB: &str = "it is the stub of it that the CUDA toolkit has for linking programs: take the folder of stubs off the \
                    library path, and install NVIDIA's driver if there is none";

/// What cudarc finds as the driver, if anything. Stays loaded only if something else keeps it.
fn opened_by_cudarc() -> Option<Library> {
    // SAFETY: the names are those of CUDA's driver, whose initialisers any thread may run.
    OPENED_BY_CUDARC.into_iter().find_map(|name| unsafe { Library::open(Some(name), RTLD_LAZY) }.ok())
}

/// Where a library has a function that every driver has.
fn address(library: &Library) -> Option<*mut std::ffi::c_void> {
    // SAFETY: the function is looked for and not called.
    unsafe { library.get::<unsafe extern "C" fn()>(IN_EVERY_DRIVER) }.ok().map(Symbol::as_raw_ptr)
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

/// The file of `folder` that a library of some version is: `stem.version`, or else, of those that have more numbers after
/// that, the last, or else `stem`, which may be of any version.
///
/// Where there is none, what the folder has instead, as the end of a sentence.
pub(super) fn find(folder: &Path, stem: &str, version: &str) -> Result<PathBuf, String> {
    let unreadable = |error: std::io::Error| format!(", which cannot be read: {error}");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        names.extend(name.into_string().ok().filter(|name| name.starts_with(stem)));
    }
    names.sort_unstable();
    let exact = format!("{stem}.{version}");
    // By number: 9 before 10.
    let numbers = |name: &&String| -> Option<Vec<u32>> {
        let rest = name.strip_prefix(&*exact)?.strip_prefix('.')?;
        rest.split('.').map(|number| number.parse().ok()).collect()
    };
    let of_version = names.iter().filter_map(|name| Some((numbers(&name)?, name))).max().map(|(_, name)| name);
    let named = |wanted: &str| names.iter().find(|name| *name == wanted);
    match named(&exact).or(of_version).or_else(|| named(stem)) {
        Some(name) => Ok(folder.join(name)),
        None if names.is_empty() => Err(String::new()),
        None => Err(format!(", which has {}", names.join(", "))),
    }
}

/// Opens the library of a file.
pub(super) fn open(path: &Path) -> Result<Library, CudaError> {
    let failed = |message: String| CudaError::Library { path: path.to_owned(), message };
    // Relative names without a slash would be searched for; a path must mean that file.
    let path = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
    // SAFETY: the caller names a CUDA library; its initialisers are those that any CUDA program runs.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    library.map_err(|error| failed(words(&error)))
}

/// Opens a CUDA library that the library path has, if it has one of this name.
pub(super) fn open_by_name(name: &str) -> Result<Option<Library>, CudaError> {
    // SAFETY: as above.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
    library.map(Some).or_else(|error| {
        let message = words(&error);
        // What the system's loader says names the file that it has not found, which may be one that the library needs.
        let is_missing = message.starts_with(&format!("{name}: cannot open shared object file: No such file"));
        if is_missing { Ok(None) } else { Err(CudaError::Library { path: PathBuf::from(name), message }) }
    })
}

/// The words of the system's loader, which are below those of the error.
pub(super) fn words(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
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

    #[test]
    fn of_several_files_that_of_the_version_is_found() {
        let cases: [(&[&str], Result<&str, &str>); 7] = [
            (&["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.13.0.88"], Ok("libnvrtc.so.13")),
            (&["libnvrtc.so.13", "libnvrtc.so.14", "libnvrtc.so.130"], Ok("libnvrtc.so.13")),
            (&["libnvrtc.so.13.9.1", "libnvrtc.so.13.10.0", "libnvrtc.so.13.old"], Ok("libnvrtc.so.13.10.0")),
            (&["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.14"], Ok("libnvrtc.so")),
            (&["libnvrtc.so.12", "libnvrtc.so.14.1"], Err(", which has libnvrtc.so.12, libnvrtc.so.14.1")),
            (&["libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"], Err("")),
            (&[], Err("")),
        ];
        for (files, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                std::fs::write(folder.path().join(file), "").unwrap();
            }
            let expected = expected.map(|name| folder.path().join(name)).map_err(str::to_owned);
            assert_eq!(find(folder.path(), "libnvrtc.so", "13"), expected, "{files:?}");
        }
    }
}
