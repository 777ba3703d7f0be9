//! Prefill attention on the emulated device against double precision.

use kernel_tests::{Emulator, cases, device};
use kernels::cuda::check::{AttentionResult, Comparison, Noise, PoolOrder, PrefillProblem, PrefillRequest};
use kernels::cuda::{AttentionRules, CudaDevice, PrefillAttention, PrefillAttentionShape};

fn check(head_dim: usize) {
    let device = device();
    for case in cases::prefill(head_dim) {
        case.check(&device);
    }
}

#[test]
fn heads_of_16_and_32_elements() {
    check(16);
    check(32);
}

#[test]
fn heads_of_64_elements() {
    check(64);
}

#[test]
fn heads_that_are_no_power_of_two() {
    check(48);
    check(80);
    check(96);
}

#[test]
fn heads_of_128_elements() {
    check(128);
}

#[test]
fn heads_of_192_and_256_elements() {
    check(192);
    check(256);
}

#[test]
fn windows_capped_scores_and_sinks() {
    let device = device();
    for case in cases::prefill_with_rules() {
        case.check(&device);
    }
}

#[test]
fn shapes_and_batches_drawn_at_random() {
    let device = device();
    for seed in 0..12 {
        cases::random_prefill(seed).check(&device);
    }
}

/// No window, no cap, no sinks.
const RULES: AttentionRules = AttentionRules { window: None, softcap: None, sinks: false };

const SHAPE: PrefillAttentionShape = PrefillAttentionShape { head_dim: 64, query_heads: 6, kv_heads: 2, page_size: 16 };

fn request(tokens: usize, context: usize) -> PrefillRequest {
    PrefillRequest { tokens, context: Some(context) }
}

/// The rows of some tokens.
fn rows(result: &AttentionResult, tokens: std::ops::Range<usize>) -> (Vec<f64>, Vec<f64>) {
    let (heads, elements) = (SHAPE.query_heads, SHAPE.query_heads * SHAPE.head_dim);
    (
        result.output[tokens.start * elements..tokens.end * elements].to_vec(),
        result.lse[tokens.start * heads..tokens.end * heads].to_vec(),
    )
}

fn run(problem: &PrefillProblem, device: &CudaDevice) -> AttentionResult {
    run_with(RULES, problem, device)
}

fn run_with(rules: AttentionRules, problem: &PrefillProblem, device: &CudaDevice) -> AttentionResult {
    let kernel = PrefillAttention::compile(device, SHAPE, rules).unwrap();
    problem.run(device, &kernel).unwrap()
}

/// A result must not change with what it is batched with, nor with the chunks that a prompt comes in, single tokens
/// among them.
#[test]
fn a_token_has_the_same_bits_alone_and_in_a_batch_and_in_any_chunk() {
    let device = device();
    let batch = [request(7, 30), request(150, 170), request(1, 200)];
    let batch = PrefillProblem::random(SHAPE, RULES, &batch, 2, PoolOrder::TokenMajor, 11);
    let batched = run(&batch, &device);
    let single = run(&batch.part(2, 0..1), &device);
    assert_eq!(rows(&single, 0..1), rows(&batched, 157..158));
    for part in [0..150, 0..1, 0..70, 70..71, 71..149, 149..150] {
        println!("{part:?}");
        let alone = run(&batch.part(1, part.clone()), &device);
        assert_eq!(rows(&alone, 0..part.len()), rows(&batched, 7 + part.start..7 + part.end));
    }
}

/// The same with a window, whose edge lies elsewhere in the steps of every token; and a window that is longer than any
/// context is none.
#[test]
fn a_token_has_the_same_bits_in_any_chunk_of_a_window() {
    let device = device();
    let rules = |window| AttentionRules { window: Some(window), ..RULES };
    let batch = [request(150, 170), request(90, 90)];
    let problem = |rules| PrefillProblem::random(SHAPE, rules, &batch, 0, PoolOrder::TokenMajor, 12);
    let batched = run_with(rules(40), &problem(rules(40)), &device);
    for part in [0..150, 69..70, 70..149] {
        println!("{part:?}");
        let alone = run_with(rules(40), &problem(rules(40)).part(0, part.clone()), &device);
        assert_eq!(rows(&alone, 0..part.len()), rows(&batched, part));
    }
    let (wide, none) = (run_with(rules(170), &problem(RULES), &device), run(&problem(RULES), &device));
    assert_eq!(wide.output, none.output);
    assert_eq!(wide.lse, none.lse);
}

/// Scores of -32768 and of 32768: with anything but the row's own maximum as reference, weights vanish or overflow.
#[test]
fn extreme_scores_give_exact_means() {
    let device = device();
    let problem = PrefillProblem::random(SHAPE, RULES, &[request(20, 90), request(2, 300)], 0, PoolOrder::HeadMajor, 5)
        .constant(0, 64.0, -64.0, 1.0)
        .constant(1, 64.0, 64.0, 1.0);
    let found = run(&problem, &device);
    assert!(found.output.iter().all(|value| value.to_bits() == 1.0_f64.to_bits()));
    for (found, expected) in found.lse.iter().zip(problem.reference().lse) {
        assert!((found / expected - 1.0).abs() < 2.0 * f64::from(f32::EPSILON), "{found}, not {expected}");
    }
}

