//! The problems that the operations beside attention and matrix products must solve, on whatever device.

use kernels::cuda::check::{
    ArgmaxProblem, CombineProblem, GatedDeltaProblem, GatedDeltaRun, GatherProblem, GroupRoutingProblem,
    GroupingProblem, MergeProblem, NormProblem, PageCopyProblem, PoolOrder, RopeProblem, RoutingProblem, SampleProblem,
    ShapeLogitsProblem, SiluMulProblem, WeightFormat,
};
use kernels::cuda::{
    Argmax, CombineExperts, CombineExpertsShape, CopyPages, CudaDevice, GatedDelta, GatedDeltaShape, GatherRows,
    GatherRowsShape, GroupRows, GroupRowsShape, HeadNorm, MergeStates, MergeStatesShape, RmsNorm, RmsNormShape,
    RopeKvWrite, RopeKvWriteShape, RouteExperts, RouteExpertsShape, RouteGroups, RouteGroupsShape, Sample, ShapeLogits,
    SiluMul, SiluMulShape,
};

use crate::cases::{assert_near, assert_solved};

/// What solves problems on a device, and panics if a result is wrong.
pub type Operation = fn(&CudaDevice);

/// Every problem of this file, by name.
pub const ALL: [(&str, Operation); 18] = [
    ("norms", |device| norms(device, &[1, 8, 64, 111, 500, 1024, 3072, 4096], 19)),
    ("norms of wide rows", |device| norms(device, &[16384, 40960, 33001], 2)),
    ("gathers", gathers),
    ("rotations", |device| rotations(device, HeadNorm::None)),
    ("rotations with a norm of heads", |device| rotations(device, HeadNorm::PerHead)),
    ("rotations with a norm of all heads", |device| rotations(device, HeadNorm::AllHeads)),
    ("elementwise", elementwise),
    ("likeliest", likeliest),
    ("page_copies", page_copies),
    ("routings", routings),
    ("group_routings", group_routings),
    ("groupings", groupings),
    ("combinations", combinations),
    ("draws", draws),
    ("shaped_logits", shaped_logits),
    ("merges", merges),
    ("gated_delta_steps", gated_delta_steps),
    ("gated_delta_runs", gated_delta_runs),
];

/// Normalises rows of widths that are read eight elements at a time and one at a time, that fit the registers and that
/// do not; with and without the addition before it, with weights of either format, dense and not.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn norms(device: &CudaDevice, widths: &[usize], rows: usize) {
    for (index, &width) in widths.iter().enumerate() {
        let shape = RmsNormShape { width };
        let kernel = RmsNorm::compile(device, shape).unwrap();
        let gap = if width.is_multiple_of(8) { 8 } else { 3 };
        for (variant, kind) in [
            (false, WeightFormat::Bf16),
            (true, WeightFormat::F32),
            (true, WeightFormat::Bf16),
            (false, WeightFormat::F32),
        ]
        .into_iter()
        .enumerate()
        {
            let seed = (width * 10 + variant) as u64;
            println!("norm, {shape:?}, {rows} rows, {kind:?}, seed {seed}");
            let problem = NormProblem::random(shape, rows, kind, gap * ((index + variant) % 2), seed);
            let found = problem.run(device, &kernel).unwrap();
            assert_near(&problem.compare(&found));
            assert_eq!(found.residual, problem.reference().residual, "the residual stream");
            assert!(found.guards_intact, "wrote outside its results");
        }
    }
}

/// Gathers rows that exist and rows that do not.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn gathers(device: &CudaDevice) {
    for (index, (width, table_rows, rows)) in
        [(8_usize, 1, 1), (7, 5, 12), (500, 30, 19), (1024, 9, 9), (2048, 3, 40), (3000, 4, 10), (64, 6, 0)]
            .into_iter()
            .enumerate()
    {
        let shape = GatherRowsShape { width };
        let kernel = GatherRows::compile(device, shape).unwrap();
        let gap = index % 2 * if width.is_multiple_of(8) { 16 } else { 5 };
        for unsigned in [false, true] {
            println!("gather, {shape:?}, {rows} of {table_rows}, unsigned {unsigned}, seed {index}");
            let problem = GatherProblem::random(shape, (table_rows, rows), unsigned, gap, index as u64);
            let (found, guards_intact) = problem.run(device, &kernel).unwrap();
            assert_eq!(found, problem.reference());
            assert!(guards_intact, "wrote outside its result");
        }
    }
}

