//! Broken operations are found out, each by the check that is there for it: a test of the tests.
//!
//! A failed kernel fails its device for good, so every test here opens the device for itself and they run one at a time.

use kernel_tests::device;
use kernel_tests::mutation::{alone, assert_reported, mutate};
use kernels::cuda::check::{
    ArgmaxProblem, BiasProblem, CombineProblem, Comparison, GatherProblem, GroupingProblem, NormProblem,
    PageCopyProblem, PoolOrder, RopeProblem, RoutingProblem, SampleProblem, ShapeLogitsProblem, SiluMulProblem,
    WeightFormat,
};
use kernels::cuda::{
    AddBias, AddBiasShape, Argmax, CombineExperts, CombineExpertsShape, CopyPages, CudaError, GatherRows,
    GatherRowsShape, GroupRows, GroupRowsShape, HeadNorm, KernelSource, RmsNorm, RmsNormShape, RopeKvWrite,
    RopeKvWriteShape, RouteExperts, RouteExpertsShape, Sample, ShapeLogits, SiluMul, SiluMulShape,
};

/// Whether a broken normalisation is right in numbers and writes nothing but its results; an error is the emulator's.
fn run_norm(source: KernelSource, width: usize) -> Result<bool, CudaError> {
    let device = device();
    let shape = RmsNormShape { width };
    let kernel = RmsNorm::compile_source(&device, shape, source)?;
    let problem = NormProblem::random(shape, 3, (true, WeightFormat::Bf16), 8, 41);
    let found = problem.run(&device, &kernel)?;
    Ok(problem.compare(&found).holds() && found.guards_intact && found.residual == problem.reference().residual)
}

fn run_gather(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let shape = GatherRowsShape { width: 24 };
    let kernel = GatherRows::compile_source(&device, shape, source)?;
    let problem = GatherProblem::random(shape, (5, 9), true, 8, 42);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(found == problem.reference() && guards_intact)
}

fn run_rope(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let shape = RopeKvWriteShape { head_dim: 64, query_heads: 7, kv_heads: 2, page_size: 2, norm: HeadNorm::AllHeads };
    let kernel = RopeKvWrite::compile_source(&device, shape, source)?;
    let positions = [Some(30), Some(2), None, None, Some(5), Some(9), Some(8)];
    let kind = (PoolOrder::HeadMajor, WeightFormat::Bf16);
    let problem = RopeProblem::random(shape, &positions, kind, Some(0.75), 43);
    let found = problem.run(&device, &kernel)?;
    Ok(problem.compare(&found).iter().all(Comparison::holds) && found.guards_intact)
}

fn run_silu_mul(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let shape = SiluMulShape { width: 1032 };
    let kernel = SiluMul::compile_source(&device, shape, source)?;
    let problem = SiluMulProblem::random(shape, 3, 8, 44);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(problem.compare(&found).holds() && guards_intact)
}

fn run_bias(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let shape = AddBiasShape { width: 1032 };
    let kernel = AddBias::compile_source(&device, shape, source)?;
    let problem = BiasProblem::random(shape, 3, WeightFormat::F32, 8, 45);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(found == problem.reference() && guards_intact)
}

fn run_argmax(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = Argmax::compile_source(&device, source)?;
    let problem = ArgmaxProblem::random(14, 1536, 1, WeightFormat::F32, 46);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(found == problem.reference() && guards_intact)
}

fn run_copies(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = CopyPages::compile_source(&device, source)?;
    let problem = PageCopyProblem::random(5, 40_000, 8, 47);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(found == problem.reference() && guards_intact)
}

fn run_routing(source: KernelSource, renormalise: bool) -> Result<bool, CudaError> {
    let device = device();
    let shape = RouteExpertsShape { experts: 71, chosen: 40, renormalise };
    let kernel = RouteExperts::compile_source(&device, shape, source)?;
    let problem = RoutingProblem::random(shape, 21, 1, WeightFormat::F32, 48);
    let found = problem.run(&device, &kernel)?;
    let right = found.experts == problem.reference().experts && problem.compare(&found).holds();
    Ok(right && found.guards_intact)
}

fn run_grouping(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let shape = GroupRowsShape { experts: 300, block_rows: 16 };
    let kernel = GroupRows::compile_source(&device, shape, source)?;
    let problem = GroupingProblem::random(shape, 1003, 1, 49);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(found == problem.reference()? && guards_intact)
}

