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

const FAR_ROWS: &str = "tests/kernels/tests/far_offsets/rows.rs";
const FAR_POOLS: &str = "tests/kernels/tests/far_offsets/pools.rs";
const FAR_PRODUCTS: &str = "tests/kernels/tests/far_offsets/products.rs";
const FAR_LOGITS: &str = "tests/kernels/tests/far_offsets/logits.rs";
const MANY: &str = "tests/kernels/tests/operations/many.rs";
const GATED_DELTA: &str = "tests/kernels/tests/operations/gated_delta.rs";
const GRAPHS: &str = "tests/kernels/tests/engine/graphs.rs";
const CACHE: &str = "tests/kernels/tests/kernel_cache.rs";
const SCHEDULES: &str = "tests/kernels/tests/schedules.rs";
const MISSING: &str = "tests/kernels/tests/missing_parts.rs";

const SCENARIOS: &[(&str, &[Test])] = &[
    // Sizes.
    (
        "a pool of more than 2^31 elements: keys and values are read from the wrong place",
        &[
            (FAR_POOLS, "attention_of_single_tokens"),
            (FAR_POOLS, "attention_of_single_tokens_by_tensor_cores"),
            (FAR_POOLS, "attention_of_prompts"),
            (FAR_POOLS, "attention_over_compressed_keys"),
            (FAR_POOLS, "copied_pages"),
            (FAR_ROWS, "rotated_rows_and_their_places_in_pools"),
        ],
    ),
    (
        "pages so far apart that a few thousand are 2^31 elements",
        &[(FAR_POOLS, "attention_of_prompts"), (FAR_POOLS, "copied_pages")],
    ),
    (
        "queries and results of a long batch begin past 2^31 elements",
        &[
            (FAR_POOLS, "results_of_a_long_batch_of_prompts"),
            (FAR_POOLS, "results_of_a_long_batch_of_single_tokens"),
            (FAR_ROWS, "merged_parts_with_strides_of_their_own"),
        ],
    ),
    (
        "the number of an expert, or of a row, times the size of its weights or results",
        &[(FAR_PRODUCTS, "rows_and_weights_of_experts"), (FAR_PRODUCTS, "rows_of_a_product")],
    ),
    (
        "activations, norms and states of many tokens begin past 2^31 elements",
        &[
            (FAR_ROWS, "activations"),
            (FAR_ROWS, "normalised_rows"),
            (FAR_ROWS, "gathered_rows"),
            (FAR_ROWS, "rows_of_a_long_table"),
            (FAR_ROWS, "sums_over_experts"),
            (FAR_ROWS, "rows_and_slots_of_the_gated_delta_rule"),
            (FAR_LOGITS, "likeliest_tokens"),
            (FAR_LOGITS, "drawn_tokens"),
            (FAR_LOGITS, "penalties_and_masks"),
        ],
    ),
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
            (MANY, "every_one_of_many_rows_is_computed"),
            (MANY, "the_last_of_many_requests_is_served"),
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
    (
        "parts with strides of their own, of more than 65536 rows, are merged wrongly",
        &[
            (FAR_ROWS, "merged_parts_with_strides_of_their_own"),
            (MANY, "every_one_of_many_rows_is_computed"),
            ("tests/kernels/tests/operations/merging.rs", "parts_join_as_in_float64"),
        ],
    ),
    // Experts.
    (
        "NaN among a router's logits chooses an expert twice, or one that there is not",
        &[(ROUTING, "experts_are_those_of_a_sort_and_weights_match_float64")],
    ),
    (
        "experts of a group that was not chosen count as zero, and win over negative ones; equally good groups",
        &[
            (ROUTING, "experts_of_the_best_groups_are_those_of_a_sort_and_weights_match_float64"),
            (ROUTING, "a_bias_chooses_and_does_not_weigh"),
        ],
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
    (
        "a width that is no multiple of a tile",
        &[
            (GEMM, "shapes_and_batches_drawn_at_random"),
            ("tests/kernels/tests/products/dense.rs", "every_block_in_every_shape"),
            ("tests/kernels/tests/products/quantised.rs", "every_format_in_every_block_and_shape"),
        ],
    ),
    (
        "parts of a sum, or its zeros, are written in an order that the schedule decides",
        &[
            (SCHEDULES, "products_do_not_depend_on_the_order_of_warps_nor_on_when_work_is_done"),
            (SCHEDULES, "products_with_quantised_weights_do_not_either"),
            (
                "tests/kernels/tests/operation_schedules.rs",
                "results_do_not_depend_on_the_order_of_warps_nor_on_when_work_is_done",
            ),
        ],
    ),
    (
        "one variant forgets an optional argument",
        &[
            ("tests/kernels/tests/products/dense.rs", "every_block_in_every_shape"),
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
    (
        "blocks past those in use, or rows that fill a captured size, read what nobody has written",
        &[(GEMM, "blocks_of_16_rows"), (GRAPHS, "captured_steps_have_the_bits_of_single_launches")],
    ),
    (
        "work that was captured with a short context is launched with a long one",
        &[(GRAPHS, "captured_steps_have_the_bits_of_single_launches")],
    ),
    (
        "padding takes the state of slot 0",
        &[(GATED_DELTA, "steps_match_float64"), (GATED_DELTA, "runs_match_float64_token_by_token")],
    ),
    (
        "a random number that does not change with the position",
        &[(SAMPLING, "tokens_are_drawn_as_often_as_they_are_likely"), (SAMPLING, "captured_draws_follow_the_position")],
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
            (GATED_DELTA, "a_run_has_the_same_bits_alone_and_in_a_batch_and_cut_at_a_chunk"),
        ],
    ),
    (
        "a kernel reads what the one before it has not written yet",
        &[("tests/kernels/tests/engine/bits.rs", "when_the_device_does_its_work_changes_no_bit")],
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
        &[("kernels/tests/no_driver.rs", "opening_a_device_says_that_there_is_no_driver"), (MISSING, "no_compiler")],
    ),
    (
        "kernels are compiled at every start, or a stale one is taken, or two processes wait for each other",
        &[
            (CACHE, "a_kernel_is_compiled_once_and_is_the_same_afterwards"),
            (CACHE, "a_damaged_file_is_told_of_and_replaced"),
            (CACHE, "processes_may_fill_a_folder_at_the_same_time"),
        ],
    ),
    (
        "a driver older than the compiler, or a compiler newer than the driver",
        &[(MISSING, "a_driver_that_is_too_old"), (MISSING, "a_compiler_of_another_generation")],
    ),
    (
        "machine code for another device",
        &[
            (MISSING, "prebuilt_kernels_for_other_devices_are_none"),
            (MISSING, "a_device_that_is_too_old"),
            ("tests/kernels/tests/machine_code.rs", "the_figures_of_every_source_are_those_committed_for_every_target"),
        ],
    ),
];

/// What has been reported of kernels that there are none of here: why not, and words that a source of one would have.
const NOT_HERE: &[(&str, &str, &[&str])] = &[
    (
        "a scale of 8-bit keys and values that is missing, or applied twice",
        "keys and values are bf16",
        &["e4m3", "e5m2"],
    ),
    (
        "a number above the largest of an 8-bit floating-point format becomes NaN",
        "no kernel reads or writes such a format",
        &["e4m3", "satfinite"],
    ),
    (
        "an adapter whose rank fills no tile, a segment without tokens, adapter -1",
        "there are no adapters",
        &["lora", "adapter"],
    ),
    (
        "a kernel that was begun early reads before it has waited",
        "none is begun before the one before it has ended",
        &["griddepcontrol"],
    ),
];

#[test]
fn what_is_said_not_to_be_here_is_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/cu");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
        for (scenario, why, words) in NOT_HERE {
            let found = words.iter().find(|word| text.contains(**word));
            assert!(found.is_none(), "{scenario}: {why}, but {} has {found:?}", path.display());
        }
    }
}

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