/// Rotates queries and keys and writes keys and values: every kind of normalisation, with and without clipping, heads of
/// one and of several accesses, both orders of pools, padding among the tokens.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn rotations(device: &CudaDevice, norm: HeadNorm) {
    let positions =
        [Some(0), Some(15), Some(99), None, Some(1000), Some(4), Some(203), None, Some(7), Some(8), Some(9), Some(1)];
    for (index, (head_dim, query_heads, kv_heads, page_size)) in
        [(64, 8, 2, 16), (128, 5, 1, 1), (80, 4, 4, 8), (256, 2, 1, 4), (512, 1, 1, 2), (8, 17, 3, 16)]
            .into_iter()
            .enumerate()
    {
        let shape = RopeKvWriteShape { head_dim, query_heads, kv_heads, page_size, norm };
        let kernel = RopeKvWrite::compile(device, shape).unwrap();
        let order = [PoolOrder::TokenMajor, PoolOrder::HeadMajor][index % 2];
        let format = [WeightFormat::Bf16, WeightFormat::F32][index / 2 % 2];
        let clip = [None, Some(0.75)][index / 3 % 2];
        for (tokens, seed) in [(positions.len(), index), (1, index + 100), (0, index + 200)] {
            println!("rope, {shape:?}, {tokens} tokens, {order:?}, {format:?}, clip {clip:?}, seed {seed}");
            let problem = RopeProblem::random(shape, &positions[..tokens], (order, format), clip, seed as u64);
            let found = problem.run(device, &kernel).unwrap();
            for comparison in problem.compare(&found) {
                assert_near(&comparison);
            }
            assert!(found.guards_intact, "wrote outside its results");
        }
    }
}

/// Gated activations of rows that are read eight elements at a time and one at a time, dense and not.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn elementwise(device: &CudaDevice) {
    for (index, (width, rows)) in
        [(8_usize, 1), (128, 19), (111, 5), (1, 3), (768, 4), (3000, 2), (64, 0)].into_iter().enumerate()
    {
        let gap = index % 2 * if width.is_multiple_of(8) { 8 } else { 3 };
        println!("elementwise, width {width}, {rows} rows, gap {gap}, seed {index}");
        let shape = SiluMulShape { width };
        let problem = SiluMulProblem::random(shape, rows, gap, index as u64);
        let (found, guards_intact) = problem.run(device, &SiluMul::compile(device, shape).unwrap()).unwrap();
        assert_near(&problem.compare(&found));
        assert!(guards_intact, "wrote outside its result");
    }
}

/// The likeliest tokens of small and large vocabularies, among rows that have none.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn likeliest(device: &CudaDevice) {
    let kernel = Argmax::compile(device).unwrap();
    for (seed, (rows, vocabulary, padding)) in
        [(14, 111, 9), (7, 32000, 0), (3, 513, 1), (9, 2, 0), (1, 1, 0), (0, 5, 0), (2, 128_256, 64)]
            .into_iter()
            .enumerate()
    {
        for format in [WeightFormat::Bf16, WeightFormat::F32] {
            println!("argmax, {rows} rows of {vocabulary}, {padding} between, {format:?}, seed {seed}");
            let problem = ArgmaxProblem::random(rows, vocabulary, padding, format, seed as u64);
            let (found, guards_intact) = problem.run(device, &kernel).unwrap();
            assert_eq!(found, problem.reference());
            assert!(guards_intact, "wrote outside its result");
        }
    }
}

/// Copies of pages of one access and of more than a block takes at once.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn page_copies(device: &CudaDevice) {
    let kernel = CopyPages::compile(device).unwrap();
    for (seed, (pages, length, gap)) in [(9, 8, 0), (5, 2048, 16), (4, 40_000, 0), (1, 64, 8)].into_iter().enumerate() {
        println!("page copies, {pages} pages of {length}, gap {gap}, seed {seed}");
        let problem = PageCopyProblem::random(pages, length, gap, seed as u64);
        let (found, guards_intact) = problem.run(device, &kernel).unwrap();
        assert!(found == problem.reference(), "pools differ");
        assert!(guards_intact, "wrote outside the pools");
    }
}

/// Choices among few and many experts, of one and of all, with weights of either kind.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn routings(device: &CudaDevice) {
    for (seed, (experts, chosen)) in [
        (8, 2),
        (8, 4),
        (31, 8),
        (32, 8),
        (40, 8),
        (60, 4),
        (71, 8),
        (128, 8),
        (1, 1),
        (129, 33),
        (160, 160),
        (1024, 8),
    ]
    .into_iter()
    .enumerate()
    {
        for (renormalise, format) in [(false, WeightFormat::Bf16), (true, WeightFormat::F32)] {
            let shape = RouteExpertsShape { experts, chosen, renormalise };
            println!("routing, {shape:?}, {format:?}, seed {seed}");
            let kernel = RouteExperts::compile(device, shape).unwrap();
            let problem = RoutingProblem::random(shape, 23, seed % 3, format, seed as u64);
            let found = problem.run(device, &kernel).unwrap();
            assert_eq!(found.experts, problem.reference().experts);
            assert_near(&problem.compare(&found));
            assert!(found.guards_intact, "wrote outside its results");
        }
    }
}

