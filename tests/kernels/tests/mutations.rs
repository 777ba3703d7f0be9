//! Broken kernels are found out, each by the check that is there for it: a test of the tests.
//!
//! A failed kernel fails its device for good, so every test here opens the device for itself and they run one at a time.

use kernel_tests::mutation::{alone, assert_reported, inline, mutate};
use kernel_tests::{Emulator, device};
use kernels::cuda::check::{
    Bias, Comparison, DecodeProblem, GemmProblem, GroupedGemmProblem, PoolOrder, ProductSize, WeightFormat,
};
use kernels::cuda::{
    AttentionRules, CudaError, DecodeAttention, DecodeAttentionShape, Gemm, GemmTile, GemmTiles, GroupedGemm,
    GroupedGemmShape, KernelSource,
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

/// The grouped product with the main loop of all products written out.
fn product_source() -> KernelSource {
    inline(&GroupedGemm::SOURCE, "gemm.cuh")
}

fn run_attention(source: KernelSource) -> Result<bool, CudaError> {
    run_attention_with(ATTENTION, AttentionRules::default(), source)
}

fn run_attention_with(
    shape: DecodeAttentionShape,
    rules: AttentionRules,
    source: KernelSource,
) -> Result<bool, CudaError> {
    let device = device();
    let merge = DecodeAttention::MERGE_SOURCE;
    let (source, merge) =
        if source.name == merge.name { (DecodeAttention::source(&shape), source) } else { (source, merge) };
    let kernel = DecodeAttention::compile_sources(&device, shape, rules, source, merge)?;
    // Split and merged, and not.
    for contexts in [[Some(16), Some(100), Some(1)], [Some(16), Some(50), Some(1)]] {
        let problem = DecodeProblem::random(shape, rules, &contexts, PoolOrder::TokenMajor, 32);
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
    let broken = mutate(&DecodeAttention::PLAIN_SOURCE, "__syncthreads();", "");
    run_attention(broken).unwrap_err();
    assert!(run_product(GroupedGemm::SOURCE).unwrap());
    assert!(run_attention(DecodeAttention::PLAIN_SOURCE).unwrap());
}

#[test]
fn a_product_without_its_barrier_races() {
    let _alone = alone();
    let source = mutate(&product_source(), "__syncthreads();", "");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "read after write", &["load_matrix_x4"]);
}

#[test]
fn a_product_that_overwrites_before_the_barrier_races() {
    let _alone = alone();
    let (barrier, copies) = ("__syncthreads();", "start_copies(step + STAGES - 1);");
    let source = mutate(&product_source(), &format!("{barrier}\n    {copies}"), &format!("{copies}\n    {barrier}"));
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "write after read", &["copy16_async"]);
}

#[test]
fn a_product_that_does_not_wait_for_its_copies_is_reported() {
    let _alone = alone();
    let source = mutate(&product_source(), "wait_for_copies<STAGES - 2>();", "wait_for_copies<STAGES>();");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "is not waited for", &["load_matrix_x4"]);
}

#[test]
fn a_product_that_gathers_padding_rows_leaves_its_input() {
    let _alone = alone();
    let source = mutate(&product_source(), "bool exists = (u32)row < (u32)rows;", "bool exists = true;");
    let outcome = run_product(source.clone());
    assert_reported(outcome, &source, "allocation", &["copy16_async"]);
}

#[test]
fn a_product_with_a_wrong_fragment_address_has_wrong_numbers() {
    let _alone = alone();
    let source = mutate(&product_source(), "lane / 8 % 2 * 8", "lane / 16 * 8");
    assert!(!run_product(source).unwrap());
}

/// Right numbers, and slow: what the counters are for.
#[test]
fn a_product_that_does_not_turn_its_chunks_has_bank_conflicts() {
    let _alone = alone();
    let emulator = Emulator::open();
    assert!(run_product(GroupedGemm::SOURCE).unwrap());
    assert_eq!(emulator.bank_conflicts(), 0);
    let source =
        mutate(&product_source(), "return column ^ row / ROWS_PER_LINE % CHUNKS_PER_LINE * 8;", "return column;");
    assert!(run_product(source).unwrap());
    assert!(emulator.bank_conflicts() > 0);
}

