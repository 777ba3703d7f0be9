use kernel_tests::{Emulator, device, operation_cases};
use kernels::cuda::check::{Comparison, GatedDeltaProblem, GatedDeltaResult, GatedDeltaRun};
use kernels::cuda::{
    CudaDevice, CudaError, CudaSlice, GatedDelta, GatedDeltaInputs, GatedDeltaRuns, GatedDeltaShape, GatedDeltaStates,
    GatedDeltaWorkspace, Rows, RowsMut,
};

#[test]
fn steps_match_float64() {
    operation_cases::gated_delta_steps(&device());
}

#[test]
fn runs_match_float64_token_by_token() {
    operation_cases::gated_delta_runs(&device());
}

const SHAPE: GatedDeltaShape =
    GatedDeltaShape { key_heads: 1, value_heads: 2, key_dim: 64, value_dim: 64, normalise: true };

fn run(tokens: usize, continues: bool) -> GatedDeltaRun {
    GatedDeltaRun { tokens, continues: Some(continues) }
}

/// The bits of the results of some tokens.
fn bits(result: &GatedDeltaResult, tokens: std::ops::Range<usize>) -> Vec<u64> {
    let width = SHAPE.value_heads * SHAPE.value_dim;
    result.output[tokens.start * width..tokens.end * width].iter().map(|value| value.to_bits()).collect()
}

/// A result must not change with what it is batched with, nor by a cut between two chunks.
#[test]
fn a_run_has_the_same_bits_alone_and_in_a_batch_and_cut_at_a_chunk() {
    let device = device();
    let kernel = GatedDelta::compile(&device, SHAPE).unwrap();
    let batch = GatedDeltaProblem::random(SHAPE, &[run(5, true), run(150, false), run(70, true)], 2, 0, 5);
    let all = batch.run_prefill(&device, &kernel).unwrap();
    for (request, tokens) in [(0, 0..5), (1, 5..155), (2, 155..225)] {
        let alone = batch.beginning(request, tokens.len()).run_prefill(&device, &kernel).unwrap();
        assert_eq!(bits(&alone, 0..tokens.len()), bits(&all, tokens), "request {request}");
    }
    for cut in [64, 128] {
        let beginning = batch.beginning(1, cut).run_prefill(&device, &kernel).unwrap();
        let rest = batch.rest(1, cut, &beginning).run_prefill(&device, &kernel).unwrap();
        assert_eq!(bits(&beginning, 0..cut), bits(&all, 5..5 + cut), "cut at {cut}");
        assert_eq!(bits(&rest, 0..150 - cut), bits(&all, 5 + cut..155), "cut at {cut}");
        let whole = batch.beginning(1, 150).run_prefill(&device, &kernel).unwrap();
        let of = |result: &GatedDeltaResult| result.states.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(of(&rest), of(&whole), "cut at {cut}");
    }
}

/// A step of decoding and a run of one token are the same but for rounding.
#[test]
fn a_step_is_a_run_of_one_token() {
    let device = device();
    let kernel = GatedDelta::compile(&device, SHAPE).unwrap();
    let problem = GatedDeltaProblem::random(SHAPE, &[run(1, true), run(1, true)], 0, 8, 6);
    let step = problem.run_decode(&device, &kernel).unwrap();
    assert!(problem.compare_prefill(&step).iter().all(Comparison::holds));
    let run = problem.run_prefill(&device, &kernel).unwrap();
    assert!(problem.compare_prefill(&run).iter().all(Comparison::holds));
}

/// The host cannot see them, so the kernels must bear whatever they are.
#[test]
fn starts_that_make_no_sense_write_nothing_outside_the_results() {
    let device = device();
    let kernel = GatedDelta::compile(&device, SHAPE).unwrap();
    let problem = GatedDeltaProblem::random(SHAPE, &[run(70, true), run(40, true)], 0, 0, 7);
    // Runs that overlap are one block's and another's.
    let emulator = Emulator::open();
    emulator.allow_block_races(true);
    for starts in [[0, 70, 120], [-7, 70, 110], [110, 70, 0], [0, 60, i32::MAX], [i32::MIN, 70, i32::MIN]] {
        let found = problem.clone().with_starts(&starts).run_prefill(&device, &kernel).unwrap();
        assert!(found.guards_intact, "{starts:?}");
    }
    emulator.allow_block_races(false);
}

