//! What attention and matrix products do, counted. In a process of its own, one test at a time: the counters are the emulator's
//! and show the last kernel of all.

use kernel_tests::mutation::{alone, mutate};
use kernel_tests::{Emulator, device, roofline};
use kernels::cuda::check::{
    Bias, DecodeProblem, GatedDeltaProblem, GatedDeltaRun, GemmProblem, MlaDecodeProblem, PoolOrder, PrefillProblem,
    PrefillRequest, ProductSize, WeightFormat,
};
use kernels::cuda::{
    AttentionRules, DecodeAttention, DecodeAttentionShape, GatedDelta, GatedDeltaShape, Gemm, GemmTile, GemmTiles,
    MlaDecode, MlaDecodeShape, PrefillAttention, PrefillAttentionShape,
};

#[test]
fn no_access_of_prefill_to_shared_memory_waits_for_a_bank() {
    let _alone = alone();
    let device = device();
    let emulator = Emulator::open();
    for head_dim in [16, 32, 48, 64, 80, 96, 112, 128, 144, 192, 256] {
        let shape = PrefillAttentionShape { head_dim, query_heads: 6, kv_heads: 2, page_size: 16 };
        let kernel = PrefillAttention::compile(&device, shape, AttentionRules::default()).unwrap();
        let problem = PrefillProblem::random(
            shape,
            AttentionRules::default(),
            &[PrefillRequest { tokens: 30, context: Some(150) }],
            0,
            PoolOrder::TokenMajor,
            7,
        );
        problem.run(&device, &kernel).unwrap();
        assert_eq!(emulator.bank_conflicts(), 0, "heads of {head_dim}");
    }
}

/// What decode attention is for: it reads little beside every visible key and value once, with tensor cores and without, and
/// no access to shared memory waits for a bank.
#[test]
fn decode_reads_keys_and_values_once_and_no_bank_twice() {
    const CONTEXTS: [usize; 3] = [700, 64, 333];
    let _alone = alone();
    let device = device();
    let emulator = Emulator::open();
    let plain = [(32, 2), (32, 6), (64, 4), (128, 6), (256, 2)];
    let tensor = [(64, 8), (80, 8), (128, 8), (128, 32), (256, 8)];
    for (head_dim, query_heads) in plain.into_iter().chain(tensor) {
        let shape = DecodeAttentionShape { head_dim, query_heads, kv_heads: 2, page_size: 16, split_tokens: 1024 };
        for window in [None, Some(400)] {
            let rules = AttentionRules { window, ..AttentionRules::default() };
            let kernel = DecodeAttention::compile(&device, shape, rules).unwrap();
            let problem = DecodeProblem::random(shape, rules, &CONTEXTS.map(Some), PoolOrder::TokenMajor, 8);
            problem.run(&device, &kernel).unwrap();
            assert_eq!(emulator.bank_conflicts(), 0, "{shape:?}");
            let tokens: usize = CONTEXTS.iter().map(|&length| window.map_or(length, |window| length.min(window))).sum();
            let keys_and_values = tokens * 2 * head_dim * 2 * 2;
            let queries = CONTEXTS.len() * query_heads * head_dim * 2;
            let (read, least) = (emulator.global_load_bytes(), (keys_and_values + queries) as u64);
            println!("heads of {head_dim}, {query_heads} of them, window {window:?}: {read} bytes, at least {least}");
            assert!(read >= least && read * 100 <= least * 105, "{shape:?}: {read} bytes, at least {least}");
        }
    }
}

/// For few rows the weights are nearly all that a product reads.
#[test]
fn a_product_reads_its_weights_once() {
    let _alone = alone();
    let device = device();
    let emulator = Emulator::open();
    for (tile, rows, columns) in [(GemmTile::NARROW, 3, 200), (GemmTile::FEW, 16, 200), (GemmTile::SOME, 40, 130)] {
        let kernel = Gemm::compile(&device, GemmTiles::only(tile)).unwrap();
        let problem = GemmProblem::random(ProductSize { rows, columns, depth: 1000 }, Bias::None, 9);
        problem.run(&device, &kernel, WeightFormat::Bf16).unwrap();
        let elements = columns * 1000 + columns.div_ceil(tile.columns) * rows * 1000;
        assert_eq!(emulator.global_load_bytes(), 2 * elements as u64, "{tile:?}");
        assert_eq!(emulator.bank_conflicts(), 0, "{tile:?}");
    }
}

