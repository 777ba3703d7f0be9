//! The operations give the same bits in whatever order their warps run, and whenever the work of the stream is done. In
//! a process of its own: the orders are the emulator's, not the test's.

use kernel_tests::{Emulator, device};
use kernels::cuda::check::{
    GatedDeltaProblem, GatedDeltaRun, GroupingProblem, NormProblem, PoolOrder, RopeProblem, RoutingProblem,
    SampleProblem, WeightFormat,
};
use kernels::cuda::{
    GatedDelta, GatedDeltaShape, GroupRows, GroupRowsShape, HeadNorm, RmsNorm, RmsNormShape, RopeKvWrite,
    RopeKvWriteShape, RouteExperts, RouteExpertsShape, Sample,
};

const SEEDS: [u64; 6] = [1, 2, 3, 40, 500, 6000];

#[test]
fn results_do_not_depend_on_the_order_of_warps_nor_on_when_work_is_done() {
    let emulator = Emulator::open();
    let device = device();

    let shape = RmsNormShape { width: 3072 };
    let norm = NormProblem::random(shape, 2, (true, WeightFormat::Bf16), 0, 51);
    let norm_kernel = RmsNorm::compile(&device, shape).unwrap();
    let expected_norm = norm.run(&device, &norm_kernel).unwrap();

    let shape =
        RopeKvWriteShape { head_dim: 64, query_heads: 16, kv_heads: 4, page_size: 16, norm: HeadNorm::AllHeads };
    let kind = (PoolOrder::TokenMajor, WeightFormat::F32);
    let rope = RopeProblem::random(shape, &[Some(3), None, Some(90)], kind, None, 52);
    let rope_kernel = RopeKvWrite::compile(&device, shape).unwrap();
    let expected_rope = rope.run(&device, &rope_kernel).unwrap();

    let shape = RouteExpertsShape { experts: 60, chosen: 4, renormalise: false };
    let routing = RoutingProblem::random(shape, 11, 0, WeightFormat::F32, 53);
    let routing_kernel = RouteExperts::compile(&device, shape).unwrap();
    let expected_routing = routing.run(&device, &routing_kernel).unwrap();

    let shape = GroupRowsShape { experts: 8, block_rows: 16 };
    let grouping = GroupingProblem::random(shape, 700, 0, 54);
    let grouping_kernel = GroupRows::compile(&device, shape).unwrap();
    let expected_grouping = grouping.run(&device, &grouping_kernel).unwrap();

    let draws = SampleProblem::random(11, 1500, 0, 55);
    let draw_kernel = Sample::compile(&device).unwrap();
    let expected_draws = draws.run(&device, &draw_kernel).unwrap();

    let shape = GatedDeltaShape { key_heads: 1, value_heads: 2, key_dim: 64, value_dim: 32, normalise: true };
    let run = |tokens| GatedDeltaRun { tokens, continues: Some(tokens > 1) };
    let runs = GatedDeltaProblem::random(shape, &[run(130), run(1), run(20)], 1, 0, 56);
    let delta_kernel = GatedDelta::compile(&device, shape).unwrap();
    let expected_runs = runs.run_prefill(&device, &delta_kernel).unwrap();

    for seed in SEEDS {
        println!("schedule seed {seed}");
        emulator.set_schedule(seed);
        emulator.defer(seed);
        let found = norm.run(&device, &norm_kernel).unwrap();
        assert_eq!(found.output, expected_norm.output, "schedule seed {seed}");
        let found = rope.run(&device, &rope_kernel).unwrap();
        assert_eq!(found.query, expected_rope.query, "schedule seed {seed}");
        assert_eq!(found.keys, expected_rope.keys, "schedule seed {seed}");
        let found = routing.run(&device, &routing_kernel).unwrap();
        assert_eq!(found.experts, expected_routing.experts, "schedule seed {seed}");
        assert_eq!(found.weights, expected_routing.weights, "schedule seed {seed}");
        let found = grouping.run(&device, &grouping_kernel).unwrap();
        assert_eq!(found, expected_grouping, "schedule seed {seed}");
        let found = runs.run_prefill(&device, &delta_kernel).unwrap();
        assert_eq!(found.output, expected_runs.output, "schedule seed {seed}");
        let bits = |states: &[f64]| states.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found.states), bits(&expected_runs.states), "schedule seed {seed}");
        let found = draws.run(&device, &draw_kernel).unwrap();
        assert_eq!(found, expected_draws, "schedule seed {seed}");
    }
}