/// Lengths of a batch of three tokens of two requests, each of which a test may change.
#[derive(Clone, Copy)]
struct Sizes {
    query: usize,
    value_stride: usize,
    b: usize,
    dt_bias: usize,
    states: usize,
    /// Elements to skip at the start of the states.
    shift: usize,
    starts: usize,
    continues: usize,
    longest: usize,
    workspace_requests: usize,
    output: usize,
}

const RIGHT: Sizes = Sizes {
    query: 3 * 64,
    value_stride: 128,
    b: 6,
    dt_bias: 2,
    states: 4 * 2 * 64 * 64,
    shift: 0,
    starts: 3,
    continues: 2,
    longest: 3,
    workspace_requests: 2,
    output: 3 * 128,
};

fn launch(device: &CudaDevice, kernel: &GatedDelta, sizes: Sizes) -> Result<(), CudaError> {
    let query: CudaSlice<u16> = device.zeros(sizes.query)?;
    let key: CudaSlice<u16> = device.zeros(3 * 64)?;
    let value: CudaSlice<u16> = device.zeros(3 * 128)?;
    let (a, b): (CudaSlice<u16>, CudaSlice<u16>) = (device.zeros(6)?, device.zeros(sizes.b)?);
    let (a_log, dt_bias): (CudaSlice<f32>, CudaSlice<f32>) = (device.zeros(2)?, device.zeros(sizes.dt_bias)?);
    let mut states: CudaSlice<f32> = device.zeros(sizes.states + sizes.shift)?;
    let slots: CudaSlice<i32> = device.upload(&[3, 0])?;
    let starts: CudaSlice<i32> = device.zeros(sizes.starts)?;
    let continues: CudaSlice<i32> = device.zeros(sizes.continues)?;
    let mut output: CudaSlice<u16> = device.zeros(sizes.output)?;
    let mut workspace = GatedDeltaWorkspace::new(device, &SHAPE, sizes.workspace_requests, 3)?;
    device.gated_delta_prefill(
        kernel,
        &GatedDeltaInputs {
            query: Rows { values: query.as_view(), stride: 64 },
            key: Rows { values: key.as_view(), stride: 64 },
            value: Rows { values: value.as_view(), stride: sizes.value_stride },
            a: Rows { values: a.as_view(), stride: 2 },
            b: Rows { values: b.as_view(), stride: 2 },
            a_log: a_log.as_view(),
            dt_bias: dt_bias.as_view(),
            scale: 1.0,
        },
        &GatedDeltaRuns { starts: starts.as_view(), continues: continues.as_view(), tokens: 3, longest: sizes.longest },
        GatedDeltaStates { values: states.slice_mut(sizes.shift..), slots: slots.as_view() },
        &mut workspace,
        RowsMut { values: output.as_view_mut(), stride: 128 },
    )?;
    device.synchronize()
}

#[test]
fn every_size_is_checked() {
    let device = device();
    let kernel = GatedDelta::compile(&device, SHAPE).unwrap();
    launch(&device, &kernel, RIGHT).unwrap();
    for (what, sizes) in [
        ("length of query", Sizes { query: 3 * 64 - 1, ..RIGHT }),
        ("stride of value", Sizes { value_stride: 120, ..RIGHT }),
        ("length of b", Sizes { b: 5, ..RIGHT }),
        ("length of dt_bias", Sizes { dt_bias: 3, ..RIGHT }),
        ("length of the states", Sizes { states: 4 * 2 * 64 * 64 - 1, ..RIGHT }),
        ("the address of the states modulo 16", Sizes { shift: 2, ..RIGHT }),
        ("length of starts", Sizes { starts: 2, ..RIGHT }),
        ("length of continues", Sizes { continues: 3, ..RIGHT }),
        ("longest", Sizes { longest: 4, ..RIGHT }),
        ("length of the workspace", Sizes { workspace_requests: 1, ..RIGHT }),
        ("length of output", Sizes { output: 3 * 128 - 1, ..RIGHT }),
    ] {
        let error = launch(&device, &kernel, sizes).unwrap_err();
        assert!(matches!(error, CudaError::Size { what: found, .. } if found == what), "{what}: {error}");
    }
}