#[test]
fn a_batch_of_nothing_is_nothing() {
    let device = device();
    let nothing = [PrefillRequest { tokens: 70, context: None }, request(0, 0), request(3, 0)];
    for (requests, padding) in [(&nothing[..], 9), (&nothing[..], 0), (&[], 30)] {
        let found = run(&PrefillProblem::random(SHAPE, RULES, requests, padding, PoolOrder::TokenMajor, 3), &device);
        assert!(found.output.iter().all(|value| value.to_bits() == 0));
        assert!(found.lse.iter().all(|&lse| lse == f64::NEG_INFINITY));
        assert!(found.guards_intact);
    }
    run(&PrefillProblem::random(SHAPE, RULES, &[], 0, PoolOrder::TokenMajor, 3), &device);
}

/// The host cannot see them, so the kernel must bear whatever they are.
#[test]
fn starts_that_make_no_sense_write_nothing_outside_the_results() {
    let device = device();
    let problem =
        PrefillProblem::random(SHAPE, RULES, &[request(40, 50), request(40, 60)], 0, PoolOrder::TokenMajor, 4);
    // Runs that overlap are one block's and another's.
    let emulator = Emulator::open();
    emulator.allow_block_races(true);
    for starts in [[0, 40, 100], [-7, 40, 80], [80, 40, 0], [0, 1_000_000, 2_000_000], [i32::MIN, i32::MAX, i32::MIN]] {
        let found = run(&problem.clone().with_starts(&starts), &device);
        assert!(found.guards_intact, "{starts:?}");
    }
    emulator.allow_block_races(false);
}

/// Masks of random trees, whose tokens see their ancestors and themselves, each request's tokens in random order after
/// the first.
fn random_trees(sizes: &[usize], seed: u64) -> Vec<u64> {
    let mut noise = Noise::new(seed);
    let mut masks = Vec::new();
    for &size in sizes {
        let mut places: Vec<usize> = (0..size).collect();
        noise.shuffle(&mut places);
        let mut tree = vec![0; size];
        for token in 0..size {
            let ancestors = if token == 0 { 0 } else { tree[places[noise.below(token)]] };
            tree[places[token]] = ancestors | 1_u64 << places[token];
        }
        masks.extend(tree);
    }
    masks
}

#[test]
fn drafts_in_trees_see_their_ancestors() {
    let device = device();
    let rules = AttentionRules { softcap: Some(2.0), sinks: true, ..RULES };
    for (rules, sizes) in [(RULES, [7, 64, 1, 30]), (rules, [40, 3, 17, 2])] {
        let kernel = PrefillAttention::compile_tree(&device, SHAPE, rules).unwrap();
        let requests: Vec<_> = sizes.iter().map(|&size| request(size, size + 3 * size % 70)).collect();
        let problem = PrefillProblem::random(SHAPE, rules, &requests, 0, PoolOrder::TokenMajor, 14)
            .with_tree(random_trees(&sizes, 15));
        let found = problem.run(&device, &kernel).unwrap();
        for comparison in problem.compare(&found) {
            assert!(comparison.holds(), "{sizes:?}: {comparison}");
        }
        assert!(found.guards_intact);
    }
}

/// A chain is what a prompt is, to the bit; and a token whose mask is empty sees what is before the tree.
#[test]
fn a_chain_of_drafts_is_a_run_of_tokens() {
    let device = device();
    let problem = PrefillProblem::random(SHAPE, RULES, &[request(50, 120)], 0, PoolOrder::TokenMajor, 16);
    let chain = (0..50).map(|token| (2_u64 << token) - 1).collect();
    let kernel = PrefillAttention::compile_tree(&device, SHAPE, RULES).unwrap();
    let (tree, plain) = (problem.clone().with_tree(chain).run(&device, &kernel).unwrap(), run(&problem, &device));
    assert_eq!(tree.output, plain.output);
    assert_eq!(tree.lse, plain.lse);
    let blind = problem.with_tree(vec![0; 50]);
    let found = blind.run(&device, &kernel).unwrap();
    assert!(blind.compare(&found).iter().all(Comparison::holds));
}

#[test]
fn trees_and_runs_have_kernels_of_their_own() {
    let device = device();
    let problem = PrefillProblem::random(SHAPE, RULES, &[request(2, 5)], 0, PoolOrder::TokenMajor, 1);
    let plain = PrefillAttention::compile(&device, SHAPE, RULES).unwrap();
    let tree = PrefillAttention::compile_tree(&device, SHAPE, RULES).unwrap();
    let errors = [
        problem.run(&device, &tree).unwrap_err(),
        problem.clone().with_tree(vec![1; 2]).run(&device, &plain).unwrap_err(),
        PrefillAttention::compile_tree(&device, SHAPE, AttentionRules { window: Some(8), ..RULES }).unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| error.to_string()),
        [
            "number of trees is 0; this launch needs one: it is compiled for trees",
            "number of trees is 1; this launch needs none: it is compiled without",
            "window is 8; supported: none together with trees",
        ]
    );
}