/// What to change in a product, into what, and words of the emulator's report, if there is one.
const DENSE_MUTANTS: &[(&str, &str, Option<&str>)] = &[
    ("    __syncthreads();\n", "", Some("read after write")),
    (
        "__syncthreads();\n    start_copies(step + STAGES - 1);",
        "start_copies(step + STAGES - 1);\n    __syncthreads();",
        Some("write after read"),
    ),
    ("wait_for_copies<STAGES - 2>();", "wait_for_copies<STAGES - 1>();", Some("is not waited for")),
    ("start_copies(step + STAGES - 1);", "start_copies(step + STAGES);", Some("shared")),
    ("    close_copy_group();", "    if (step < steps) close_copy_group();", Some("is not waited for")),
    ("(depth + BLOCK_DEPTH - 1) / BLOCK_DEPTH", "depth / BLOCK_DEPTH", None),
    ("inside = start + column < depth", "inside = start < depth", Some("allocation")),
    ("row[p].start + start + column : ", "row[p].start + start : ", None),
    ("i < TILES_DOWN; i++) {\n      const i32 r = warp_row()", "i < 1; i++) {\n      const i32 r = warp_row()", None),
    ("lane / 16 * 8)]);\n    }\n    // One", "lane / 8 % 2 * 8)]);\n    }\n    // One", None),
    ("lane / 8 % 2 * 8)", "lane / 16 * 8)", None),
    ("lane % 8 + lane / 16 * 8;", "lane % 16;", None),
    ("sum[i][j][t] = 0.0f", "sum[i][j][t] = 1.0f", None),
    ("% WARPS_DOWN * WARP_ROWS", "/ WARPS_ACROSS * WARP_ROWS", None),
    ("i * 16 + half * 8 + threadIdx.x", "i * 16 + half * 4 + threadIdx.x", None),
    ("const bool exists = row < end;", "const bool exists = true;", Some("allocation")),
    ("input, first_row + r, rows", "input, first_row + r, columns", None),
    ("weights, first_column + c, columns", "weights, first_column + c, rows", Some("allocation")),
    ("if (column >= columns) continue;", "", Some("allocation")),
    ("if (row >= rows) continue;", "", Some("allocation")),
    ("column + 1 < columns", "true", Some("allocation")),
    ("if (!pairs && two) put(", "if (false) put(", None),
    ("columns % 2 == 0", "true", Some("aligned")),
    ("{bias ? bias[column]", "{bias ? bias[column_of(j)]", None),
    ("two ? bias[column + 1]", "two ? bias[column]", None),
    ("/ (TOGETHER * column_blocks) * TOGETHER", "/ (TOGETHER * column_blocks)", None),
    ("first_together + number % together", "first_together + number % TOGETHER", None),
    ("number / together * BLOCK", "number / TOGETHER * BLOCK", None),
    ("min(TOGETHER, row_blocks - first_together)", "TOGETHER", None),
];

