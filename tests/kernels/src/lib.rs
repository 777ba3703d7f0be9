//! What the tests of the CUDA kernels share: where the emulated driver and the compiler are, how to ask the emulator what
//! it found, and the problems that the kernels must solve.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernels::cuda::{Compiler, CudaDevice, CudaOptions, KernelCache};

pub mod cases;
pub mod conflicts;
pub mod disassembly;
mod emulator;
pub mod launches;
pub mod machine_code;
pub mod matrix;
pub mod models;
pub mod mutants;
pub mod mutation;
pub mod opcodes;
pub mod operation_cases;
pub mod product_cases;
pub mod programs;
pub mod references;
pub mod roofline;
pub mod subjects;

pub use emulator::{Call, Counters, Emulator};

/// The emulated driver and the pinned compiler; compiled kernels are kept for the tests that need them again.
///
/// # Panics
///
/// If either is missing, with the command that brings it.
#[must_use]
pub fn options() -> CudaOptions {
    CudaOptions {
        driver_path: Some(emulator_path()),
        nvrtc_path: Some(compiler_folder()),
        kernel_cache: Some(Arc::new(kernel_cache())),
        ..CudaOptions::default()
    }
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

/// The pinned compiler.
///
/// # Panics
///
/// If it has not been fetched.
#[must_use]
pub fn compiler() -> Compiler {
    Compiler::find(Some(&compiler_folder())).expect("the pinned compiler loads")
}

/// Where tests keep compiled kernels.
#[must_use]
pub fn kernel_cache() -> KernelCache {
    KernelCache::new(workspace_target().join("kernel-cache"), CACHE_LIMIT)
}

/// The folder with NVRTC and nvdisasm, which stays with the sources wherever binaries are built.
///
/// # Panics
///
/// If it has not been fetched.
#[must_use]
pub fn compiler_folder() -> PathBuf {
    let folder = workspace_target().join("cuda-tools");
    assert!(folder.join("wheel.sha256").exists(), "{} is not there: run `cargo xtask cuda-tools`", folder.display());
    folder
}

/// What the kernels of all tests may take of the disk.
const CACHE_LIMIT: u64 = 512 << 20;

fn workspace_target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

/// The driver library, which cargo builds into the folder of tests: below that of programs, and beside that of examples.
fn emulator_path() -> PathBuf {
    let binary = std::env::current_exe().expect("a running test has a path");
    let folder = binary.parent().expect("a file is in a folder");
    let places = ["deps", ".", "../deps"].map(|place| folder.join(place).join("libcuda_emu.so"));
    let found = places.iter().find(|place| place.exists());
    found.unwrap_or_else(|| panic!("{} is not there: run `cargo build -p cuda-emu`", places[1].display())).clone()
}
