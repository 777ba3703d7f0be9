//! What users of other engines have reported about their kernels, and the tests that would find it in these.

use std::path::Path;

/// A test: its file, from the root, and its name.
type Test = (&'static str, &'static str);

const DECODE: &str = "tests/kernels/tests/decode_attention.rs";
const PREFILL: &str = "tests/kernels/tests/prefill_attention.rs";
const GEMM: &str = "tests/kernels/tests/products/grouped.rs";
const ROUTING: &str = "tests/kernels/tests/operations/routing.rs";
const EXPERTS: &str = "tests/kernels/tests/operations/experts.rs";
const ROPE: &str = "tests/kernels/tests/operations/rope.rs";
const SAMPLING: &str = "tests/kernels/tests/operations/sampling.rs";
const ELEMENTWISE: &str = "tests/kernels/tests/operations/elementwise.rs";

const SCENARIOS: &[(&str, &[Test])] = &[
    // Sizes.
    (
        "more experts than an alignment kernel can count",
        &[
            ("kernels/src/cuda/group_rows.rs", "unsupported_shapes_say_what_is_supported"),
            (ROUTING, "rows_are_sorted_as_on_the_host"),
        ],
    ),
    (
        "more rows than a grid has blocks",
        &[
            (ELEMENTWISE, "every_size_of_an_activation_is_checked"),
            ("tests/kernels/tests/operations/gather.rs", "every_size_is_checked"),
        ],
    ),
    // Masks, nothing, NaN.
    (
        "a query that sees no key is NaN",
        &[
            (DECODE, "a_batch_of_nothing_is_nothing"),
            (PREFILL, "a_batch_of_nothing_is_nothing"),
            (PREFILL, "heads_of_64_elements"),
        ],
    ),
    (
        "a request without tokens or without context leaves what was in the output",
        &[
            (DECODE, "heads_of_64_elements"),
            (PREFILL, "heads_of_64_elements"),
            (GEMM, "no_rows_and_only_foreign_rows_are_no_work"),
        ],
    ),
    (
        "NaN in unused slots of the pool comes out",
        &[(DECODE, "shapes_and_batches_drawn_at_random"), (PREFILL, "shapes_and_batches_drawn_at_random")],
    ),
    (
        "a window longer than the context, shorter than a page, or ending inside a step",
        &[
            (DECODE, "windows_capped_scores_and_sinks"),
            (PREFILL, "windows_capped_scores_and_sinks"),
            (PREFILL, "a_token_has_the_same_bits_in_any_chunk_of_a_window"),
        ],
    ),
    (
        "a cap, a window and splits together; a sink that every split counts",
        &[(DECODE, "windows_capped_scores_and_sinks")],
    ),
    (
        "a tree's mask where a chain's would be, a mask past its words",
        &[(PREFILL, "drafts_in_trees_see_their_ancestors"), (PREFILL, "a_chain_of_drafts_is_a_run_of_tokens")],
    ),
    ("scores so far from zero that weights vanish or overflow", &[(PREFILL, "extreme_scores_give_exact_means")]),
    // Log-sum-exp and merging.
    (
        "parts that see nothing are merged to NaN",
        &[(DECODE, "heads_of_64_elements"), (DECODE, "windows_capped_scores_and_sinks")],
    ),
    (
        "nothing visible is plus infinity in one kernel and minus infinity in another",
        &[(DECODE, "a_batch_of_nothing_is_nothing"), (PREFILL, "a_batch_of_nothing_is_nothing")],
    ),
    (
        "a logarithm of base two where a natural one is expected",
        &[(DECODE, "heads_of_128_elements"), (PREFILL, "heads_of_128_elements")],
    ),
    // Experts.
    (
        "NaN among a router's logits chooses an expert twice, or one that there is not",
        &[(ROUTING, "experts_are_those_of_a_sort_and_weights_match_float64")],
    ),
    ("equally likely experts come in any order", &[(ROUTING, "experts_are_those_of_a_sort_and_weights_match_float64")]),
    (
        "a negative expert, or one that lives elsewhere",
        &[(ROUTING, "rows_are_sorted_as_on_the_host"), (GEMM, "no_rows_and_only_foreign_rows_are_no_work")],
    ),
    ("an expert twice in one token", &[(ROUTING, "rows_are_sorted_as_on_the_host")]),
    (
        "padding tokens are routed",
        &[
            (EXPERTS, "a_layer_of_experts_matches_float64_and_padding_stays_zero"),
            (ROUTING, "experts_are_those_of_a_sort_and_weights_match_float64"),
        ],
    ),
    ("a width that is no multiple of a tile", &[(GEMM, "shapes_and_batches_drawn_at_random")]),
    (
        "one variant forgets an optional argument",
        &[
            (ELEMENTWISE, "activations_match_float64_and_biases_are_exact"),
            (DECODE, "windows_capped_scores_and_sinks"),
            (PREFILL, "windows_capped_scores_and_sinks"),
        ],
    ),
    (
        "each kernel is within its tolerance and the model is not",
        &[
            ("tests/kernels/tests/engine/logits.rs", "qwen3_moe_with_the_experts_of_the_reference"),
            ("tests/kernels/tests/engine/logits.rs", "llama"),
        ],
    ),
    // Padding.
    (
        "padding overwrites a page that is in use",
        &[(ROPE, "heads_without_a_norm_match_float64"), (ROPE, "values_are_copied_exactly")],
    ),
    ("blocks past those in use read what nobody has written", &[(GEMM, "blocks_of_16_rows")]),
    (
        "a random number that does not change with the position",
        &[(SAMPLING, "tokens_are_drawn_as_often_as_they_are_likely")],
    ),
    // The same bits.
    (
        "a result depends on what it is batched with",
        &[
            (DECODE, "a_request_has_the_same_bits_alone_and_in_a_batch"),
            (PREFILL, "a_token_has_the_same_bits_alone_and_in_a_batch_and_in_any_chunk"),
            ("tests/kernels/tests/operations/norm.rs", "a_row_has_the_same_bits_alone_and_in_a_batch"),
            (ROPE, "a_token_has_the_same_bits_alone_and_in_a_batch"),
            (ROUTING, "a_token_is_routed_alone_as_among_others"),
        ],
    ),
    // Sampling.
    (
        "a share of one, or more than there are tokens, draws one that there is not",
        &[(SAMPLING, "tokens_are_those_of_a_draw_in_float64")],
    ),
    (
        "NaN among logits draws a token that there is not",
        &[
            (SAMPLING, "tokens_are_those_of_a_draw_in_float64"),
            (
                "tests/kernels/tests/operations/argmax.rs",
                "the_first_of_the_likeliest_tokens_is_chosen_and_none_where_there_is_none",
            ),
        ],
    ),
    ("the columns that pad the head are drawn", &[(SAMPLING, "tokens_are_those_of_a_draw_in_float64")]),
    ("a mask with fewer tokens than there are logits", &[(SAMPLING, "penalties_and_masks_match_float64")]),
    // Rotation.
    (
        "angles at the end of a long context are not accurate",
        &[("kernels/src/cuda/rope_kv_write.rs", "turns_are_right_at_the_end_of_a_long_context")],
    ),
    // Compiling.
    (
        "the compiler's message is lost",
        &[("tests/kernels/tests/machine_code.rs", "an_error_in_a_source_is_shown_with_its_line")],
    ),
    (
        "a driver or a compiler that is not there ends the program",
        &[
            ("kernels/tests/no_driver.rs", "opening_a_device_says_that_there_is_no_driver"),
            ("tests/kernels/tests/missing_parts.rs", "no_compiler"),
        ],
    ),
];

#[test]
fn every_scenario_has_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (scenario, tests) in SCENARIOS {
        assert!(!tests.is_empty(), "{scenario}: no test");
        for (file, name) in *tests {
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let test = format!("#[test] fn {name}() {{");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&test), "{scenario}: {file} has no test `{name}`");
        }
    }
}
