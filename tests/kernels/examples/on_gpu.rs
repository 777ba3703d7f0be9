//! Every problem of the kernel tests, on the machine's own GPU.
//!
//! `cargo run --release -p kernel-tests --example on_gpu [folder of NVRTC]`. The first wrong result ends it.

use std::error::Error;
use std::time::Instant;

use kernel_tests::{cases, operation_cases, product_cases};
use kernels::cuda::{CudaDevice, CudaOptions, Gemm, GemmTiles};

fn main() -> Result<(), Box<dyn Error>> {
    let options = CudaOptions { nvrtc_path: std::env::args_os().nth(1).map(Into::into), ..CudaOptions::default() };
    let device = CudaDevice::open(&options)?;
    println!("{} ({:?})", device.name()?, device.target());
    let start = Instant::now();
    for head_dim in (16..=256).step_by(16) {
        for case in cases::attention(head_dim) {
            case.check(&device);
        }
    }
    for head_dim in (16..=256).step_by(16) {
        for case in cases::prefill(head_dim) {
            case.check(&device);
        }
    }
    for case in cases::attention_with_rules() {
        case.check(&device);
    }
    for case in cases::mla() {
        case.check(&device);
    }
    for case in cases::prefill_with_rules() {
        case.check(&device);
    }
    for block_rows in [16, 32, 64, 128] {
        for case in cases::products(block_rows) {
            case.check(&device);
            case.check_gated(&device);
        }
    }
    for tile in product_cases::DENSE_TILES {
        product_cases::dense(&device, tile);
        for format in product_cases::FORMATS {
            product_cases::quantised(&device, format, tile);
        }
    }
    operation_cases::all(&device);
    let product = Gemm::compile(&device, GemmTiles::default())?;
    for seed in 0..200 {
        cases::random_attention(seed).check(&device);
        cases::random_mla(seed).check(&device);
        cases::random_prefill(seed).check(&device);
        cases::random_product(seed).check(&device);
        product_cases::random_dense(&device, &product, seed);
    }
    println!("all right, in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
