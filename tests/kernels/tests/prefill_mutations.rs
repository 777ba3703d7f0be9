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
    ("first_key + KEYS <= first_visible_end &&", "first_key + KEYS <= last_visible_end &&", Results),
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

const NONE: AttentionRules = AttentionRules { window: None, softcap: None, sinks: false };

#[test]
fn every_mutant_is_found_out() {
    find_out(NONE, MUTANTS);
}

#[test]
fn every_mutant_of_the_rules_is_found_out() {
    find_out(AttentionRules { window: Some(40), softcap: Some(2.0), sinks: true }, MUTANTS_OF_RULES);
}

fn find_out(rules: AttentionRules, mutants: &[(&str, &str, Shown)]) {
    let _alone = alone();
    let (problem, emulator) = (problem(rules), Emulator::open());
    assert!(run(&problem, rules, PrefillAttention::SOURCE).unwrap());
    let mut missed = Vec::new();
    for &(from, to, shown) in mutants {
        let outcome = run(&problem, rules, mutate(&PrefillAttention::SOURCE, from, to));
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