fn run_combination(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let shape = CombineExpertsShape { width: 1032, chosen: 3 };
    let kernel = CombineExperts::compile_source(&device, shape, source)?;
    let problem = CombineProblem::random(shape, 3, 8, 50);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(problem.compare(&found).holds() && guards_intact)
}

fn run_draws(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = Sample::compile_source(&device, source)?;
    let problem = SampleProblem::random(66, 2500, 1, 51);
    let (found, guards_intact) = problem.run(&device, &kernel)?;
    Ok(problem.first_wrong(&found).is_none() && guards_intact)
}

fn run_logits(source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernels = ShapeLogits::compile_source(&device, source)?;
    let problem = ShapeLogitsProblem::random(9, 600, 1, 500, 52);
    let (found, guards_intact) = problem.run(&device, &kernels)?;
    Ok(problem.compare(&found).holds() && guards_intact && problem.gaps_are_intact(&found))
}

/// Every one of these changes must be noticed, by the emulator or in the results.
fn assert_noticed(
    source: &KernelSource,
    changes: &[(&str, &str)],
    run: impl Fn(KernelSource) -> Result<bool, CudaError>,
) {
    let is_noticed = |(from, to): &&(&str, &str)| {
        let outcome = run(mutate(source, from, to));
        assert!(!matches!(outcome, Err(CudaError::Compile { .. })), "`{to}`: {outcome:?}");
        !matches!(outcome, Ok(true))
    };
    let unnoticed: Vec<_> = changes.iter().filter(|change| !is_noticed(change)).collect();
    assert!(unnoticed.is_empty(), "not noticed in {}: {unnoticed:#?}", source.name);
}

/// The kernel's text with the header written out, and one place of the header changed.
fn mutate_header(source: &KernelSource, from: &str, to: &str) -> KernelSource {
    let header = KernelSource { name: "common.cuh", text: include_str!("../../../kernels/cu/common.cuh").into() };
    let header = mutate(&header, from, to).text.replace("#pragma once", "");
    KernelSource { name: source.name, text: source.text.replace("#include \"common.cuh\"", &header).into() }
}

#[test]
fn the_unbroken_operations_pass() {
    let _alone = alone();
    assert!(run_norm(RmsNorm::SOURCE, 1000).unwrap());
    assert!(run_norm(mutate_header(&RmsNorm::SOURCE, "#pragma once", ""), 1000).unwrap());
    assert!(run_gather(GatherRows::SOURCE).unwrap());
}

#[test]
fn a_norm_that_adds_up_without_a_barrier_races() {
    let _alone = alone();
    let source = mutate_header(&RmsNorm::SOURCE, "  __syncthreads();\n  x = partial[0];", "  x = partial[0];");
    let outcome = run_norm(source.clone(), 1000);
    assert_reported(outcome, &source, "uninitialised shared read", &["partial[0]", "partial[warp]"]);
}

#[test]
fn a_norm_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    let changes = [
        // The last piece of a row.
        (
            "    if (piece >= PIECES) continue;\n    float(&x)[VECTOR] = held[HELD ? round : 0];\n    load(x, input",
            "    if (piece >= PIECES - 1) continue;\n    float(&x)[VECTOR] = held[HELD ? round : 0];\n    load(x, input",
        ),
        // The place of a row.
        ("input += (i64)blockIdx.x * input_stride;", "input += (i64)blockIdx.x * output_stride;"),
        ("output += (i64)blockIdx.x * output_stride;", "output += (i64)blockIdx.x * input_stride;"),
        // The formula.
        ("/ WIDTH + epsilon", "/ WIDTH"),
        ("/ WIDTH + epsilon", "/ (WIDTH - 8) + epsilon"),
        ("y[i] = x[i] * scale * factor[i];", "y[i] = x[i] * scale;"),
        // The rounding of the sum, and where it goes.
        ("x[i] = low_half(to_bf16(before[i] + x[i]));", "x[i] = before[i];"),
        ("      store(residual + piece * VECTOR, x);\n", ""),
    ];
    assert_noticed(&RmsNorm::SOURCE, &changes, |source| run_norm(source, 1000));
    // A row that does not stay in registers.
    let source = mutate(&RmsNorm::SOURCE, "(ADD ? residual : input)", "input");
    assert!(!run_norm(source, 40960).unwrap());
}