/// Choices by sigmoid among groups of few experts and of many, of one group and of all, with a bias and without.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn group_routings(device: &CudaDevice) {
    for (seed, (experts, groups, chosen_groups, chosen)) in [
        (256, 8, 4, 8),
        (384, 1, 1, 8),
        (160, 8, 3, 6),
        (64, 32, 5, 10),
        (72, 2, 1, 36),
        (16, 4, 4, 16),
        (1, 1, 1, 1),
        (1024, 16, 2, 4),
    ]
    .into_iter()
    .enumerate()
    {
        let renormalise = seed % 3 > 0;
        let shape =
            RouteGroupsShape { experts: RouteExpertsShape { experts, chosen, renormalise }, groups, chosen_groups };
        println!("routing, {shape:?}, seed {seed}");
        let kernel = RouteGroups::compile(device, shape).unwrap();
        for is_biased in [true, false] {
            let problem = GroupRoutingProblem::random(shape, 19, seed % 2, is_biased, seed as u64);
            let found = problem.run(device, &kernel).unwrap();
            assert_eq!(found.experts, problem.reference().experts);
            assert_near(&problem.compare(&found));
            assert!(found.guards_intact, "wrote outside its results");
        }
    }
}

/// Sorts of no rows and of many among few experts and many.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn groupings(device: &CudaDevice) {
    for (seed, (experts, block_rows, rows)) in [
        (3, 16, 0),
        (3, 16, 1),
        (1, 64, 65),
        (8, 32, 2500),
        (32, 128, 300),
        (128, 64, 257),
        (256, 16, 40),
        (257, 16, 1000),
        (1024, 16, 2000),
    ]
    .into_iter()
    .enumerate()
    {
        let shape = GroupRowsShape { experts, block_rows };
        println!("grouping, {shape:?}, {rows} rows, seed {seed}");
        let problem = GroupingProblem::random(shape, rows, seed % 2, seed as u64);
        let (found, guards_intact) = problem.run(device, &GroupRows::compile(device, shape).unwrap()).unwrap();
        assert_eq!(found, problem.reference().unwrap());
        assert!(guards_intact, "wrote outside its results");
    }
}

/// Sums over one expert and over several, of rows that are read eight elements at a time and one at a time.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn combinations(device: &CudaDevice) {
    for (seed, (width, chosen, tokens)) in
        [(64_usize, 2, 5), (2048, 8, 3), (111, 3, 4), (8, 1, 1), (1032, 4, 2), (16, 6, 0)].into_iter().enumerate()
    {
        let shape = CombineExpertsShape { width, chosen };
        let gap = seed % 2 * if width.is_multiple_of(8) { 8 } else { 3 };
        println!("combination, {shape:?}, {tokens} tokens, gap {gap}, seed {seed}");
        let problem = CombineProblem::random(shape, tokens, gap, seed as u64);
        let (found, guards_intact) = problem.run(device, &CombineExperts::compile(device, shape).unwrap()).unwrap();
        assert_near(&problem.compare(&found));
        assert!(guards_intact, "wrote outside its result");
    }
}

/// Draws from vocabularies of one token to many thousands, with all settings.
///
/// # Panics
///
/// If a token is wrong or the device fails.
pub fn draws(device: &CudaDevice) {
    let kernel = Sample::compile(device).unwrap();
    for (seed, (rows, vocabulary, padding)) in
        [(44, 5, 3), (55, 111, 0), (22, 1500, 1), (6, 32_000, 0), (3, 1, 2), (0, 7, 0)].into_iter().enumerate()
    {
        println!("draws, {rows} rows of {vocabulary}, {padding} between, seed {seed}");
        let problem = SampleProblem::random(rows, vocabulary, padding, seed as u64);
        let (found, guards_intact) = problem.run(device, &kernel).unwrap();
        assert_eq!(problem.first_wrong(&found), None, "row, token, right tokens");
        assert!(guards_intact, "wrote outside its result");
    }
}

