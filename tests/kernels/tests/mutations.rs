//! Broken kernels are found out, each by the check that is there for it: a test of the tests.
//!
//! A failed kernel fails its device for good, so every test here opens the device for itself and they run one at a time.

use kernel_tests::mutation::{alone, assert_reported, mutate};
use kernel_tests::{Emulator, device};
use kernels::cuda::check::{Comparison, DecodeProblem, GroupedGemmProblem, PoolOrder};
use kernels::cuda::{
    AttentionRules, CudaError, DecodeAttention, DecodeAttentionShape, GroupedGemm, GroupedGemmShape, KernelSource,
};

const PRODUCT: GroupedGemmShape =
    GroupedGemmShape { block_rows: 64, experts: 3, columns: 64, depth: 160, rows_per_input: 2 };

const ATTENTION: DecodeAttentionShape =
    DecodeAttentionShape { head_dim: 64, query_heads: 4, kv_heads: 2, page_size: 16, split_tokens: 64 };

/// Whether a broken product is right in numbers; an error is the emulator's.
fn run_product(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = GroupedGemm::compile_source(&device, PRODUCT, source)?;
    let problem = GroupedGemmProblem::random(PRODUCT, &[65, 0, 9], 0, 31)?;
    let found = problem.run(&device, &kernel)?;
    Ok(problem.compare(&found).holds())
}

fn run_attention(source: KernelSource) -> Result<bool, CudaError> {
    run_attention_with(AttentionRules::default(), source)
}

fn run_attention_with(rules: AttentionRules, source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = DecodeAttention::compile_source(&device, ATTENTION, rules, source)?;
    // Split and merged, and not.
    for contexts in [[Some(16), Some(100), Some(1)], [Some(16), Some(50), Some(1)]] {
        let problem = DecodeProblem::random(ATTENTION, rules, &contexts, PoolOrder::TokenMajor, 32);
        let found = problem.run(&device, &kernel)?;
        if !problem.compare(&found).iter().all(Comparison::holds) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[test]
fn the_unbroken_kernels_pass_and_a_failure_ends_with_its_device() {
    let _alone = alone();
    let broken = mutate(&DecodeAttention::SOURCE, "__syncthreads();", "");
    run_attention(broken).unwrap_err();
    assert!(run_product(GroupedGemm::SOURCE).unwrap());
    assert!(run_attention(DecodeAttention::SOURCE).unwrap());
}

#[test]
fn a_product_without_its_barrier_races() {
    let _alone = alone();
    let source = mutate(&GroupedGemm::SOURCE, "__syncthreads();", "");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "read after write", &["load_matrix_x4"]);
}

#[test]
fn a_product_that_overwrites_before_the_barrier_races() {
    let _alone = alone();
    let (barrier, copies) = ("__syncthreads();", "start_copies(step + STAGES - 1);");
    let source =
        mutate(&GroupedGemm::SOURCE, &format!("{barrier}\n      {copies}"), &format!("{copies}\n      {barrier}"));
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "write after read", &["copy16_async"]);
}

#[test]
fn a_product_that_does_not_wait_for_its_copies_is_reported() {
    let _alone = alone();
    let source = mutate(&GroupedGemm::SOURCE, "wait_for_copies<STAGES - 2>();", "wait_for_copies<STAGES>();");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "is not waited for", &["load_matrix_x4"]);
}

#[test]
fn a_product_that_gathers_padding_rows_leaves_its_input() {
    let _alone = alone();
    let source = mutate(&GroupedGemm::SOURCE, "input_exists[p] = (u32)row < (u32)rows;", "input_exists[p] = true;");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "allocation", &["copy16_async"]);
}

#[test]
fn a_product_with_a_wrong_fragment_address_has_wrong_numbers() {
    let _alone = alone();
    let source = mutate(&GroupedGemm::SOURCE, "lane / 8 % 2 * 8", "lane / 16 * 8");
    assert!(!run_product(source).unwrap());
}

/// Right numbers, and slow: what the counters are for.
#[test]
fn a_product_that_does_not_turn_its_chunks_has_bank_conflicts() {
    let _alone = alone();
    let emulator = Emulator::open();
    assert!(run_product(GroupedGemm::SOURCE).unwrap());
    assert_eq!(emulator.bank_conflicts(), 0);
    let source = mutate(&GroupedGemm::SOURCE, "return column ^ row / 2 % CHUNKS * 8;", "return column;");
    assert!(run_product(source).unwrap());
    assert!(emulator.bank_conflicts() > 0);
}

#[test]
fn attention_without_its_barrier_races() {
    let _alone = alone();
    let source = mutate(&DecodeAttention::SOURCE, "__syncthreads();", "");
    let outcome = run_attention(source.clone());
    assert_reported(outcome, &source, "read after write", &["warp_max", "warp_sum", "warp_value"]);
}

#[test]
fn attention_that_looks_one_token_too_far_leaves_its_pool() {
    let _alone = alone();
    let source = mutate(&DecodeAttention::SOURCE, "visible[u] = token < end;", "visible[u] = token <= end;");
    let outcome = run_attention(source.clone());
    assert_reported(outcome, &source, "allocation", &["(keys + offset)", "(values + offset)"]);
}

#[test]
fn attention_with_a_page_index_off_by_one_leaves_its_pool() {
    let _alone = alone();
    let source = mutate(
        &DecodeAttention::SOURCE,
        "token_offset(pages, token,",
        "token_offset(pages, token + (1 << PAGE_SHIFT),",
    );
    let outcome = run_attention(source.clone());
    assert_reported(outcome, &source, "allocation", &["(keys + offset)", "(values + offset)"]);
}

#[test]
fn attention_that_takes_the_wrong_head_has_wrong_numbers() {
    let _alone = alone();
    let source = mutate(
        &DecodeAttention::SOURCE,
        "(i64)(first_head / GROUP) * head_stride",
        "(i64)(first_head % KV_HEADS) * head_stride",
    );
    assert!(!run_attention(source).unwrap());
}

#[test]
fn attention_that_breaks_its_rules_is_found_out() {
    let _alone = alone();
    let rules = AttentionRules { window: Some(60), softcap: Some(2.0), sinks: true };
    assert!(run_attention_with(rules, DecodeAttention::SOURCE).unwrap());
    let mutants = [
        ("max(split * SPLIT_TOKENS, WINDOW ? length - WINDOW : 0)", "split * SPLIT_TOKENS"),
        ("length - WINDOW : 0", "length - WINDOW + 1 : 0"),
        ("length - WINDOW : 0", "length - WINDOW - 1 : 0"),
        ("splits == 1 ? sink_weight(", "true ? sink_weight("),
        ("splits == 1 ? sink_weight(sinks, first_head + h", "splits == 1 ? sink_weight(sinks, first_head"),
        ("= sink_weight(sinks, row % QUERY_HEADS, max * LOG2_E)", "= 0.0f"),
        ("row % QUERY_HEADS, max * LOG2_E", "row % QUERY_HEADS, max"),
        ("finished_score(dot, softcap)", "dot"),
    ];
    for (from, to) in mutants {
        let outcome = run_attention_with(rules, mutate(&DecodeAttention::SOURCE, from, to));
        assert!(!matches!(outcome, Ok(true)), "`{from}` as `{to}` gives right results");
    }
}
