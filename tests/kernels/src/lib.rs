//! What the tests of the CUDA kernels share: where the emulated driver and the compiler are, how to ask the emulator what
//! it found, and the problems that the kernels must solve.

use std::path::{Path, PathBuf};

use kernels::cuda::{CudaDevice, CudaOptions};

pub mod cases;
mod emulator;
pub mod mutants;
pub mod mutation;
pub mod operation_cases;
pub mod product_cases;
pub mod roofline;
pub mod subjects;

pub use emulator::{Counters, Emulator};

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

/// The driver library, which cargo builds into the folder of tests, below that of programs.
fn emulator_path() -> PathBuf {
    let binary = std::env::current_exe().expect("a running test has a path");
    let folder = binary.parent().expect("a file is in a folder");
    let below = folder.join("deps");
    let library = if below.exists() { below } else { folder.to_owned() }.join("libcuda_emu.so");
    assert!(library.exists(), "{} is not there: run `cargo build -p cuda-emu`", library.display());
    library
}
