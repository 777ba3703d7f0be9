//! Without a driver the CUDA side answers with errors. A test binary of its own: a process that has once loaded a driver
//! keeps it, and then nothing here would be tested.

#![cfg(feature = "cuda")]

use std::path::PathBuf;

use kernels::cuda::check::CheckShapes;
use kernels::cuda::{CudaDevice, CudaError, CudaOptions, DecodeAttentionShape, GroupedGemmShape, self_check};

const SHAPES: CheckShapes = CheckShapes {
    attention: DecodeAttentionShape { head_dim: 64, query_heads: 4, kv_heads: 2, page_size: 16, split_tokens: 64 },
    experts: GroupedGemmShape { block_rows: 16, experts: 2, columns: 64, depth: 64, rows_per_input: 1 },
    seed: 1,
};

/// True on a machine that has a driver; these tests then have nothing to show.
fn has_driver() -> bool {
    let open = CudaDevice::open(&CudaOptions::default());
    !matches!(open, Err(CudaError::NoDriver))
}

#[test]
fn opening_a_device_says_that_there_is_no_driver() {
    if has_driver() {
        return;
    }
    let error = CudaDevice::open(&CudaOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("no CUDA driver"), "{error}");
}

#[test]
fn the_self_check_says_that_there_is_no_driver() {
    if has_driver() {
        return;
    }
    let error = self_check(&CudaOptions::default(), &SHAPES).unwrap_err();
    assert!(matches!(error, CudaError::NoDriver), "{error}");
}

#[test]
fn a_driver_that_is_not_a_library_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let driver = scratch.path().join("libcuda.so");
    std::fs::write(&driver, "not a library").unwrap();
    let options = CudaOptions {
        driver_path: Some(driver),
        nvrtc_path: Some(PathBuf::from("/no/such/folder")),
        ..CudaOptions::default()
    };
    let error = CudaDevice::open(&options).unwrap_err();
    assert!(matches!(error, CudaError::Library { .. }), "{error}");
}
