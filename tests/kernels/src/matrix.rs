//! The shapes that tests of other engines' attention and grouped products have, as far as the kernels support them.

use kernels::cuda::check::{PoolOrder, PrefillRequest};
use kernels::cuda::{AttentionRules, DecodeAttentionShape, GroupedGemmShape, MlaDecodeShape, PrefillAttentionShape};

use crate::cases::{AttentionCase, MlaCase, PrefillCase, ProductCase};

const NONE: AttentionRules = AttentionRules { window: None, softcap: None, sinks: false };

/// The pools in either order in turn.
fn order(index: usize) -> PoolOrder {
    [PoolOrder::TokenMajor, PoolOrder::HeadMajor][index % 2]
}

fn decode(
    (head_dim, query_heads, kv_heads): (usize, usize, usize),
    (page_size, split_tokens): (usize, usize),
    rules: AttentionRules,
    contexts: &[usize],
    seed: usize,
) -> AttentionCase {
    AttentionCase {
        shape: DecodeAttentionShape { head_dim, query_heads, kv_heads, page_size, split_tokens },
        rules,
        contexts: contexts.iter().copied().map(Some).chain([None]).collect(),
        order: order(seed),
        seed: seed as u64,
    }
}

/// Decode attention: every size of heads, pages and groups; short contexts and long ones.
#[must_use]
pub fn attention() -> Vec<AttentionCase> {
    let mut cases = Vec::new();
    for head_dim in [32, 64, 80, 96, 112, 128, 192, 256] {
        for page_size in [1, 8, 16, 64, 128] {
            for (query_heads, kv_heads) in [(4, 4), (8, 2), (14, 2), (32, 4), (40, 1)] {
                let seed = cases.len();
                let split_tokens = [64, 2048][seed % 2];
                let heads = (head_dim, query_heads, kv_heads);
                cases.push(decode(heads, (page_size, split_tokens), NONE, &[54, 97, 512, 1], seed));
            }
        }
    }
    for (context, split) in [(2048, 64), (2048, 2048), (16_384, 2048), (32_789, 4096)] {
        for query_heads in [1, 4, 8] {
            cases.push(decode((128, query_heads, 1), (16, split), NONE, &[context, 20], cases.len()));
        }
    }
    cases
}

/// The same with windows, capped scores and sinks.
#[must_use]
pub fn attention_with_rules() -> Vec<AttentionCase> {
    let mut cases = Vec::new();
    for (query_heads, kv_heads) in [(4, 4), (16, 2)] {
        for window in [3, 13, 23, 33, 37, 43, 128, 533] {
            for (softcap, sinks) in [(None, false), (Some(30.0), false), (None, true)] {
                let rules = AttentionRules { window: Some(window), softcap, sinks };
                let contexts = [1, 3, 19, 99, 199, 1177, 1999];
                let split = [128, 2048][cases.len() % 2];
                cases.push(decode((64, query_heads, kv_heads), (16, split), rules, &contexts, cases.len()));
            }
        }
        for contexts in [&[1][..], &[4; 4], &[16; 16], &[128, 1, 77]] {
            let rules = AttentionRules { sinks: true, ..NONE };
            cases.push(decode((64, query_heads, kv_heads), (16, 64), rules, contexts, cases.len()));
        }
    }
    cases
}

/// Decode attention over compressed keys and values.
#[must_use]
pub fn mla() -> Vec<MlaCase> {
    let mut cases = Vec::new();
    for (latent_dim, rope_dim) in [(512, 64), (256, 32), (128, 16)] {
        for query_heads in [1, 16, 64, 128] {
            for page_size in [1, 16, 64] {
                let contexts = [140, 64, 1, 301].into_iter().map(Some).chain([None]).collect();
                let split_tokens = [100, 2048][cases.len() % 2];
                let shape = MlaDecodeShape { latent_dim, rope_dim, query_heads, page_size, split_tokens };
                cases.push(MlaCase { shape, contexts, seed: cases.len() as u64 });
            }
        }
    }
    cases
}

fn run(
    (head_dim, query_heads, kv_heads): (usize, usize, usize),
    page_size: usize,
    rules: AttentionRules,
    runs: &[(usize, usize)],
    seed: usize,
) -> PrefillCase {
    PrefillCase {
        shape: PrefillAttentionShape { head_dim, query_heads, kv_heads, page_size },
        rules,
        requests: runs.iter().map(|&(tokens, context)| PrefillRequest { tokens, context: Some(context) }).collect(),
        padding: seed % 3,
        order: order(seed),
        seed: seed as u64,
    }
}

/// Query tokens and contexts, of which some have fewer tokens than queries.
const PAIRS: [(usize, usize); 24] = [
    (1, 1),
    (1, 3),
    (2, 1),
    (64, 128),
    (128, 192),
    (256, 256),
    (239, 1),
    (511, 1),
    (3, 513),
    (307, 256),
    (799, 3),
    (113, 203),
    (113, 128),
    (128, 217),
    (113, 211),
    (108, 256),
    (256, 512),
    (384, 256),
    (640, 128),
    (512, 256),
    (1024, 1024),
    (1023, 1024),
    (1024, 1023),
    (256, 2048),
];

/// Prefill attention: every size of heads and pages, and pairs of lengths.
#[must_use]
pub fn prefill() -> Vec<PrefillCase> {
    let mut cases = Vec::new();
    for head_dim in [16, 32, 64, 80, 96, 112, 128, 192, 256] {
        for page_size in [1, 16, 64] {
            for (query_heads, kv_heads) in [(4, 4), (8, 2), (14, 2)] {
                let runs = [(37, 54), (17, 97), (127, 512), (1, 65)];
                cases.push(run((head_dim, query_heads, kv_heads), page_size, NONE, &runs, cases.len()));
            }
        }
    }
    for pair in PAIRS {
        for (head_dim, page_size) in [(64, 16), (128, 128), (256, 1)] {
            cases.push(run((head_dim, 2, 1), page_size, NONE, &[pair], cases.len()));
        }
    }
    cases
}

/// The same with windows, capped scores and sinks.
#[must_use]
pub fn prefill_with_rules() -> Vec<PrefillCase> {
    let mut cases = Vec::new();
    for window in [3, 13, 23, 33, 37, 43, 128, 533] {
        for (softcap, sinks) in [(None, false), (Some(30.0), false), (None, true)] {
            let rules = AttentionRules { window: Some(window), softcap, sinks };
            let runs = [(1, 1), (3, 3), (19, 99), (99, 199), (199, 199), (50, 1177)];
            cases.push(run((64, 6, 2), 16, rules, &runs, cases.len()));
        }
    }
    cases
}

/// Grouped products: few experts and many, few rows and many, narrow and wide.
#[must_use]
pub fn products() -> Vec<ProductCase> {
    let mut cases = Vec::new();
    for (experts, rows, width) in [
        (1, 3, 128),
        (1, 99, 128),
        (1, 99, 1024),
        (1, 10, 4096),
        (77, 3, 128),
        (77, 99, 128),
        (77, 10, 1024),
        (199, 3, 128),
        (199, 10, 128),
        (199, 3, 1024),
    ] {
        for block_rows in [16, 64] {
            let shape = GroupedGemmShape { block_rows, experts, columns: width, depth: width, rows_per_input: 1 };
            cases.push(ProductCase { shape, rows: vec![rows; experts], foreign: 0, seed: cases.len() as u64 });
        }
    }
    cases
}
