//! Prefill attention, broken in one place at a time: every mutant is found out.

use kernel_tests::mutation::{alone, mutate};
use kernel_tests::{Emulator, device};
use kernels::cuda::check::{Comparison, PoolOrder, PrefillProblem, PrefillRequest};
use kernels::cuda::{AttentionRules, CudaError, KernelSource, PrefillAttention, PrefillAttentionShape};

const SHAPE: PrefillAttentionShape = PrefillAttentionShape { head_dim: 32, query_heads: 6, kv_heads: 2, page_size: 16 };

/// More requests than a warp looks through at once; rows that see nothing beside rows that do; prompts, chunks, padding.
fn problem(rules: AttentionRules) -> PrefillProblem {
    let request = |tokens, context| PrefillRequest { tokens, context: Some(context) };
    let mut requests = vec![request(5, 2), request(70, 150), PrefillRequest { tokens: 3, context: None }];
    requests.extend((1..34).map(|context| request(1, context * 5)));
    requests.push(request(24, 33));
    PrefillProblem::random(SHAPE, rules, &requests, 5, PoolOrder::TokenMajor, 41)
}

/// Whether the kernel is right; an error is the emulator's.
fn run(problem: &PrefillProblem, rules: AttentionRules, source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = PrefillAttention::compile_source(&device, SHAPE, rules, source)?;
    let found = problem.run(&device, &kernel)?;
    Ok(found.guards_intact && problem.compare(&found).iter().all(Comparison::holds))
}