/// Penalties of long and empty histories, and masks that are longer and shorter than the vocabulary.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn shaped_logits(device: &CudaDevice) {
    let kernels = ShapeLogits::compile(device).unwrap();
    for (seed, (rows, vocabulary, padding, mask_tokens)) in
        [(9, 111, 1, 111), (5, 600, 0, 500), (4, 64, 5, 96), (12, 1000, 24, 1000), (1, 1, 0, 1)].into_iter().enumerate()
    {
        println!("logits, {rows} rows of {vocabulary}, {padding} between, masks of {mask_tokens}, seed {seed}");
        let problem = ShapeLogitsProblem::random(rows, vocabulary, padding, mask_tokens, seed as u64);
        let (found, guards_intact) = problem.run(device, &kernels).unwrap();
        assert_near(&problem.compare(&found));
        assert!(guards_intact && problem.gaps_are_intact(&found), "wrote outside its results");
    }
}

/// Joins parts of attention, among them parts that saw nothing; with and without sinks, dense and not.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn merges(device: &CudaDevice) {
    for (seed, (head_dim, query_heads, sinks, rows)) in [
        (128, 8, false, 5),
        (64, 3, true, 29),
        (512, 2, false, 7),
        (8, 1, true, 30),
        (1024, 1, true, 8),
        (256, 4, false, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let shape = MergeStatesShape { head_dim, query_heads, sinks };
        println!("merge, {shape:?}, {rows} rows, seed {seed}");
        let problem = MergeProblem::random(shape, rows, seed % 2 * 8, seed as u64);
        let found = problem.run(device, &MergeStates::compile(device, shape).unwrap()).unwrap();
        assert_solved(&problem.compare(&found), found.guards_intact);
    }
}

/// Steps of the gated delta rule: heads that share keys and that do not, of every size, padding among the requests.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn gated_delta_steps(device: &CudaDevice) {
    for (seed, ((key_heads, value_heads, key_dim, value_dim, normalise), requests)) in [
        ((2, 4, 128, 128, true), 5),
        ((1, 3, 64, 32, true), 7),
        ((3, 3, 64, 160, false), 2),
        ((1, 8, 128, 256, false), 1),
        ((1, 1, 128, 64, true), 0),
    ]
    .into_iter()
    .enumerate()
    {
        let shape = GatedDeltaShape { key_heads, value_heads, key_dim, value_dim, normalise };
        println!("gated delta steps, {shape:?}, {requests} requests, seed {seed}");
        let step = |request| GatedDeltaRun { tokens: 1, continues: (request % 3 != 1).then_some(true) };
        let steps: Vec<_> = (0..requests).map(step).collect();
        let problem = GatedDeltaProblem::random(shape, &steps, 0, seed % 2 * 8, seed as u64);
        let found = problem.run_decode(device, &GatedDelta::compile(device, shape).unwrap()).unwrap();
        assert_solved(&problem.compare_decode(&found), found.guards_intact);
    }
}

/// Runs of the gated delta rule around the boundaries of chunks, with and without a state before, with padding among them
/// and after them.
///
/// # Panics
///
/// If a result is wrong or the device fails.
pub fn gated_delta_runs(device: &CudaDevice) {
    let run = |(tokens, continues)| GatedDeltaRun { tokens, continues };
    let many = [
        (1, Some(true)),
        (63, Some(false)),
        (0, Some(true)),
        (64, Some(true)),
        (70, None),
        (65, Some(true)),
        (130, Some(false)),
        (0, Some(false)),
        (16, Some(false)),
    ]
    .map(run);
    let few = [(75, Some(true)), (2, None), (17, Some(false))].map(run);
    let long = [(300, Some(false))].map(run);
    for (seed, ((key_heads, value_heads, key_dim, value_dim, normalise), runs, padding)) in [
        ((1, 2, 128, 128, true), &many[..], 3),
        ((1, 2, 64, 32, true), &many, 0),
        ((2, 2, 64, 96, false), &few, 1),
        ((1, 1, 128, 256, false), &few, 0),
        ((1, 1, 64, 64, true), &long, 0),
        ((1, 1, 64, 32, true), &[], 5),
    ]
    .into_iter()
    .enumerate()
    {
        let shape = GatedDeltaShape { key_heads, value_heads, key_dim, value_dim, normalise };
        println!("gated delta runs, {shape:?}, {runs:?}, {padding} of padding, seed {seed}");
        let problem = GatedDeltaProblem::random(shape, runs, padding, seed % 2 * 8, seed as u64);
        let found = problem.run_prefill(device, &GatedDelta::compile(device, shape).unwrap()).unwrap();
        assert_solved(&problem.compare_prefill(&found), found.guards_intact);
    }
}
