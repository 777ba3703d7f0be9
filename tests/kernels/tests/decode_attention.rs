//! Decode attention on the emulated device against double precision.

use kernel_tests::{assert_near, device};
use kernels::cuda::check::{DecodeProblem, PoolOrder};
use kernels::cuda::{CudaDevice, DecodeAttention, DecodeAttentionShape};

/// Around the boundaries of pages and splits; an empty context and a padding row among them.
const CONTEXTS: [Option<usize>; 8] = [Some(17), Some(0), Some(513), None, Some(1), Some(16), Some(100), Some(15)];

const BASE: DecodeAttentionShape =
    DecodeAttentionShape { head_dim: 128, query_heads: 2, kv_heads: 2, page_size: 16, split_tokens: 64 };

fn check(device: &CudaDevice, shape: DecodeAttentionShape, order: PoolOrder, seed: u64) {
    let case = format!("{shape:?} {order:?} seed {seed}");
    let kernel = DecodeAttention::compile(device, shape).unwrap();
    let problem = DecodeProblem::random(shape, &CONTEXTS, order, seed);
    let found = problem.run(device, &kernel).unwrap();
    let [output, lse] = problem.compare(&found);
    assert_near(&format!("{case} output"), &output);
    assert_near(&format!("{case} lse"), &lse);
    assert!(found.guards_intact, "{case}: wrote outside its results");
}

/// Every page size with every group size, split and not, the pools in either order in turn.
fn check_head_dim(head_dim: usize, page_sizes: &[usize], groups: &[usize]) {
    let device = device();
    let mut seed = head_dim as u64 * 1000;
    for &page_size in page_sizes {
        for &group in groups {
            for split_tokens in [64, 1024] {
                seed += 1;
                let shape = DecodeAttentionShape {
                    head_dim,
                    query_heads: BASE.kv_heads * group,
                    page_size,
                    split_tokens,
                    ..BASE
                };
                let order = if seed.is_multiple_of(2) { PoolOrder::TokenMajor } else { PoolOrder::HeadMajor };
                check(&device, shape, order, seed);
            }
        }
    }
}

#[test]
fn heads_of_32_elements() {
    check_head_dim(32, &[16], &[1, 4]);
}

#[test]
fn heads_of_64_elements() {
    check_head_dim(64, &[1, 16, 64], &[1, 4, 8]);
}

#[test]
fn heads_of_128_elements() {
    check_head_dim(128, &[1, 16, 64], &[1, 4, 8]);
}

#[test]
fn heads_of_256_elements() {
    check_head_dim(256, &[16], &[1, 4]);
}

#[test]
fn groups_that_do_not_fit_a_block_are_spread_over_several() {
    let device = device();
    for group in [5, 11, 16] {
        let shape = DecodeAttentionShape { query_heads: BASE.kv_heads * group, head_dim: 64, ..BASE };
        check(&device, shape, PoolOrder::TokenMajor, group as u64);
    }
}

#[test]
fn a_split_need_not_be_whole_pages() {
    let shape = DecodeAttentionShape { split_tokens: 37, page_size: 64, ..BASE };
    check(&device(), shape, PoolOrder::HeadMajor, 37);
}

/// A result must not change with what it is batched with: neither by the split count that a longer neighbour brings,
/// nor by its place.
#[test]
fn a_request_has_the_same_bits_alone_and_in_a_batch() {
    let device = device();
    let kernel = DecodeAttention::compile(&device, BASE).unwrap();
    let long = DecodeProblem::random(BASE, &[Some(40), Some(500)], PoolOrder::TokenMajor, 11);
    let alone = long.first_requests(1);
    let row = BASE.query_heads * BASE.head_dim;
    let batched = long.run(&device, &kernel).unwrap();
    let alone = alone.run(&device, &kernel).unwrap();
    assert_eq!(alone.output, batched.output[..row]);
    assert_eq!(alone.lse, batched.lse[..BASE.query_heads]);
}

#[test]
fn a_batch_of_nothing_is_nothing() {
    let device = device();
    let kernel = DecodeAttention::compile(&device, BASE).unwrap();
    let problem = DecodeProblem::random(BASE, &[None, Some(0)], PoolOrder::TokenMajor, 3);
    let found = problem.run(&device, &kernel).unwrap();
    assert!(found.output.iter().all(|value| value.to_bits() == 0));
    assert!(found.lse.iter().all(|&lse| lse == f64::NEG_INFINITY));
}