#[test]
fn a_gather_that_does_not_look_at_the_number_leaves_its_table() {
    let _alone = alone();
    let source =
        mutate(&GatherRows::SOURCE, "from < table_rows ? *(const uint4 *)source", "true ? *(const uint4 *)source");
    let outcome = run_gather(source.clone());
    assert_reported(outcome, &source, "allocation", &["*(uint4 *)to"]);
}

#[test]
fn a_gather_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    let changes = [
        ("piece >= PIECES", "piece >= PIECES - 1"),
        ("if (piece >= PIECES) return;", ""),
        ("(i64)from * table_stride", "(i64)from * output_stride"),
        ("(i64)blockIdx.x * output_stride", "(i64)blockIdx.x * table_stride"),
        ("const u32 from = row[blockIdx.x];", "const u32 from = row[0];"),
    ];
    assert_noticed(&GatherRows::SOURCE, &changes, run_gather);
}

#[test]
fn a_rotation_that_does_not_look_at_positions_and_slots_leaves_its_memory() {
    let _alone = alone();
    assert!(run_rope(RopeKvWrite::SOURCE).unwrap());
    let source = mutate(&RopeKvWrite::SOURCE, "(u32)position < (u32)table_positions", "true");
    let outcome = run_rope(source.clone());
    assert_reported(outcome, &source, "allocation", &["*(const float2 *)from", "load_pair("]);
    let source = mutate(&RopeKvWrite::SOURCE, "exists && (u32)slot < (u32)pool_tokens", "exists");
    assert!(!matches!(run_rope(source), Ok(true)));
}

#[test]
fn a_rotation_with_one_place_for_two_sums_races() {
    let _alone = alone();
    let source = mutate(&RopeKvWrite::SOURCE, "block_sum(squares[1], partial[1])", "block_sum(squares[1], partial[0])");
    let outcome = run_rope(source.clone());
    assert_reported(outcome, &source, "write after read", &["block_sum(squares[1]"]);
}

#[test]
fn a_rotation_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    let changes = [
        ("if (element < HALF) body", "if (element < HALF - 2) body"),
        ("low * cos[i] - high * sin[i]", "low * cos[i] + high * sin[i]"),
        ("high * cos[i] + low * sin[i]", "high * cos[i] + part.low[round][i] * sin[i]"),
        ("load_pair(sin, turns + HALF + element)", "load_pair(sin, turns + element)"),
        ("(i64)position * HEAD_DIM", "(i64)position * HALF"),
        ("min(first_head + BLOCK_HEADS, (i32)HEADS)", "first_head + BLOCK_HEADS + 1"),
        ("head < QUERY_HEADS + KV_HEADS; head += WARPS", "head < QUERY_HEADS; head += WARPS"),
        ("if (head < QUERY_HEADS)", "if (head <= QUERY_HEADS)"),
        ("/ (QUERY_HEADS * HEAD_DIM) + epsilon", "/ HEAD_DIM + epsilon"),
        ("NORM == 2 ? weight + of_kind * HEAD_DIM : weight", "weight"),
        ("is_query ? query_weight : key_weight", "query_weight"),
        ("NORM != 0 && !is_value", "NORM != 0"),
        ("if (!is_value && exists) rotate", "if (exists) rotate"),
        ("x > limit ? limit", "x > limit ? x"),
        ("x < -limit ? -limit : x", "x"),
        ("if (!is_query && !stored) continue;", "if (!is_query && !exists) continue;"),
        ("token * query_stride + of_kind * HEAD_DIM", "token * query_stride + head % 4 * HEAD_DIM"),
        ("(is_value ? values : keys) + offset", "keys + offset"),
        ("(i64)(slot >> PAGE_SHIFT) * page_stride", "(i64)slot * page_stride"),
        ("(slot & ((1 << PAGE_SHIFT) - 1))", "(slot & (1 << PAGE_SHIFT))"),
        ("(i64)of_kind * head_stride", "(i64)head * head_stride"),
        ("exists ? to_bf16_pair(low[0], low[1]) : 0", "to_bf16_pair(low[0], low[1])"),
        ("exists ? to_bf16_pair(high[0], high[1]) : 0", "to_bf16_pair(high[1], high[0])"),
        ("qkv += token * qkv_stride;", "qkv += token * HEADS * HEAD_DIM;"),
    ];
    assert_noticed(&RopeKvWrite::SOURCE, &changes, run_rope);
}

