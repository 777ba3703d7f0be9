//! Grouped matrix products on the emulated device against double precision.

use kernel_tests::{assert_near, device};
use kernels::cuda::check::GroupedGemmProblem;
use kernels::cuda::{CudaDevice, GroupedGemm, GroupedGemmShape};

/// Rows per expert around the boundary of a block, and experts without rows first, last and between.
const ROWS: [usize; 8] = [0, 1, 63, 64, 0, 65, 17, 0];

fn check(device: &CudaDevice, shape: GroupedGemmShape, rows: &[usize], foreign: usize, seed: u64) {
    let case = format!("{shape:?} rows {rows:?} foreign {foreign} seed {seed}");
    let kernel = GroupedGemm::compile(device, shape).unwrap();
    let problem = GroupedGemmProblem::random(shape, rows, foreign, seed).unwrap();
    let found = problem.run(device, &kernel).unwrap();
    assert_near(&case, &problem.compare(&found));
    assert!(found.guards_intact, "{case}: wrote outside its result");
}

/// Whole tiles, parts of tiles in either direction, and less than one tile; one, some and many steps along the depth.
fn check_block_rows(block_rows: usize) {
    let device = device();
    let sizes = [(64, 32), (128, 64), (104, 72), (8, 8), (200, 160), (64, 320)];
    for (index, (columns, depth)) in sizes.into_iter().enumerate() {
        let shape =
            GroupedGemmShape { block_rows, experts: ROWS.len(), columns, depth, rows_per_input: [1, 2, 8][index % 3] };
        let seed = (block_rows * 100 + index) as u64;
        check(&device, shape, &ROWS, index % 2 * 20, seed);
    }
}

#[test]
fn blocks_of_16_rows() {
    check_block_rows(16);
}

#[test]
fn blocks_of_32_rows() {
    check_block_rows(32);
}

#[test]
fn blocks_of_64_rows() {
    check_block_rows(64);
}

#[test]
fn blocks_of_128_rows() {
    check_block_rows(128);
}

#[test]
fn one_expert_is_a_plain_matrix_product() {
    let shape = GroupedGemmShape { block_rows: 64, experts: 1, columns: 128, depth: 128, rows_per_input: 1 };
    check(&device(), shape, &[130], 0, 5);
}

#[test]
fn no_rows_and_only_foreign_rows_are_no_work() {
    let shape = GroupedGemmShape { block_rows: 16, experts: 2, columns: 64, depth: 64, rows_per_input: 2 };
    let device = device();
    check(&device, shape, &[0, 0], 0, 6);
    check(&device, shape, &[0, 0], 10, 7);
}
