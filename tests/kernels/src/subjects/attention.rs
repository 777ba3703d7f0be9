//! Attention of prompts and of single tokens.

use kernels::cuda::check::{
    AttentionResult, Comparison, DecodeProblem, MergeProblem, MlaDecodeProblem, PoolOrder, PrefillProblem,
    PrefillRequest,
};
use kernels::cuda::{
    AttentionRules, CudaDevice, CudaError, DecodeAttention, DecodeAttentionShape, KernelSource, MergeStates,
    MergeStatesShape, MlaDecode, MlaDecodeShape, PrefillAttention, PrefillAttentionShape,
};

use super::{Problem, Subject};

const NONE: AttentionRules = AttentionRules { window: None, softcap: None, sinks: false };

const fn all(window: usize) -> AttentionRules {
    AttentionRules { window: Some(window), softcap: Some(2.0), sinks: true }
}

const fn decode_shape(head_dim: usize, query_heads: usize, page_size: usize, split: usize) -> DecodeAttentionShape {
    DecodeAttentionShape { head_dim, query_heads, kv_heads: 2, page_size, split_tokens: split }
}

/// Split and merged, and not.
const CONTEXTS: [&[Option<usize>]; 2] = [&[Some(16), Some(100), Some(1), None], &[Some(16), Some(50), Some(1), None]];
/// The same where a block takes more tokens.
const LONG_CONTEXTS: [&[Option<usize>]; 2] =
    [&[Some(480), Some(70), None, Some(0)], &[Some(1), None, Some(0), Some(340)]];

pub(super) fn subjects() -> Vec<Subject> {
    let plain = |name, shape, rules| decode(name, shape, rules, &CONTEXTS, solve_plain);
    let tensor = |name, shape, rules, contexts| decode(name, shape, rules, contexts, solve_plain);
    let prefill_shape =
        |head_dim, query_heads| PrefillAttentionShape { head_dim, query_heads, kv_heads: 2, page_size: 16 };
    vec![
        Subject {
            file: "merge_decode_splits.cu",
            problems: vec![
                decode("splits", decode_shape(64, 4, 16, 64), NONE, &CONTEXTS[..1], solve_merge),
                decode("splits and sinks", decode_shape(32, 6, 16, 64), all(90), &CONTEXTS[..1], solve_merge),
            ],
        },
        Subject {
            file: "paged_decode_attention.cu",
            problems: vec![
                plain("no rules", decode_shape(64, 4, 16, 64), NONE),
                plain("all rules", decode_shape(64, 4, 16, 64), all(60)),
                plain("narrow heads, small pages", decode_shape(32, 6, 1, 64), NONE),
                plain("wide heads", decode_shape(256, 2, 16, 64), NONE),
                decode("several look-ups", decode_shape(64, 4, 16, 350), NONE, &LONG_CONTEXTS, solve_plain),
            ],
        },
        Subject {
            file: "paged_decode_attention_tensor.cu",
            problems: vec![
                tensor("no rules", decode_shape(32, 40, 16, 350), NONE, &LONG_CONTEXTS),
                tensor("all rules", decode_shape(32, 40, 16, 350), all(400), &LONG_CONTEXTS),
                tensor("heads of 80", decode_shape(80, 2, 4, 64), all(60), &CONTEXTS),
                tensor("wide heads", decode_shape(256, 8, 16, 64), NONE, &CONTEXTS),
            ],
        },
        Subject { file: "merge_states.cu", problems: vec![merge("no sinks", 64, false), merge("sinks", 48, true)] },
        Subject {
            file: "mla_decode_attention.cu",
            problems: vec![mla("uneven depth", 128, 48, 18), mla("even depth", 256, 64, 16)],
        },
        Subject {
            file: "paged_prefill_attention.cu",
            problems: vec![
                prefill("no rules", prefill_shape(32, 6), NONE),
                prefill("all rules", prefill_shape(32, 6), all(40)),
                Problem::new("trees", solve_tree),
                Problem::new("starts that make no sense", solve_wrong_starts),
                prefill("heads of 48", prefill_shape(48, 2), NONE),
                prefill("wide heads", prefill_shape(144, 4), all(40)),
                Problem::new("one request, scores far apart", solve_one_request),
            ],
        },
    ]
}

type SolveDecode =
    fn(&CudaDevice, DecodeAttentionShape, AttentionRules, KernelSource) -> Result<DecodeAttention, CudaError>;

fn solve_plain(
    device: &CudaDevice,
    shape: DecodeAttentionShape,
    rules: AttentionRules,
    source: KernelSource,
) -> Result<DecodeAttention, CudaError> {
    DecodeAttention::compile_sources(device, shape, rules, source, DecodeAttention::MERGE_SOURCE)
}

fn solve_merge(
    device: &CudaDevice,
    shape: DecodeAttentionShape,
    rules: AttentionRules,
    source: KernelSource,
) -> Result<DecodeAttention, CudaError> {
    DecodeAttention::compile_sources(device, shape, rules, DecodeAttention::source(&shape), source)
}