#[test]
fn an_activation_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    assert!(run_silu_mul(SiluMul::SOURCE).unwrap());
    let changes = [
        ("if (piece >= PIECES) return;", ""),
        ("piece >= PIECES", "piece >= PIECES - 1"),
        ("blockIdx.y * THREADS + threadIdx.x", "threadIdx.x"),
        ("load(up, from + WIDTH);", "load(up, from);"),
        ("(i64)blockIdx.x * gate_up_stride", "(i64)blockIdx.x * 2 * WIDTH"),
        ("(i64)blockIdx.x * output_stride", "(i64)blockIdx.x * WIDTH"),
        ("-gate[i] * LOG2_E", "-gate[i]"),
        ("1.0f + exp2_approx", "exp2_approx"),
    ];
    assert_noticed(&SiluMul::SOURCE, &changes, run_silu_mul);
}

#[test]
fn a_bias_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    assert!(run_bias(AddBias::SOURCE).unwrap());
    let changes = [
        ("if (piece >= PIECES) return;", ""),
        ("piece >= PIECES", "piece >= PIECES - 1"),
        ("blockIdx.y * THREADS + threadIdx.x", "threadIdx.x"),
        ("(i64)blockIdx.x * stride", "(i64)blockIdx.x * WIDTH"),
        ("load(more, bias + piece * VECTOR);", "load(more, bias);"),
    ];
    assert_noticed(&AddBias::SOURCE, &changes, run_bias);
}

#[test]
fn an_argmax_without_its_barrier_races() {
    let _alone = alone();
    let source = mutate(&Argmax::SOURCE, "__syncthreads();", "");
    let outcome = run_argmax(source.clone());
    assert_reported(outcome, &source, "uninitialised shared read", &["warp_order[threadIdx.x]"]);
}

#[test]
fn an_argmax_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    assert!(run_argmax(Argmax::SOURCE).unwrap());
    let changes = [
        ("token < vocabulary; token", "token < vocabulary - 1; token"),
        ("token < vocabulary; token", "token <= vocabulary; token"),
        ("other.token < best.token", "other.token > best.token"),
        ("(i64)blockIdx.x * stride", "(i64)blockIdx.x * vocabulary"),
        ("best.order > ascending(-infinity())", "true"),
        ("best.order < ascending(infinity())", "true"),
        ("if (threadIdx.x < WARPS) best", "if (threadIdx.x < WARPS - 1) best"),
        ("if (threadIdx.x == 0) tokens", "if (threadIdx.x == 32) tokens"),
    ];
    assert_noticed(&Argmax::SOURCE, &changes, run_argmax);
}

#[test]
fn a_copy_of_pages_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    assert!(run_copies(CopyPages::SOURCE).unwrap());
    let changes = [
        ("from >= pages || to >= pages", "to >= pages"),
        ("from >= pages || to >= pages", "from >= pages"),
        ("blockIdx.z == 0 ? keys : values", "keys"),
        ("piece < page_pieces", "piece <= page_pieces"),
        ("piece < page_pieces", "piece < page_pieces - 1"),
        ("(i64)from * page_stride", "(i64)from * page_pieces * 8"),
        ("(i64)to * page_stride", "(i64)from * page_stride"),
        ("blockIdx.y * THREADS + threadIdx.x", "threadIdx.x"),
    ];
    assert_noticed(&CopyPages::SOURCE, &changes, run_copies);
}

