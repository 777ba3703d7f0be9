use kernel_tests::{device, operation_cases};
use kernels::cuda::check::{GroupRoutingProblem, RoutingProblem, WeightFormat};
use kernels::cuda::{
    CombineExperts, CombineExpertsArgs, CombineExpertsShape, CudaError, CudaSlice, ExpertScoring, Floats, GroupRows,
    GroupRowsArgs, GroupRowsShape, RouteExperts, RouteExpertsArgs, RouteExpertsShape, RouteGroups, RouteGroupsShape,
    Rows, RowsMut,
};

#[test]
fn experts_are_those_of_a_sort_and_weights_match_float64() {
    operation_cases::routings(&device());
}

#[test]
fn experts_of_the_best_groups_are_those_of_a_sort_and_weights_match_float64() {
    operation_cases::group_routings(&device());
}

#[test]
fn rows_are_sorted_as_on_the_host() {
    operation_cases::groupings(&device());
}

#[test]
fn sums_over_experts_match_float64() {
    operation_cases::combinations(&device());
}

#[test]
fn a_token_is_routed_alone_as_among_others() {
    let device = device();
    let shape = RouteExpertsShape { experts: 60, chosen: 4, renormalise: true };
    let kernel = RouteExperts::compile(&device, shape).unwrap();
    let problem = RoutingProblem::random(shape, 12, 0, WeightFormat::F32, 6);
    let all = problem.run(&device, &kernel).unwrap();
    for count in [1, 5] {
        let fewer = problem.first_tokens(count).run(&device, &kernel).unwrap();
        assert_eq!(fewer.experts, all.experts[..count * shape.chosen]);
        assert_eq!(fewer.weights, all.weights[..count * shape.chosen]);
    }
}

#[test]
fn a_token_is_routed_within_groups_alone_as_among_others() {
    let device = device();
    let experts = RouteExpertsShape { experts: 64, chosen: 6, renormalise: true };
    let shape = RouteGroupsShape { experts, groups: 8, chosen_groups: 3 };
    let kernel = RouteGroups::compile(&device, shape).unwrap();
    let problem = GroupRoutingProblem::random(shape, 12, 0, true, 7);
    let all = problem.run(&device, &kernel).unwrap();
    for count in [1, 6] {
        let fewer = problem.first_tokens(count).run(&device, &kernel).unwrap();
        assert_eq!(fewer.experts, all.experts[..count * experts.chosen]);
        assert_eq!(fewer.weights, all.weights[..count * experts.chosen]);
    }
}

/// By hand: without a bias the first group is the better one, but the bias favours the other. Weights know nothing of it,
/// sum to one, and are then scaled.
#[test]
fn a_bias_chooses_and_does_not_weigh() {
    let device = device();
    let experts = RouteExpertsShape { experts: 4, chosen: 2, renormalise: true };
    let kernel = RouteGroups::compile(&device, RouteGroupsShape { experts, groups: 2, chosen_groups: 1 }).unwrap();
    // Scores of a half, three quarters, a fifth and a tenth.
    let logits = device.upload(&[0.0, 3.0_f32.ln(), 0.25_f32.ln(), (1.0_f32 / 9.0).ln()]).unwrap();
    let positions = device.upload(&[0]).unwrap();
    let bias = device.upload(&[0.0_f32, 0.0, 1.0, 2.0]).unwrap();
    for (is_biased, expected, expected_weights) in [(false, [1, 0], [1.8, 1.2]), (true, [3, 2], [1.0, 2.0])] {
        let mut experts: CudaSlice<i32> = device.zeros(2).unwrap();
        let mut weights: CudaSlice<f32> = device.zeros(2).unwrap();
        let args = RouteExpertsArgs {
            logits: Floats::F32(logits.as_view()),
            stride: 4,
            positions: positions.as_view(),
            experts: experts.as_view_mut(),
            weights: weights.as_view_mut(),
        };
        let scoring = ExpertScoring { bias: is_biased.then(|| bias.as_view()), scale: 3.0 };
        device.route_groups(&kernel, args, &scoring).unwrap();
        assert_eq!(device.download(&experts).unwrap(), expected);
        for (found, expected) in device.download(&weights).unwrap().iter().zip(expected_weights) {
            assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
        }
        let short = device.upload(&[0.0_f32; 3]).unwrap();
        let args = RouteExpertsArgs {
            logits: Floats::F32(logits.as_view()),
            stride: 4,
            positions: positions.as_view(),
            experts: experts.as_view_mut(),
            weights: weights.as_view_mut(),
        };
        let scoring = ExpertScoring { bias: Some(short.as_view()), scale: 3.0 };
        assert_sizes([("length of bias", device.route_groups(&kernel, args, &scoring))]);
    }
}

