//! Grouped products against double precision.

use kernel_tests::cases::{self, ProductCase};
use kernel_tests::device;
use kernels::cuda::GroupedGemmShape;

fn check(block_rows: usize) {
    let device = device();
    for case in cases::products(block_rows) {
        case.check(&device);
    }
}

#[test]
fn blocks_of_16_rows() {
    check(16);
}

#[test]
fn blocks_of_32_rows() {
    check(32);
}

#[test]
fn blocks_of_64_rows() {
    check(64);
}

#[test]
fn blocks_of_128_rows() {
    check(128);
}

#[test]
fn shapes_and_batches_drawn_at_random() {
    let device = device();
    for seed in 0..12 {
        cases::random_product(seed).check(&device);
    }
}

#[test]
fn gated_products_in_blocks_of_every_size() {
    let device = device();
    for (index, block_rows) in [16, 32, 64, 128].into_iter().enumerate() {
        for case in cases::products(block_rows).iter().skip(index % 2).step_by(2) {
            case.check_gated(&device);
        }
    }
    for seed in 20..24 {
        cases::random_product(seed).check_gated(&device);
    }
}

#[test]
fn one_expert_is_a_plain_matrix_product() {
    let shape = GroupedGemmShape { block_rows: 64, experts: 1, columns: 128, depth: 128, rows_per_input: 1 };
    ProductCase { shape, rows: vec![130], foreign: 0, seed: 5 }.check(&device());
}

#[test]
fn no_rows_and_only_foreign_rows_are_no_work() {
    let shape = GroupedGemmShape { block_rows: 16, experts: 2, columns: 64, depth: 64, rows_per_input: 2 };
    let device = device();
    for (foreign, seed) in [(0, 6), (10, 7)] {
        ProductCase { shape, rows: vec![0, 0], foreign, seed }.check(&device);
    }
}
