//! Operations on rows that are far apart.

use kernels::cuda::check::{
    CombineProblem, GatedDeltaProblem, GatedDeltaRun, GatherProblem, MergeProblem, NormProblem, PoolOrder, RopeProblem,
    SiluMulProblem, WeightFormat,
};
use kernels::cuda::{
    CombineExperts, CombineExpertsShape, GatedDelta, GatedDeltaShape, GatherRows, GatherRowsShape, HeadNorm,
    MergeStates, MergeStatesShape, RmsNorm, RmsNormShape, RopeKvWrite, RopeKvWriteShape, SiluMul, SiluMulShape,
};

use super::{FAR, assert_right, far_device};

/// Three rows: the last is too far for an unsigned number too, and outputs are twice or three times as far apart.
const ROWS: usize = 3;

#[test]
fn gathered_rows() {
    let device = far_device();
    for width in [24, 7] {
        let shape = GatherRowsShape { width };
        let kernel = GatherRows::compile(&device, shape).unwrap();
        let problem = GatherProblem::random(shape, (ROWS, 6), false, FAR, 61);
        let (found, guards_intact) = problem.run(&device, &kernel).unwrap();
        assert_eq!(found, problem.reference());
        assert!(guards_intact);
    }
}

/// Numbers of rows that are themselves large.
#[test]
fn rows_of_a_long_table() {
    use kernels::cuda::{GatherRowsArgs, RowNumbers, Rows, RowsMut};
    let device = far_device();
    let kernel = GatherRows::compile(&device, GatherRowsShape { width: 8 }).unwrap();
    let table_rows = (1 << 30) + 7;
    let numbers = [1 << 29, (1 << 30) + 6, 5, 1 << 28];
    let row = |index: usize| [index as u16 + 1; 8];
    let rows: Vec<[u16; 8]> = (0..numbers.len()).map(row).collect();
    let places: Vec<(usize, &[u16])> = numbers.iter().zip(&rows).map(|(&at, row)| (at * 8, &row[..])).collect();
    let table = super::bf16_buffer(&device, table_rows * 8, &places);
    let numbers = device.upload(&numbers.map(|number| number as u32)).unwrap();
    let mut output = device.zeros::<u16>(rows.len() * 8).unwrap();
    device
        .gather_rows(
            &kernel,
            GatherRowsArgs {
                table: Rows { values: table.as_view(), stride: 8 },
                table_rows,
                rows: RowNumbers::U32(numbers.as_view()),
                output: RowsMut { values: output.as_view_mut(), stride: 8 },
            },
        )
        .unwrap();
    assert_eq!(device.download(&output).unwrap(), rows.concat());
}

#[test]
fn activations() {
    let device = far_device();
    for width in [16, 7] {
        let shape = SiluMulShape { width };
        let problem = SiluMulProblem::random(shape, ROWS, FAR, 62);
        let (found, guards_intact) = problem.run(&device, &SiluMul::compile(&device, shape).unwrap()).unwrap();
        assert_right(&[problem.compare(&found)], guards_intact);
    }
}

#[test]
fn normalised_rows() {
    let device = far_device();
    for (width, adds) in [(136, true), (7, false)] {
        let shape = RmsNormShape { width };
        let problem = NormProblem::random(shape, ROWS, (adds, WeightFormat::F32), FAR, 63);
        let found = problem.run(&device, &RmsNorm::compile(&device, shape).unwrap()).unwrap();
        assert_right(&[problem.compare(&found)], found.guards_intact);
        assert_eq!(found.residual, problem.reference().residual);
    }
}

#[test]
fn sums_over_experts() {
    let device = far_device();
    for width in [16, 7] {
        let shape = CombineExpertsShape { width, chosen: 2 };
        let problem = CombineProblem::random(shape, ROWS, FAR, 64);
        let (found, guards_intact) = problem.run(&device, &CombineExperts::compile(&device, shape).unwrap()).unwrap();
        assert_right(&[problem.compare(&found)], guards_intact);
    }
}

#[test]
fn merged_parts_with_strides_of_their_own() {
    let device = far_device();
    let shape = MergeStatesShape { head_dim: 16, query_heads: 3, sinks: true };
    let problem = MergeProblem::random(shape, 7, FAR, 65);
    let found = problem.run(&device, &MergeStates::compile(&device, shape).unwrap()).unwrap();
    assert_right(&problem.compare(&found), found.guards_intact);
}

#[test]
fn rows_and_slots_of_the_gated_delta_rule() {
    let device = far_device();
    let shape = GatedDeltaShape { key_heads: 1, value_heads: 2, key_dim: 64, value_dim: 32, normalise: true };
    let kernel = GatedDelta::compile(&device, shape).unwrap();
    let run = |tokens, continues| GatedDeltaRun { tokens, continues };
    // A state has 4096 elements.
    let distance = FAR / 4096 + 1;
    let steps = [run(1, Some(true)), run(1, None), run(1, Some(true))];
    let problem = GatedDeltaProblem::random(shape, &steps, 0, FAR, 66).with_distant_slots(distance);
    let found = problem.run_decode(&device, &kernel).unwrap();
    assert_right(&problem.compare_decode(&found), found.guards_intact);
    let runs = [run(3, Some(true)), run(2, None), run(2, Some(false))];
    let problem = GatedDeltaProblem::random(shape, &runs, 1, FAR, 67).with_distant_slots(distance);
    let found = problem.run_prefill(&device, &kernel).unwrap();
    assert_right(&problem.compare_prefill(&found), found.guards_intact);
}

#[test]
fn rotated_rows_and_their_places_in_pools() {
    let device = far_device();
    for (norm, order) in [(HeadNorm::PerHead, PoolOrder::TokenMajor), (HeadNorm::AllHeads, PoolOrder::HeadMajor)] {
        let shape = RopeKvWriteShape { head_dim: 16, query_heads: 3, kv_heads: 2, page_size: 4, norm };
        let positions = [Some(3), Some(0), None, Some(7), Some(2), Some(5)];
        let problem = RopeProblem::random(shape, &positions, (order, WeightFormat::F32), None, 68)
            .with_gap(FAR)
            // A pool has sixteen slots of 32 elements and the first token the last of them.
            .stretched(FAR / 256);
        let found = problem.run(&device, &RopeKvWrite::compile(&device, shape).unwrap()).unwrap();
        assert_right(&problem.compare(&found), found.guards_intact);
    }
}