#[test]
fn a_routing_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    for renormalise in [false, true] {
        assert!(run_routing(RouteExperts::SOURCE, renormalise).unwrap());
        let changes = [
            ("if (max == -infinity()) return 0.0f;", ""),
            ("logit == max ? 1.0f : ", ""),
            ("(logit - max) * LOG2_E", "(logit - max)"),
            ("if (token >= tokens) return;", ""),
            ("positions[token] < 0", "false"),
            ("place < CHOSEN; place += 32", "place < CHOSEN - 8; place += 32"),
            ("if (x[0] == x[0]) logit[i] = x[0];", "logit[i] = x[0];"),
            ("if (expert < EXPERTS) {", "if (expert <= EXPERTS) {"),
            ("logits + token * stride + expert", "logits + token * EXPERTS + expert"),
            ("if (order[i] > best) {", "if (order[i] >= best) {"),
            ("warp_min(best == highest", "warp_max(best != highest ? 0 : best == highest"),
            ("if (expert == i * 32 + lane) order[i] = 0;", "order[0] = 0;"),
            ("expert % 32);", "0);"),
            ("if (k == 0 && place == 0) max = of;", "max = of;"),
            ("if (lane == place) {", "if (lane == 0) {"),
            ("if (place >= CHOSEN) continue;", ""),
            ("total > 0.0f ? kept_power[k] / total : 0.0f", "kept_power[k] / total"),
        ];
        assert_noticed(&RouteExperts::SOURCE, &changes, |source| run_routing(source, renormalise));
    }
    let source = mutate(&RouteExperts::SOURCE, "if (RENORMALISE) total += share;", "total += share;");
    assert!(!run_routing(source, false).unwrap());
    let source = mutate(&RouteExperts::SOURCE, "if (!RENORMALISE) {", "{");
    assert!(!run_routing(source, true).unwrap());
}

#[test]
fn a_sort_without_a_barrier_is_reported() {
    let _alone = alone();
    assert!(run_grouping(GroupRows::SOURCE).unwrap());
    for (before, words, line) in [
        ("count[g] = 0;\n", "shared race", "atomicAdd"),
        ("if (lane == 0) found_by_warp[warp] = found;\n", "race", "blocks_for(count[g])"),
        ("if (lane == 0) blocks_by_warp[warp] = blocks;\n", "shared race", "first_block += blocks_by_warp[w]"),
    ] {
        let source = mutate(&GroupRows::SOURCE, &format!("{before}  __syncthreads();"), before);
        let outcome = run_grouping(source.clone());
        assert_reported(outcome, &source, words, &[line]);
    }
}

#[test]
fn a_sort_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    let changes = [
        ("(u32)expert < (u32)EXPERTS ? expert + 1 : 0", "expert + 1"),
        ("(rows + BLOCK_ROWS - 1) / BLOCK_ROWS", "rows / BLOCK_ROWS"),
        ("g < GROUPS; g += THREADS) count", "g < GROUPS - 1; g += THREADS) count"),
        ("g < group; g += THREADS", "g <= group; g += THREADS"),
        ("(rows + THREADS - 1) / THREADS * 32", "rows / THREADS * 32"),
        ("min(begin + share, rows)", "begin + share"),
        ("atomicAdd(&count[own], 1);", "count[own]++;"),
        ("own == group));", "own >= group));"),
        ("w < warp; w++) place", "w <= warp; w++) place"),
        ("first_block * BLOCK_ROWS;\n  for (i32 w", "first_block;\n  for (i32 w"),
        ("owners & ((1u << lane) - 1)", "owners & ((2u << lane) - 1)"),
        ("place += __popc(owners);", ""),
        ("i < end_block * BLOCK_ROWS; i += THREADS", "i < end_block * BLOCK_ROWS - 1; i += THREADS"),
        ("block_expert[block] = group - 1;", "block_expert[block] = group;"),
        ("*used_rows = end_block * BLOCK_ROWS;", "*used_rows = rows;"),
    ];
    assert_noticed(&GroupRows::SOURCE, &changes, run_grouping);
}

#[test]
fn a_sum_over_experts_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    assert!(run_combination(CombineExperts::SOURCE).unwrap());
    let changes = [
        ("if (piece >= PIECES) return;", ""),
        ("piece >= PIECES", "piece >= PIECES - 1"),
        ("(i64)blockIdx.x * CHOSEN", "(i64)blockIdx.x"),
        ("choice < CHOSEN; choice++", "choice < CHOSEN - 1; choice++"),
        ("(first + choice) * row_stride", "(first + choice) * WIDTH"),
        ("weights[first + choice]", "weights[choice]"),
        ("(i64)blockIdx.x * output_stride", "(i64)blockIdx.x * row_stride"),
    ];
    assert_noticed(&CombineExperts::SOURCE, &changes, run_combination);
}

