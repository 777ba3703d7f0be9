//! What the tests of the CUDA kernels share: where the emulated driver and the compiler are, and how to ask the
//! emulator what it found.

use std::path::{Path, PathBuf};

use kernels::cuda::check::Comparison;
use kernels::cuda::{CudaDevice, CudaOptions};
use libloading::os::unix::{Library, RTLD_LAZY};

/// The emulated driver and the pinned compiler.
///
/// # Panics
///
/// If either is missing, with the command that brings it.
#[must_use]
pub fn options() -> CudaOptions {
    CudaOptions { driver_path: Some(emulator_path()), nvrtc_path: Some(compiler_folder()), ordinal: 0 }
}

/// Opens the emulated device.
///
/// # Panics
///
/// If that fails.
#[must_use]
pub fn device() -> CudaDevice {
    CudaDevice::open(&options()).expect("the emulated device opens")
}

/// The folder with NVRTC, which stays with the sources wherever binaries are built.
///
/// # Panics
///
/// If it has not been fetched.
#[must_use]
pub fn compiler_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda-tools");
    assert!(folder.join("wheel.sha256").exists(), "{} is not there: run `cargo xtask cuda-tools`", folder.display());
    folder
}

/// The driver library, which cargo builds into the folder of the test binary.
fn emulator_path() -> PathBuf {
    let binary = std::env::current_exe().expect("a running test has a path");
    let folder = binary.parent().expect("a file is in a folder");
    let library = folder.join("libcuda_emu.so");
    assert!(library.exists(), "{} is not there: run `cargo build -p cuda-emu`", library.display());
    library
}

/// The emulator behind the driver's interface.
pub struct Emulator(Library);

impl Emulator {
    /// The emulator that [`device`] uses.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    #[must_use]
    pub fn open() -> Self {
        // SAFETY: the library is the project's own and runs nothing when it is opened.
        let library = unsafe { Library::open(Some(emulator_path()), RTLD_LAZY) };
        Self(library.expect("the emulator opens"))
    }

    /// Its account of the last failure.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn report(&self) -> String {
        type Report = unsafe extern "C" fn(*mut u8, usize) -> usize;
        // SAFETY: that is the function's type.
        let report = unsafe { self.0.get::<Report>("cuda_emu_last_report") };
        let report = report.expect("the emulator tells its report");
        let mut bytes = vec![0; 8192];
        // SAFETY: the buffer is as long as is said.
        let length = unsafe { report(bytes.as_mut_ptr(), bytes.len()) };
        bytes.truncate(length);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Lets warps take turns at random from now on, or by number where `seed` is 0.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    pub fn set_schedule(&self, seed: u64) {
        type Set = extern "C" fn(u64);
        // SAFETY: that is the function's type.
        let set = unsafe { self.0.get::<Set>("cuda_emu_set_schedule") };
        set.expect("the emulator takes a schedule")(seed);
    }

    /// Passes over shared memory that bank conflicts cost the last kernel.
    ///
    /// # Panics
    ///
    /// If the library is another one.
    #[must_use]
    pub fn bank_conflicts(&self) -> u64 {
        type Count = extern "C" fn() -> u64;
        // SAFETY: that is the function's type.
        let count = unsafe { self.0.get::<Count>("cuda_emu_bank_conflicts") };
        count.expect("the emulator counts bank conflicts")()
    }
}

/// Fails unless a result is near enough to its reference; prints the errors either way.
///
/// # Panics
///
/// If it is not.
pub fn assert_near(case: &str, comparison: &Comparison) {
    println!("{case}: {comparison}");
    assert!(comparison.holds(), "{case}: {comparison}");
}