#[test]
fn every_mutant_of_a_product_is_found_out() {
    let _alone = alone();
    let emulator = Emulator::open();
    let tile = GemmTile { rows: 64, columns: 64, depth: 32, stages: 3, warps_down: 2, warps_across: 2 };
    let run = |source: KernelSource| -> Result<bool, CudaError> {
        let device = device();
        let kernel = Gemm::compile_source(&device, GemmTiles::only(tile), &source)?;
        for ((rows, columns, depth), format) in
            [((600, 70, 200), WeightFormat::Bf16), ((33, 131, 168), WeightFormat::F32)]
        {
            let problem = GemmProblem::random(ProductSize { rows, columns, depth }, Bias::Random, 34);
            let found = problem.run(&device, &kernel, format)?;
            if !found.guards_intact || !problem.compare(&found, format).holds() {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let source = inline(&Gemm::SOURCE, "gemm.cuh");
    assert!(run(source.clone()).unwrap());
    let mut missed = Vec::new();
    for &(from, to, words) in DENSE_MUTANTS {
        let outcome = run(mutate(&source, from, to));
        let found_out = match (words, &outcome) {
            (Some(words), Err(CudaError::Driver { .. })) => {
                let report = emulator.report();
                report.contains(words) && report.contains("gemm.cu:")
            }
            (None, Ok(right)) => !right,
            _ => false,
        };
        if !found_out {
            missed.push(format!("`{from}` as `{to}`: {outcome:?} {}", emulator.report()));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn attention_without_its_barrier_races() {
    let _alone = alone();
    let source = mutate(&DecodeAttention::PLAIN_SOURCE, "__syncthreads();", "");
    let outcome = run_attention(source.clone());
    assert_reported(outcome, &source, "read after write", &["warp_max", "warp_sum", "warp_value"]);
}

#[test]
fn attention_that_looks_one_token_too_far_leaves_its_pool() {
    let _alone = alone();
    let source = mutate(&DecodeAttention::PLAIN_SOURCE, "visible[u] = token < end;", "visible[u] = token <= end;");
    let outcome = run_attention(source.clone());
    assert_reported(outcome, &source, "allocation", &["(keys + offset)", "(values + offset)"]);
}

#[test]
fn attention_with_a_page_index_off_by_one_leaves_its_pool() {
    let _alone = alone();
    let source = mutate(
        &DecodeAttention::PLAIN_SOURCE,
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
        &DecodeAttention::PLAIN_SOURCE,
        "(i64)(first_head / GROUP) * head_stride",
        "(i64)(first_head % KV_HEADS) * head_stride",
    );
    assert!(!run_attention(source).unwrap());
}

#[test]
fn attention_that_breaks_its_rules_is_found_out() {
    let _alone = alone();
    let rules = AttentionRules { window: Some(60), softcap: Some(2.0), sinks: true };
    assert!(run_attention_with(ATTENTION, rules, DecodeAttention::PLAIN_SOURCE).unwrap());
    let (plain, merge) = (DecodeAttention::PLAIN_SOURCE, DecodeAttention::MERGE_SOURCE);
    let mutants = [
        (&plain, "max(split * SPLIT_TOKENS, WINDOW ? length - WINDOW : 0)", "split * SPLIT_TOKENS"),
        (&plain, "length - WINDOW : 0", "length - WINDOW + 1 : 0"),
        (&plain, "length - WINDOW : 0", "length - WINDOW - 1 : 0"),
        (&plain, "splits == 1 ? sink_weight(", "true ? sink_weight("),
        (&plain, "splits == 1 ? sink_weight(sinks, first_head + h", "splits == 1 ? sink_weight(sinks, first_head"),
        (&merge, "= sink_weight(sinks, row % QUERY_HEADS, max * LOG2_E)", "= 0.0f"),
        (&merge, "row % QUERY_HEADS, max * LOG2_E", "row % QUERY_HEADS, max"),
        (&plain, "finished_score(dot, softcap)", "dot"),
    ];
    for (source, from, to) in mutants {
        let outcome = run_attention_with(ATTENTION, rules, mutate(source, from, to));
        assert!(!matches!(outcome, Ok(true)), "`{from}` as `{to}` gives right results");
    }
}

const TENSOR: DecodeAttentionShape =
    DecodeAttentionShape { head_dim: 32, query_heads: 40, kv_heads: 2, page_size: 16, split_tokens: 350 };

/// What to change in the kernel of tensor cores, into what, and words of the emulator's report, if there is one.
const TENSOR_MUTANTS: &[(&str, &str, Option<&str>)] = &[
    ("    __syncthreads();\n    start_copies(step", "    start_copies(step", Some("race")),
    ("start_copies(step);\n\n  u32", "start_copies(step + 1);\n\n  u32", Some("shared")),
    ("find_keys(step);\n  __syncthreads();", "find_keys(step);", Some("shared")),
    ("// The results take the place of the stages.\n  __syncthreads();", "", Some("race")),
    ("  __syncthreads();\n\n  for (i32 h", "\n  for (i32 h", Some("shared")),
    ("wait_for_copies<STAGES - 2>();", "wait_for_copies<STAGES - 1>();", Some("is not waited for")),
    ("start_copies(step + STAGES - 1);", "start_copies(step + STAGES);", Some("race")),
    ("find_keys(step + STAGES);", "find_keys(step + STAGES - 1);", Some("write after read")),
    ("find_keys(step + STAGES);", "", None),
    ("key < end ?", "key <= end ?", Some("allocation")),
    ("token_offset(pages, key,", "token_offset(pages, key + 1,", Some("allocation")),
    ("kv_head * head_stride;", "0;", None),
    ("lane % 4 * 2 + t % 2 < end", "lane % 4 * 2 + t % 2 <= end", None),
    ("j * 8 + lane % 4 * 2 + t % 2", "lane % 4 * 2 + t % 2", None),
    ("if (first_key >= end) continue;", "", None),
    ("k * 2 + lane / 8 % 2)", "k * 2 + lane / 16)", None),
    ("place(warp * 16 + lane % 8 +", "place(lane % 8 +", None),
    ("place(warp * 16 + lane % 16, i", "place(lane % 16, i", None),
    ("load_matrix_x4_transposed", "load_matrix_x4", None),
    ("new_max, 2)", "new_max, 1)", None),
    ("sum[half], 2)", "sum[half], 1)", None),
    ("sum[half] *= keep;", "", None),
    ("value[i][2 * half + 1] *= keep;", "", None),
    ("sum_of_all = fmaf(weight[w],", "sum_of_all = fmaf(1.0f,", None),
    ("const bool empty = max_of_all == -infinity();", "const bool empty = false;", None),
    ("const bool exists = row < heads;", "const bool exists = true;", Some("allocation")),
    ("min(GROUP - first_of_group, ROWS)", "ROWS", Some("allocation")),
    ("WINDOW ? length - WINDOW : 0", "0", Some("allocation")),
    ("WINDOW ? length - WINDOW : 0", "WINDOW ? length - WINDOW + 1 : 0", None),
    ("min(length, (split + 1) * SPLIT_TOKENS)", "length", None),
    ("slot < 0 ? 0 : context", "false ? 0 : context", Some("allocation")),
    ("finished_score(score[j][t] * factor, softcap)", "score[j][t] * factor", None),
    ("splits == 1 ? sink_weight", "true ? sink_weight", None),
    ("first_of_group + h, max_of_all)", "h, max_of_all)", None),
    ("LN_2 * (max_of_all", "(max_of_all", None),
];

#[test]
fn every_mutant_of_attention_by_tensor_cores_is_found_out() {
    let _alone = alone();
    let emulator = Emulator::open();
    let rules = AttentionRules { window: Some(400), softcap: Some(2.0), sinks: true };
    // Both kinds of launch: merged, where every stage is filled more than once, and whole.
    let run = |source: KernelSource| -> Result<bool, CudaError> {
        let device = device();
        let batches = [
            (rules, [Some(480), Some(70), None, Some(0)]),
            (AttentionRules { window: None, ..rules }, [Some(1), None, Some(0), Some(340)]),
        ];
        for (rules, contexts) in batches {
            let merge = DecodeAttention::MERGE_SOURCE;
            let kernel = DecodeAttention::compile_sources(&device, TENSOR, rules, source.clone(), merge)?;
            let problem = DecodeProblem::random(TENSOR, rules, &contexts, PoolOrder::TokenMajor, 33);
            let found = problem.run(&device, &kernel)?;
            if !found.guards_intact || !problem.compare(&found).iter().all(Comparison::holds) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    assert!(run(DecodeAttention::TENSOR_SOURCE).unwrap());
    let mut missed = Vec::new();
    for &(from, to, words) in TENSOR_MUTANTS {
        let outcome = run(mutate(&DecodeAttention::TENSOR_SOURCE, from, to));
        let found_out = match (words, &outcome) {
            (Some(words), Err(CudaError::Driver { .. })) => {
                let report = emulator.report();
                report.contains(words) && report.contains("paged_decode_attention_tensor.cu:")
            }
            (None, Ok(right)) => !right,
            _ => false,
        };
        if !found_out {
            missed.push(format!("`{from}` as `{to}`: {outcome:?} {}", emulator.report()));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
