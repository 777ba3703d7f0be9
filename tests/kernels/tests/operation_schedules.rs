//! The operations give the same bits in whatever order their warps run. In a process of its own: the order is the
//! emulator's, not the test's.

use kernel_tests::{Emulator, device};
use kernels::cuda::check::{NormProblem, PoolOrder, RopeProblem, WeightFormat};
use kernels::cuda::{HeadNorm, RmsNorm, RmsNormShape, RopeKvWrite, RopeKvWriteShape};

const SEEDS: [u64; 6] = [1, 2, 3, 40, 500, 6000];

#[test]
fn results_do_not_depend_on_the_order_of_warps() {
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

    for seed in SEEDS {
        println!("schedule seed {seed}");
        emulator.set_schedule(seed);
        let found = norm.run(&device, &norm_kernel).unwrap();
        assert_eq!(found.output, expected_norm.output, "schedule seed {seed}");
        let found = rope.run(&device, &rope_kernel).unwrap();
        assert_eq!(found.query, expected_rope.query, "schedule seed {seed}");
        assert_eq!(found.keys, expected_rope.keys, "schedule seed {seed}");
    }
}
