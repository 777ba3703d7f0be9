//! A driver without a compiler is an error. In a process of its own, which has not loaded a compiler before.

use kernel_tests::options;
use kernels::cuda::{Compiler, CudaDevice, CudaError};

#[test]
fn a_device_does_not_open_without_a_compiler() {
    if Compiler::find(None).is_ok() {
        // The machine has one of its own.
        return;
    }
    let mut options = options();
    options.nvrtc_path = None;
    let error = CudaDevice::open(&options).unwrap_err();
    assert!(matches!(error, CudaError::NoCompiler { looked_in: None }), "{error}");
    assert!(error.to_string().contains("on the library path"), "{error}");
}