/// The problems of `docs/roofline.md`, smaller: what must be read is read once, within 5 %, and no access to shared memory
/// waits for a bank.
#[test]
fn decode_and_the_grouped_product_read_little_more_than_they_must() {
    let _alone = alone();
    let device = device();
    let emulator = Emulator::open();
    let counts = [
        roofline::decode(&device, &emulator, 16, 1024),
        roofline::decode(&device, &emulator, 32, 1024),
        roofline::product(&device, &emulator, 16, 512, 512),
        roofline::product(&device, &emulator, 64, 256, 1024),
    ];
    for count in &counts {
        assert_eq!(count.counters.bank_conflict_passes, 0, "{count:?}");
        assert!((0.0..=0.05).contains(&count.excess()), "{count:?}");
    }
}

/// The same for compressed keys and values, where all query heads of a block share a row and it is the value as well.
#[test]
fn decode_over_compressed_keys_reads_a_row_once_and_no_bank_twice() {
    const CONTEXTS: [usize; 3] = [700, 64, 333];
    let _alone = alone();
    let device = device();
    let emulator = Emulator::open();
    for (latent_dim, rope_dim) in [(512, 64), (256, 32), (128, 16), (384, 48)] {
        let shape = MlaDecodeShape { latent_dim, rope_dim, query_heads: 16, page_size: 16, split_tokens: 1024 };
        let kernel = MlaDecode::compile(&device, shape).unwrap();
        let problem = MlaDecodeProblem::random(shape, &CONTEXTS.map(Some), 9);
        problem.run(&device, &kernel).unwrap();
        assert_eq!(emulator.bank_conflicts(), 0, "{shape:?}");
        let rows = CONTEXTS.iter().sum::<usize>() + CONTEXTS.len() * shape.query_heads;
        let (read, least) = (emulator.global_load_bytes(), (rows * (latent_dim + rope_dim) * 2) as u64);
        println!("rows of {latent_dim} and {rope_dim}: {read} bytes, at least {least}");
        assert!(read >= least && read * 100 <= least * 105, "{shape:?}: {read} bytes, at least {least}");
    }
}

/// Steps read and write every state once. Runs meet no bank twice, in neither of their two kernels.
#[test]
fn the_gated_delta_rule_reads_states_once_and_no_bank_twice() {
    let _alone = alone();
    let emulator = Emulator::open();
    for (key_dim, value_dim) in [(128, 128), (64, 96)] {
        let device = device();
        let shape = GatedDeltaShape { key_heads: 1, value_heads: 2, key_dim, value_dim, normalise: true };
        let kernel = GatedDelta::compile(&device, shape).unwrap();
        let run = |tokens| GatedDeltaRun { tokens, continues: Some(true) };
        let steps = GatedDeltaProblem::random(shape, &[run(1), run(1), run(1)], 0, 0, 8);
        steps.run_decode(&device, &kernel).unwrap();
        // Beside the states, every thread of a block reads its part of a query and a key, two elements of a value, and six
        // numbers of the head and the request.
        let threads = 3 * shape.value_heads * value_dim / 32 * 128;
        let inputs = threads * (key_dim / 32 * 16 + 2 * 2 + 2 * 2 + 3 * 4);
        assert_eq!(emulator.global_load_bytes(), (3 * shape.state_length() * 4 + inputs) as u64, "{shape:?}");
        let runs = GatedDeltaProblem::random(shape, &[run(130), run(20)], 0, 0, 9);
        runs.run_prefill(&device, &kernel).unwrap();
        assert_eq!(emulator.bank_conflicts(), 0, "the scan, {shape:?}");
        // The counters are those of the last kernel that did not fail: of the preparation, if the scan does.
        let failing = mutate(&GatedDelta::SOURCE, "if (first >= end) return;", "output[-1000000000] = 0;");
        let failing_device = kernel_tests::device();
        let kernel = GatedDelta::compile_source(&failing_device, shape, failing).unwrap();
        runs.run_prefill(&failing_device, &kernel).unwrap_err();
        assert_eq!(emulator.bank_conflicts(), 0, "the preparation, {shape:?}");
    }
}