#[test]
fn a_draw_with_a_wrong_line_has_wrong_results() {
    let _alone = alone();
    assert!(run_draws(Sample::SOURCE).unwrap());
    let changes = [
        ("return logit == max ? 1ull << 40 : (u64)", "return (u64)"),
        ("(logit - max) * steepness", "(logit - max)"),
        ("shared.histogram[i] = 0;", ""),
        ("if (same) {", "if (true) {"),
        ("WEIGHED ? row.weight(logit) : 1", "1"),
        ("before += above - own;", "before -= own;"),
        ("before + own >= wanted", "before + own > wanted"),
        ("(u32)digit << shift;", "(u32)digit;"),
        ("return {prefix, wanted - above};", "return {prefix, wanted};"),
        ("seed + step);", "seed);"),
        ("step * position + step", "step * position"),
        ("vocabulary + THREADS - 1) / THREADS * 32", "vocabulary) / THREADS * 32"),
        ("ties & ((1u << lane) - 1)", "ties"),
        ("ties_before += __popc(ties);", ""),
        ("if (warp == threadIdx.x / 32) before = total;", ""),
        ("if (order > best) {", "if (order >= best) {"),
        (
            "token < vocabulary; token += THREADS) {\n    const u32 order = ascending(row.logits[token]);\n    if",
            "token <= vocabulary; token += THREADS) {\n    const u32 order = ascending(row.logits[token]);\n    if",
        ),
        ("highest > ascending(-infinity())", "true"),
        ("highest < ascending(infinity())", "true"),
        ("|| !(temperature[index] > 0.0f)", ""),
        ("if (k > 0 && k < vocabulary) cut", "if (k > 1 && k < vocabulary) cut"),
        ("if (top_p[index] < 1.0f) {", "if (false) {"),
        ("u64 wanted = __umul64hi(total, share) + (total * share != 0);", "u64 wanted = total;"),
        ("(closer.ties + weight - 1) / weight", "closer.ties"),
        ("weight >= least ? weight : 0", "weight"),
        ("order == cut.order && rank >= cut.ties", "false"),
        ("order < cut.order ||", ""),
        ("if (lane >= lanes) end += other;", "end += other;"),
        ("end += before;", ""),
        ("target < end && target >= end - weight", "target < end"),
        ("before = __shfl_sync(FULL_WARP, end, 31);", ""),
    ];
    assert_noticed(&Sample::SOURCE, &changes, run_draws);
}

#[test]
fn a_draw_without_a_barrier_is_reported() {
    let _alone = alone();
    for (with, without) in [
        ("shared.histogram[i] = 0;\n    __syncthreads();", "shared.histogram[i] = 0;"),
        ("amount);\n      }\n    }\n    __syncthreads();", "amount);\n      }\n    }\n"),
        ("__syncthreads();\n    prefix = shared.cut.order;", "prefix = shared.cut.order;"),
        ("// What was shared before has been read by all.\n  __syncthreads();", ""),
        ("= of_warp;\n  __syncthreads();", "= of_warp;"),
        ("__syncthreads();\n  best = shared.order[lane];", "best = shared.order[lane];"),
    ] {
        let outcome = run_draws(mutate(&Sample::SOURCE, with, without));
        assert!(matches!(outcome, Err(CudaError::Driver { .. })), "without the barrier of `{with}`: {outcome:?}");
    }
}

#[test]
fn logits_shaped_by_a_wrong_line_are_wrong() {
    let _alone = alone();
    assert!(run_logits(ShapeLogits::SOURCE).unwrap());
    let changes = [
        ("logits += row * stride;", "logits += row * vocabulary;"),
        ("starts[row + 1], entries", "entries, entries"),
        ("max(starts[row], 0)", "0"),
        ("if ((u32)token >= (u32)vocabulary) continue;", ""),
        ("logit > 0.0f ? logit / factor : logit * factor", "logit / factor"),
        ("count > 0 ? less", "true ? less"),
        ("frequency[row] * count + presence[row]", "frequency[row] + presence[row]"),
        ("|| token >= vocabulary", ""),
        ("(u32)mask >= (u32)mask_count", "false"),
        ("token / 32 < words ? ", "true ? "),
        ("(i64)mask * words + token / 32", "token / 32"),
        ("bits >> token % 32 & 1) == 0", "bits >> token % 32 & 1) != 0"),
        ("logits[row * stride + token] = -infinity()", "logits[row * vocabulary + token] = -infinity()"),
    ];
    assert_noticed(&ShapeLogits::SOURCE, &changes, run_logits);
}
