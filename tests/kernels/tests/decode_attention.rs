//! Decode attention on the emulated device against double precision.

use kernel_tests::{cases, device};
use kernels::cuda::check::{DecodeProblem, MlaDecodeProblem, PoolOrder};
use kernels::cuda::{AttentionRules, DecodeAttention, DecodeAttentionShape, MlaDecode, MlaDecodeShape};

fn check(head_dim: usize) {
    let device = device();
    for case in cases::attention(head_dim) {
        case.check(&device);
    }
}

#[test]
fn heads_of_32_elements() {
    check(32);
}

#[test]
fn heads_of_64_elements() {
    check(64);
}

#[test]
fn heads_of_128_elements() {
    check(128);
}

#[test]
fn heads_of_256_elements() {
    check(256);
}

#[test]
fn heads_of_other_sizes() {
    check(16);
    check(80);
    check(96);
}

#[test]
fn windows_capped_scores_and_sinks() {
    let device = device();
    for case in cases::attention_with_rules() {
        case.check(&device);
    }
}

#[test]
fn shapes_and_batches_drawn_at_random() {
    let device = device();
    for seed in 0..12 {
        cases::random_attention(seed).check(&device);
    }
}

#[test]
fn compressed_keys_and_values() {
    let device = device();
    for case in cases::mla() {
        case.check(&device);
    }
}

#[test]
fn compressed_keys_and_values_drawn_at_random() {
    let device = device();
    for seed in 0..8 {
        cases::random_mla(seed).check(&device);
    }
}

const SHAPE: DecodeAttentionShape =
    DecodeAttentionShape { head_dim: 128, query_heads: 2, kv_heads: 2, page_size: 16, split_tokens: 64 };

/// A result must not change with what it is batched with: neither by the split count that a longer neighbour brings,
/// nor by its place.
#[test]
fn a_request_has_the_same_bits_alone_and_in_a_batch() {
    let device = device();
    let kernel = DecodeAttention::compile(&device, SHAPE, AttentionRules::default()).unwrap();
    let batch =
        DecodeProblem::random(SHAPE, AttentionRules::default(), &[Some(40), Some(500)], PoolOrder::TokenMajor, 11);
    let alone = batch.first_requests(1).run(&device, &kernel).unwrap();
    let batched = batch.run(&device, &kernel).unwrap();
    assert_eq!(alone.output, batched.output[..SHAPE.query_heads * SHAPE.head_dim]);
    assert_eq!(alone.lse, batched.lse[..SHAPE.query_heads]);
}

#[test]
fn compressed_keys_give_the_same_bits_alone_and_in_a_batch() {
    let device = device();
    let shape = MlaDecodeShape { latent_dim: 128, rope_dim: 64, query_heads: 3, page_size: 16, split_tokens: 64 };
    let kernel = MlaDecode::compile(&device, shape).unwrap();
    let batch = MlaDecodeProblem::random(shape, &[Some(40), Some(500)], 11);
    let (alone, batched) = (batch.first_requests(1).run(&device, &kernel), batch.run(&device, &kernel).unwrap());
    let alone = alone.unwrap();
    assert_eq!(alone.output, batched.output[..3 * 128]);
    assert_eq!(alone.lse, batched.lse[..3]);
}

#[test]
fn a_batch_of_nothing_is_nothing() {
    let device = device();
    let kernel = DecodeAttention::compile(&device, SHAPE, AttentionRules::default()).unwrap();
    let problem = DecodeProblem::random(SHAPE, AttentionRules::default(), &[None, Some(0)], PoolOrder::TokenMajor, 3);
    let found = problem.run(&device, &kernel).unwrap();
    assert!(found.output.iter().all(|value| value.to_bits() == 0));
    assert!(found.lse.iter().all(|&lse| lse == f64::NEG_INFINITY));
}
