//! The kernels give the same bits in whatever order their warps run, and whenever the work of the stream is done. In
//! a process of its own: the orders are the emulator's, not the test's.

use kernel_tests::mutation::alone;
use kernel_tests::product_cases::{DENSE_TILES, FORMATS};
use kernel_tests::{Emulator, device};
use kernels::cuda::check::{
    Bias, Comparison, DecodeProblem, GemmProblem, GroupedGemmProblem, MlaDecodeProblem, PoolOrder, PrefillProblem,
    PrefillRequest, ProductSize, QuantisedGemmProblem, WeightFormat,
};
use kernels::cuda::{
    AttentionRules, DecodeAttention, DecodeAttentionShape, Gemm, GemmTiles, GroupedGemm, GroupedGemmShape, MlaDecode,
    MlaDecodeShape, PrefillAttention, PrefillAttentionShape, QuantisedGemm,
};

const SEEDS: [u64; 6] = [1, 2, 3, 40, 500, 6000];

#[test]
fn results_do_not_depend_on_the_order_of_warps_nor_on_when_work_is_done() {
    let _alone = alone();
    let emulator = Emulator::open();
    let device = device();
    let rules = AttentionRules { window: Some(60), softcap: Some(2.0), sinks: true };

    let shape = DecodeAttentionShape { head_dim: 64, query_heads: 4, kv_heads: 1, page_size: 16, split_tokens: 64 };
    let contexts = [Some(150), Some(17), None];
    let attention = DecodeProblem::random(shape, rules, &contexts, PoolOrder::TokenMajor, 21);
    let attention_kernel = DecodeAttention::compile(&device, shape, rules).unwrap();

    let shape = PrefillAttentionShape { head_dim: 64, query_heads: 4, kv_heads: 1, page_size: 16 };
    let requests = [(40, Some(150)), (1, Some(17)), (2, None)];
    let requests = requests.map(|(tokens, context)| PrefillRequest { tokens, context });
    let prefill = PrefillProblem::random(shape, rules, &requests, 1, PoolOrder::TokenMajor, 23);
    let prefill_kernel = PrefillAttention::compile(&device, shape, rules).unwrap();

    let shape = GroupedGemmShape { block_rows: 64, experts: 3, columns: 64, depth: 160, rows_per_input: 1 };
    let product = GroupedGemmProblem::random(shape, &[65, 0, 9], 0, 22).unwrap();
    let product_kernel = GroupedGemm::compile(&device, shape).unwrap();

    let shape = MlaDecodeShape { latent_dim: 128, rope_dim: 32, query_heads: 18, page_size: 16, split_tokens: 100 };
    let mla = MlaDecodeProblem::random(shape, &contexts, 24);
    let mla_kernel = MlaDecode::compile(&device, shape).unwrap();

    let expected_mla = mla.run(&device, &mla_kernel).unwrap();
    let expected_attention = attention.run(&device, &attention_kernel).unwrap();
    let expected_prefill = prefill.run(&device, &prefill_kernel).unwrap();
    assert!(prefill.compare(&expected_prefill).iter().all(Comparison::holds));
    let expected_product = product.run(&device, &product_kernel).unwrap();
    assert!(product.compare(&expected_product).holds());
    assert_eq!(emulator.bank_conflicts(), 0, "rows of the tiles fall into the same banks");
    for seed in SEEDS {
        println!("schedule seed {seed}");
        emulator.set_schedule(seed);
        emulator.defer(seed);
        let found = attention.run(&device, &attention_kernel).unwrap();
        assert_eq!(found.output, expected_attention.output, "schedule seed {seed}");
        assert_eq!(found.lse, expected_attention.lse, "schedule seed {seed}");
        let found = prefill.run(&device, &prefill_kernel).unwrap();
        assert_eq!(found.output, expected_prefill.output, "schedule seed {seed}");
        assert_eq!(found.lse, expected_prefill.lse, "schedule seed {seed}");
        let found = mla.run(&device, &mla_kernel).unwrap();
        assert_eq!(found.output, expected_mla.output, "schedule seed {seed}");
        assert_eq!(found.lse, expected_mla.lse, "schedule seed {seed}");
        let found = product.run(&device, &product_kernel).unwrap();
        assert_eq!(found.output, expected_product.output, "schedule seed {seed}");
    }
}

#[test]
fn products_do_not_depend_on_the_order_of_warps_nor_on_when_work_is_done() {
    let _alone = alone();
    let emulator = Emulator::open();
    let device = device();
    let size = ProductSize { rows: 70, columns: 140, depth: 400 };
    let problem = GemmProblem::random(size, Bias::Random, 24);
    for tile in DENSE_TILES {
        let kernel = Gemm::compile(&device, GemmTiles::only(tile)).unwrap();
        let run = || problem.run(&device, &kernel, WeightFormat::F32).unwrap();
        emulator.set_schedule(0);
        emulator.defer(0);
        let expected = run();
        assert!(problem.compare(&expected, WeightFormat::F32).holds(), "{tile:?}");
        assert_eq!(emulator.bank_conflicts(), 0, "{tile:?}");
        for seed in SEEDS {
            println!("{tile:?}, schedule seed {seed}");
            emulator.set_schedule(seed);
            emulator.defer(seed);
            let same = run().output.iter().zip(&expected.output).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{tile:?}, schedule seed {seed}");
        }
    }
}

#[test]
fn products_with_quantised_weights_do_not_either() {
    let _alone = alone();
    let emulator = Emulator::open();
    let device = device();
    let size = ProductSize { rows: 20, columns: 140, depth: 416 };
    for (format, tile) in FORMATS.into_iter().flat_map(|format| DENSE_TILES.map(|tile| (format, tile))) {
        let problem = QuantisedGemmProblem::random(format, size, Bias::Random, 25);
        let kernel = QuantisedGemm::compile(&device, format, GemmTiles::only(tile)).unwrap();
        let run = || problem.run(&device, &kernel, WeightFormat::F32).unwrap();
        emulator.set_schedule(0);
        emulator.defer(0);
        let expected = run();
        assert!(problem.compare(&expected, WeightFormat::F32).holds(), "{format:?}, {tile:?}");
        assert_eq!(emulator.bank_conflicts(), 0, "{format:?}, {tile:?}");
        for seed in &SEEDS[..2] {
            println!("{format:?}, {tile:?}, schedule seed {seed}");
            emulator.set_schedule(*seed);
            emulator.defer(*seed);
            let same = run().output.iter().zip(&expected.output).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{format:?}, {tile:?}, schedule seed {seed}");
        }
    }
}