fn assert_sizes(outcomes: impl IntoIterator<Item = (&'static str, Result<(), CudaError>)>) {
    for (what, outcome) in outcomes {
        let error = outcome.unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}

#[test]
fn every_size_of_a_routing_is_checked() {
    let device = device();
    let shape = RouteExpertsShape { experts: 8, chosen: 2, renormalise: true };
    let kernel = RouteExperts::compile(&device, shape).unwrap();
    let launch = |length: usize, stride: usize, experts: usize, weights: usize| {
        let logits: CudaSlice<f32> = device.zeros(length)?;
        let positions: CudaSlice<i32> = device.zeros(3)?;
        let mut experts: CudaSlice<i32> = device.zeros(experts)?;
        let mut weights: CudaSlice<f32> = device.zeros(weights)?;
        device.route_experts(
            &kernel,
            RouteExpertsArgs {
                logits: Floats::F32(logits.as_view()),
                stride,
                positions: positions.as_view(),
                experts: experts.as_view_mut(),
                weights: weights.as_view_mut(),
            },
        )?;
        device.synchronize()
    };
    launch(28, 10, 6, 6).unwrap();
    assert_sizes([
        ("length of logits", launch(27, 10, 6, 6)),
        ("stride of logits", launch(28, 7, 6, 6)),
        ("length of experts", launch(28, 10, 5, 6)),
        ("length of weights", launch(28, 10, 6, 7)),
    ]);
}

#[test]
fn every_size_of_a_grouping_is_checked() {
    let device = device();
    let kernel = GroupRows::compile(&device, GroupRowsShape { experts: 4, block_rows: 16 }).unwrap();
    // 20 rows in 5 groups take up to 5 blocks: four of one row, and one of sixteen.
    let launch = |sorted_rows: usize, block_expert: usize, used_rows: usize| {
        let expert_of_row: CudaSlice<i32> = device.zeros(20)?;
        let mut sorted_rows: CudaSlice<i32> = device.zeros(sorted_rows)?;
        let mut block_expert: CudaSlice<i32> = device.zeros(block_expert)?;
        let mut used_rows: CudaSlice<i32> = device.zeros(used_rows)?;
        device.group_rows(
            &kernel,
            GroupRowsArgs {
                expert_of_row: expert_of_row.as_view(),
                sorted_rows: sorted_rows.as_view_mut(),
                block_expert: block_expert.as_view_mut(),
                used_rows: used_rows.as_view_mut(),
            },
        )?;
        device.synchronize()
    };
    launch(80, 5, 1).unwrap();
    launch(96, 6, 1).unwrap();
    assert_sizes([
        ("length of block_expert", launch(64, 4, 1)),
        ("length of sorted_rows", launch(79, 5, 1)),
        ("length of used_rows", launch(80, 5, 2)),
    ]);
}

#[test]
fn every_size_of_a_sum_is_checked() {
    let device = device();
    let kernel = CombineExperts::compile(&device, CombineExpertsShape { width: 16, chosen: 2 }).unwrap();
    let launch = |rows: usize, weights: usize, output: usize| {
        let rows: CudaSlice<u16> = device.zeros(rows)?;
        let weights: CudaSlice<f32> = device.zeros(weights)?;
        let mut result: CudaSlice<u16> = device.zeros(output)?;
        device.combine_experts(
            &kernel,
            CombineExpertsArgs {
                rows: Rows { values: rows.as_view(), stride: 24 },
                weights: weights.as_view(),
                tokens: 3,
                output: RowsMut { values: result.as_view_mut(), stride: 16 },
            },
        )?;
        device.synchronize()
    };
    launch(136, 6, 48).unwrap();
    assert_sizes([
        ("length of rows", launch(135, 6, 48)),
        ("length of weights", launch(136, 5, 48)),
        ("length of output", launch(136, 6, 47)),
    ]);
}