fn decode(
    name: &'static str,
    shape: DecodeAttentionShape,
    rules: AttentionRules,
    batches: &'static [&'static [Option<usize>]],
    compile: SolveDecode,
) -> Problem {
    Problem::new(name, move |device, source| {
        let kernel = compile(device, shape, rules, source)?;
        for contexts in batches {
            let problem = DecodeProblem::random(shape, rules, contexts, PoolOrder::TokenMajor, 32);
            let found = problem.run(device, &kernel)?;
            if !is_right(&found, problem.compare(&found)) {
                return Ok(false);
            }
        }
        // So far apart that what is relative to anything but the largest overflows.
        for seed in 33..36 {
            let problem = DecodeProblem::random(shape, rules, batches[0], PoolOrder::HeadMajor, seed).spread(300.0);
            let found = problem.run(device, &kernel)?;
            if !is_right(&found, problem.compare(&found)) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn merge(name: &'static str, head_dim: usize, sinks: bool) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = MergeStatesShape { head_dim, query_heads: 5, sinks };
        let kernel = MergeStates::compile_source(device, shape, source)?;
        let problem = MergeProblem::random(shape, 9, 8, 53);
        let found = problem.run(device, &kernel)?;
        Ok(is_right(&found, problem.compare(&found)))
    })
}

/// Split and merged, and not; several steps, full and not.
fn mla(name: &'static str, latent_dim: usize, rope_dim: usize, query_heads: usize) -> Problem {
    Problem::new(name, move |device, source| {
        let shape = MlaDecodeShape { latent_dim, rope_dim, query_heads, page_size: 16, split_tokens: 100 };
        let kernel = MlaDecode::compile_source(device, shape, source)?;
        let batches: [&[Option<usize>]; 2] =
            [&[Some(250), Some(64), None, Some(0)], &[Some(1), None, Some(0), Some(90)]];
        for contexts in batches {
            let problem = MlaDecodeProblem::random(shape, contexts, 34);
            for problem in [problem.clone().spread(300.0), problem] {
                let found = problem.run(device, &kernel)?;
                if !is_right(&found, problem.compare(&found)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    })
}

/// One request more than a warp looks through at once; rows that see nothing beside rows that do; prompts, chunks, padding.
fn prefill(name: &'static str, shape: PrefillAttentionShape, rules: AttentionRules) -> Problem {
    let request = |tokens, context| PrefillRequest { tokens, context: Some(context) };
    let mut requests = vec![request(5, 2), request(70, 150), PrefillRequest { tokens: 3, context: None }];
    requests.extend((1..30).map(|context| request(1, context * 5)));
    requests.push(request(24, 33));
    Problem::new(name, move |device, source| {
        let kernel = PrefillAttention::compile_source(device, shape, rules, source)?;
        let problem = PrefillProblem::random(shape, rules, &requests, 5, PoolOrder::TokenMajor, 41);
        let found = problem.run(device, &kernel)?;
        Ok(is_right(&found, problem.compare(&found)))
    })
}

fn solve_tree(device: &CudaDevice, source: KernelSource) -> Result<bool, CudaError> {
    const SHAPE: PrefillAttentionShape =
        PrefillAttentionShape { head_dim: 32, query_heads: 6, kv_heads: 2, page_size: 16 };
    let request = |tokens, context| PrefillRequest { tokens, context: Some(context) };
    // Every token sees itself, but for those past the 64th, and some that are no function of its number, later ones among
    // them.
    let mask = |start: u64, token: u64| {
        1_u64.checked_shl(token as u32).unwrap_or(0) | (token + start + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let masks = (0..70).map(|token| mask(0, token)).chain((0..20).map(|token| mask(70, token))).collect();
    let problem =
        PrefillProblem::random(SHAPE, NONE, &[request(70, 150), request(20, 33)], 0, PoolOrder::TokenMajor, 42)
            .with_tree(masks);
    let kernel = PrefillAttention::compile_tree_source(device, SHAPE, NONE, source)?;
    let found = problem.run(device, &kernel)?;
    Ok(is_right(&found, problem.compare(&found)))
}

/// As many blocks as are needed and one to spare, no denominators, and scores so far apart that what is relative to
/// anything but the largest overflows.
fn solve_one_request(device: &CudaDevice, source: KernelSource) -> Result<bool, CudaError> {
    const SHAPE: PrefillAttentionShape =
        PrefillAttentionShape { head_dim: 16, query_heads: 3, kv_heads: 1, page_size: 16 };
    let kernel = PrefillAttention::compile_source(device, SHAPE, NONE, source)?;
    let requests = [PrefillRequest { tokens: 150, context: Some(150) }];
    let problem =
        PrefillProblem::random(SHAPE, NONE, &requests, 2, PoolOrder::HeadMajor, 43).spread(300.0).without_lse();
    let found = problem.run(device, &kernel)?;
    Ok(is_right(&found, problem.compare(&found)))
}

/// Whatever the starts are, nothing but the results is written.
fn solve_wrong_starts(device: &CudaDevice, source: KernelSource) -> Result<bool, CudaError> {
    const SHAPE: PrefillAttentionShape =
        PrefillAttentionShape { head_dim: 16, query_heads: 2, kv_heads: 2, page_size: 16 };
    let request = |tokens| PrefillRequest { tokens, context: Some(50) };
    let problem = PrefillProblem::random(SHAPE, NONE, &[request(40), request(40)], 0, PoolOrder::TokenMajor, 4);
    let kernel = PrefillAttention::compile_source(device, SHAPE, NONE, source)?;
    for starts in [[0, 40, 100], [-7, 40, 80], [80, 40, 0], [0, 40, -3], [-40, -20, 0]] {
        if !problem.clone().with_starts(&starts).run(device, &kernel)?.guards_intact {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_right(found: &AttentionResult, comparisons: [Comparison; 2]) -> bool {
    found.guards_intact && comparisons.iter().all(Comparison::holds)
}
