//! How fast the emulator is, on one core: `cargo bench -p kernel-tests --bench emulator_speed`.
//!
//! Each kernel runs several times, checked and not, and the fastest run counts: the time of a processor, as Linux accounts
//! for it, from launch to end. An argument is part of the name of the kernels to run.

use kernel_tests::{Counters, Emulator, device};
use kernels::cuda::check::{DecodeProblem, GroupedGemmProblem, PoolOrder, PrefillProblem, PrefillRequest};
use kernels::cuda::{
    AttentionRules, CudaDevice, DecodeAttention, DecodeAttentionShape, GroupedGemm, GroupedGemmShape, PrefillAttention,
    PrefillAttentionShape,
};

const RUNS: usize = 7;
/// Multiplications and additions of one matrix instruction, 16 by 8 by 16.
const OPERATIONS: f64 = 2.0 * 16.0 * 8.0 * 16.0;

/// A kernel on a problem.
type Run<'a> = (&'static str, Box<dyn Fn() + 'a>);

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let device = device();
    let emulator = Emulator::open();
    println!("{:<36} {:>8} {:>8} {:>20} {:>10}", "kernel", "checks", "ms", "lane instructions/s", "FLOP/s");
    for (name, run) in kernels(&device).into_iter().filter(|(name, _)| name.contains(&wanted)) {
        for checks in [false, true] {
            emulator.set_checks(checks);
            emulator.time(true);
            let seconds = |_| {
                run();
                emulator.time(true)
            };
            let seconds = (0..RUNS).map(seconds).fold(f64::INFINITY, f64::min);
            let Counters { lane_instructions, matrix_instructions, .. } = emulator.counters();
            let giga = 1e-9 / seconds;
            println!(
                "{name:<36} {:>8} {:>8.1} {:>18.2} G {:>8.2} G",
                if checks { "all" } else { "off" },
                1e3 * seconds,
                lane_instructions as f64 * giga,
                matrix_instructions as f64 * OPERATIONS * giga,
            );
        }
    }
}

fn kernels(device: &CudaDevice) -> Vec<Run<'_>> {
    let rules = AttentionRules::default();
    let decode = |query_heads, contexts: &[usize]| {
        let shape = DecodeAttentionShape { head_dim: 128, query_heads, kv_heads: 8, page_size: 16, split_tokens: 4096 };
        let contexts: Vec<_> = contexts.iter().copied().map(Some).collect();
        let problem = DecodeProblem::random(shape, rules, &contexts, PoolOrder::TokenMajor, 1);
        let kernel = DecodeAttention::compile(device, shape, rules).unwrap();
        Box::new(move || drop(problem.run(device, &kernel).unwrap()))
    };
    let product = {
        let shape = GroupedGemmShape { block_rows: 64, experts: 8, columns: 512, depth: 1024, rows_per_input: 8 };
        let problem = GroupedGemmProblem::random(shape, &[128; 8], 0, 2).unwrap();
        let kernel = GroupedGemm::compile(device, shape).unwrap();
        Box::new(move || drop(problem.run(device, &kernel).unwrap()))
    };
    let prefill = {
        let shape = PrefillAttentionShape { head_dim: 128, query_heads: 8, kv_heads: 2, page_size: 16 };
        let request = PrefillRequest { tokens: 512, context: Some(512) };
        let problem = PrefillProblem::random(shape, rules, &[request], 0, PoolOrder::TokenMajor, 3);
        let kernel = PrefillAttention::compile(device, shape, rules).unwrap();
        Box::new(move || drop(problem.run(device, &kernel).unwrap()))
    };
    vec![
        ("paged decode, 2 heads per key head", decode(16, &[1024, 1500, 2048])),
        ("paged decode, tensor cores", decode(32, &[1024, 1500, 2048])),
        ("grouped product", product),
        ("paged prefill", prefill),
    ]
}
