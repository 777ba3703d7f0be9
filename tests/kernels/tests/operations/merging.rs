use kernel_tests::{device, operation_cases};
use kernels::cuda::check::{Comparison, DecodeProblem, MergeProblem, PoolOrder};
use kernels::cuda::{
    AttentionRules, AttentionState, CudaError, CudaSlice, DecodeAttention, DecodeAttentionShape, MergeStates,
    MergeStatesArgs, MergeStatesShape, Rows, RowsMut,
};

#[test]
fn parts_join_as_in_float64() {
    operation_cases::merges(&device());
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_a_batch() {
    let device = device();
    let shape = MergeStatesShape { head_dim: 64, query_heads: 5, sinks: true };
    let kernel = MergeStates::compile(&device, shape).unwrap();
    let batch = MergeProblem::random(shape, 9, 0, 3);
    let all = batch.run(&device, &kernel).unwrap();
    for count in 1..4 {
        let fewer = batch.first_rows(count).run(&device, &kernel).unwrap();
        assert_eq!(fewer.output, all.output[..count * 5 * 64]);
        assert_eq!(fewer.lse, all.lse[..count * 5]);
    }
}

/// What the kernel is for: attention over the first pages of contexts, over what follows, and both joined, which is
/// attention over all. A sink counts once, at the end.
#[test]
fn attention_over_a_prefix_and_over_the_rest_is_attention_over_all() {
    let device = device();
    let contexts = [Some(100), Some(64), Some(65), Some(10), Some(0), None, Some(300)];
    for sinks in [false, true] {
        let rules = AttentionRules { sinks, ..AttentionRules::default() };
        let shape =
            DecodeAttentionShape { head_dim: 64, query_heads: 8, kv_heads: 2, page_size: 16, split_tokens: 128 };
        let problem = DecodeProblem::random(shape, rules, &contexts, PoolOrder::TokenMajor, 17);
        let without = AttentionRules::default();
        let attention = DecodeAttention::compile(&device, shape, without).unwrap();
        let parts = problem.parts(4).map(|part| part.with_rules(without).run(&device, &attention).unwrap());
        let merged = MergeStatesShape { head_dim: 64, query_heads: 8, sinks };
        let kernel = MergeStates::compile(&device, merged).unwrap();
        let joined = MergeProblem::of_results(merged, [&parts[0], &parts[1]], problem.sinks());
        let found = joined.run(&device, &kernel).unwrap();
        // The parts have been rounded, which the attention of one kernel has not.
        let [output, lse] = problem.compare(&found);
        assert!(output.holds(), "{output}");
        assert!(lse.holds(), "{lse}");
        assert!(joined.compare(&found).iter().all(Comparison::holds));
    }
}

#[test]
fn every_size_is_checked() {
    /// Rows; length and stride of the first part and of the second, and of its lse; length and stride of the output, and of
    /// its lse.
    const RIGHT: [usize; 9] = [3, 112, 40, 96, 32, 6, 96, 32, 6];
    let device = device();
    let shape = MergeStatesShape { head_dim: 16, query_heads: 2, sinks: false };
    let kernel = MergeStates::compile(&device, shape).unwrap();
    let launch = |sizes: [usize; 9], sinks: bool| -> Result<(), CudaError> {
        let [rows, first, first_stride, second, second_stride, part_lse, output, stride, lse] = sizes;
        let (first, second): (CudaSlice<u16>, CudaSlice<u16>) = (device.zeros(first)?, device.zeros(second)?);
        let (first_lse, second_lse): (CudaSlice<f32>, CudaSlice<f32>) = (device.zeros(6)?, device.zeros(part_lse)?);
        let mut result: CudaSlice<u16> = device.zeros(output)?;
        let mut denominators: CudaSlice<f32> = device.zeros(lse)?;
        device.merge_states(
            &kernel,
            MergeStatesArgs {
                parts: [
                    AttentionState {
                        output: Rows { values: first.as_view(), stride: first_stride },
                        lse: first_lse.as_view(),
                    },
                    AttentionState {
                        output: Rows { values: second.as_view(), stride: second_stride },
                        lse: second_lse.as_view(),
                    },
                ],
                rows,
                sinks: sinks.then(|| first_lse.as_view()),
                output: RowsMut { values: result.as_view_mut(), stride },
                lse: denominators.as_view_mut(),
            },
        )?;
        device.synchronize()
    };
    launch(RIGHT, false).unwrap();
    let wrong = [
        ("rows * query_heads", 0, 1 << 30),
        ("length of the first part", 1, 111),
        ("stride of the first part", 2, 36),
        ("length of the second part", 3, 95),
        ("stride of the second part", 4, 24),
        ("length of the second part's lse", 5, 7),
        ("length of output", 6, 95),
        ("stride of output", 7, 24),
        ("length of lse", 8, 5),
    ];
    for (what, index, size) in wrong {
        let mut sizes = RIGHT;
        sizes[index] = size;
        let error = launch(sizes, false).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
    let error = launch(RIGHT, true).unwrap_err();
    assert!(error.to_string().starts_with("number of buffers of sinks is 1"), "{error}");
}