/// What shows that a mutant is broken.
#[derive(Clone, Copy)]
enum Shown {
    /// The emulator's report, which has these words.
    Report(&'static str),
    /// Results.
    Results,
}
use Shown::{Report, Results};

/// What to change, into what, and how it shows.
const MUTANTS: &[(&str, &str, Shown)] = &[
    ("    __syncthreads();\n    start_copies(step + 1);", "    start_copies(step + 1);", Report("race")),
    (
        "    __syncthreads();\n    start_copies(step + 1);",
        "    start_copies(step + 1);\n    __syncthreads();",
        Report("race"),
    ),
    (
        "    __syncthreads();\n    start_copies(step + 1);\n    find_keys(step + 2);",
        "    find_keys(step + 2);\n    __syncthreads();\n    start_copies(step + 1);",
        Report("write after read"),
    ),
    ("find_keys(first_step + 1);\n  __syncthreads();", "find_keys(first_step + 1);", Report("shared")),
    ("wait_for_copies<0>();", "wait_for_copies<1>();", Report("is not waited for")),
    ("find_keys(step + 2);", "find_keys(step + 1);", Report("write after read")),
    ("find_keys(step + 2);", "", Results),
    ("key >= first_key_seen && key < end_key", "key <= end_key", Report("allocation")),
    ("key >= first_key_seen && key < end_key", "true", Report("allocation")),
    ("token_offset(pages, key,", "token_offset(pages, key + 1,", Report("allocation")),
    ("kv_head * head_stride;", "0;", Results),
    ("key < visible_end[t / 2]", "key <= visible_end[t / 2]", Results),
    ("key < visible_end[t / 2]", "key < visible_end[0]", Results),
    ("lane % 4 * 2 + t % 2;", "lane % 4 * 2;", Results),
    ("(TREE ? first_position : first_visible_end) &&", "last_visible_end &&", Results),
    ("(first_key >= last_visible_end)", "(first_key >= first_visible_end)", Results),
    ("k * 2 + lane / 8 % 2)", "k * 2 + lane / 16)", Results),
    ("j * 16 + lane % 8 + lane / 16 * 8", "j * 16 + lane % 16", Results),
    ("load_matrix_x4_transposed", "load_matrix_x4", Results),
    ("if (row >= rows) continue;", "", Report("allocation")),
    ("sum[half] *= keep;", "", Results),
    ("value[i][2 * half + 1] *= keep;", "", Results),
    ("__shfl_xor_sync(FULL_WARP, new_max, 2)", "__shfl_xor_sync(FULL_WARP, new_max, 1)", Results),
    ("__shfl_xor_sync(FULL_WARP, sum[half], 2)", "__shfl_xor_sync(FULL_WARP, sum[half], 1)", Results),
    ("const bool empty = max[half] == -infinity();", "const bool empty = false;", Results),
    ("finite_reference(new_max)", "new_max", Results),
    ("const bool exists = row < rows;", "const bool exists = true;", Report("allocation")),
    ("min(row, rows - 1) / GROUP", "row / GROUP", Report("allocation")),
    ("slot < 0 ? 0 : context", "false ? 0 : context", Report("allocation")),
    ("if (lane >= step) until += before;", "until += before;", Results),
    ("tiles += __shfl_sync(FULL_WARP, until, 31);", "", Results),
    ("const i32 end = clamped_start(query_starts, requests, tokens);", "const i32 end = tokens;", Results),
    ("LN_2 * (max[half]", "(max[half]", Results),
    ("score[j][t] * factor", "score[j][t]", Results),
    ("QUERY_HEADS + head;", "QUERY_HEADS + first_head;", Results),
    ("(first_head + row % GROUP) * HEAD_DIM", "first_head * HEAD_DIM", Results),
    ("(last - number) * ROWS", "number * ROWS", Results),
];

/// The same with a window, a cap and sinks.
const MUTANTS_OF_RULES: &[(&str, &str, Shown)] = &[
    ("position(tile.first_row) + 1 - WINDOW, 0)", "position(tile.first_row) - WINDOW, 0)", Report("allocation")),
    ("position(tile.first_row) + 1 - WINDOW, 0)", "position(tile.first_row) + 2 - WINDOW, 0)", Results),
    ("key >= first_key_seen && key < end_key", "key < end_key", Report("allocation")),
    ("find_keys(first_step);", "find_keys(0);", Report("shared")),
    ("start_copies(first_step);", "start_copies(0);", Report("shared")),
    ("step == first_step)", "step == 0)", Results),
    ("(!WINDOW || first_key >= last_visible_end - WINDOW)", "true", Results),
    ("(!WINDOW || key >= visible_end[t / 2] - WINDOW)", "true", Results),
    ("key >= visible_end[t / 2] - WINDOW", "key > visible_end[t / 2] - WINDOW", Results),
    ("key >= visible_end[t / 2] - WINDOW", "key + 1 >= visible_end[t / 2] - WINDOW", Results),
    ("first_key + KEYS <= first_visible_end - WINDOW", "first_key + KEYS <= last_visible_end - WINDOW", Results),
    ("finished_score(score[j][t] * factor, softcap)", "score[j][t] * factor", Results),
    (" + sink_weight(sinks, head, max[half])", "", Results),
    ("sink_weight(sinks, head,", "sink_weight(sinks, first_head,", Results),
];

/// The same for trees.
const MUTANTS_OF_TREES: &[(&str, &str, Shown)] = &[
    ("TREE ? tile.tokens - 1 :", "false ? tile.tokens - 1 :", Results),
    ("(TREE ? first_position : first_visible_end)", "first_visible_end", Results),
    ("if (TREE && draft >= 0)", "if (TREE && draft > 0)", Results),
    ("(draft & 63) & 1", "(draft & 31) & 1", Results),
    ("tree[tile.start + row / GROUP]", "tree[tile.start]", Results),
    ("tree[tile.start + row / GROUP]", "tree[row / GROUP]", Results),
    ("if (row < rows) seen[half]", "seen[half]", Report("allocation")),
];

const NONE: AttentionRules = AttentionRules { window: None, softcap: None, sinks: false };

#[test]
fn every_mutant_is_found_out() {
    find_out(MUTANTS, |source| run(&problem(NONE), NONE, source));
}

#[test]
fn every_mutant_of_the_rules_is_found_out() {
    let rules = AttentionRules { window: Some(40), softcap: Some(2.0), sinks: true };
    find_out(MUTANTS_OF_RULES, |source| run(&problem(rules), rules, source));
}

#[test]
fn every_mutant_of_trees_is_found_out() {
    let request = |tokens, context| PrefillRequest { tokens, context: Some(context) };
    // Every token sees itself and some that are no function of its number, later ones among them.
    let mask = |start: u64, token: u64| 1 << token | (token + start + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let masks = (0..64).map(|token| mask(0, token)).chain((0..20).map(|token| mask(64, token))).collect();
    let problem =
        PrefillProblem::random(SHAPE, NONE, &[request(64, 150), request(20, 33)], 0, PoolOrder::TokenMajor, 42)
            .with_tree(masks);
    find_out(MUTANTS_OF_TREES, |source| {
        let device = device();
        let kernel = PrefillAttention::compile_tree_source(&device, SHAPE, NONE, source)?;
        let found = problem.run(&device, &kernel)?;
        Ok(found.guards_intact && problem.compare(&found).iter().all(Comparison::holds))
    });
}

fn find_out(mutants: &[(&str, &str, Shown)], run: impl Fn(KernelSource) -> Result<bool, CudaError>) {
    let _alone = alone();
    let emulator = Emulator::open();
    assert!(run(PrefillAttention::SOURCE).unwrap());
    let mut missed = Vec::new();
    for &(from, to, shown) in mutants {
        let outcome = run(mutate(&PrefillAttention::SOURCE, from, to));
        let found_out = match (shown, &outcome) {
            // The account names the kernel's line.
            (Report(words), Err(CudaError::Driver { .. })) => {
                let report = emulator.report();
                report.contains(words) && report.contains("paged_prefill_attention.cu:")
            }
            (Results, Ok(right)) => !right,
            _ => false,
        };
        if !found_out {
            missed.push(format!("`{from}` as `{to}`: {outcome:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn starts_that_are_not_clamped_leave_the_results() {
    let _alone = alone();
    let clamp = "min(max(query_starts[request], 0), tokens)";
    let source = mutate(&PrefillAttention::SOURCE, clamp, "query_starts[request]");
    let mut starts = [0; 38];
    starts[0] = -40;
    let problem = problem(NONE).with_starts(&starts);
    let outcome = run_unsolved(&problem, NONE, source);
    assert!(!matches!(outcome, Ok(true)), "{outcome:?}");
    assert!(run_unsolved(&problem, NONE, PrefillAttention::SOURCE).unwrap());
}

/// Whether a kernel left what is not its own alone.
fn run_unsolved(problem: &PrefillProblem, rules: AttentionRules, source: KernelSource) -> Result<bool, CudaError> {
    let device = device();
    let kernel = PrefillAttention::compile_source(&device, SHAPE, rules, source)?;
    Ok(problem.run(&device, &kernel)?.guards_intact)
}
