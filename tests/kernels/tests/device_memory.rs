//! Devices of several sizes: what does not fit is told, with the setting that does.
//!
//! The size is the emulator's, so this is a process of its own.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::memory::{Need, Wanted};
use engine::model::{CudaChoices, CudaDecoder, CudaSizes, CudaState, DecodeKernel, NoRoom, Steps, cuda};
use engine::runner::{Logits, Runner, RunnerLimits};
use engine::sizing::warm_up::WarmUp;
use engine::tuning::{self, Autotune, Preparation};
use engine::{Error, Result};
use kernel_tests::{Call, Emulator, device};
use kernels::cpu::Workers;
use kernels::cuda::CudaDevice;

const CHOICES: CudaChoices =
    CudaChoices { page_size: 16, decode: DecodeKernel::SplitKv { tokens: 64 }, graphs: true, settings_key: 0 };
const CHUNK: usize = 48;
const PAGES: usize = 6;

/// A device whose memory this test decides about, and a model for it.
struct Bench {
    emulator: Emulator,
    /// Keeps the context.
    device: CudaDevice,
    checkpoint: Checkpoint,
    _guard: MutexGuard<'static, ()>,
}

impl Bench {
    fn new() -> Self {
        Self::of("llama")
    }

    fn of(model: &str) -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(model);
        let checkpoint = Checkpoint::open(&model, LoadFormat::Auto).expect("a model");
        Self { emulator: Emulator::open(), device: device(), checkpoint, _guard: guard }
    }

    /// Leaves so many bytes free.
    fn leave(&self, bytes: u64) {
        self.emulator.set_memory(0);
        let all = 4 << 30;
        self.emulator.set_memory(all - self.free() + bytes);
    }

    fn free(&self) -> u64 {
        self.device.free_memory().expect("known")
    }

    fn need(&self, chunk: usize) -> Need {
        cuda::need(&self.checkpoint.plan().expect("a plan"), chunk, CHOICES)
    }

    fn load(&self) -> Result<CudaDecoder> {
        self.load_onto(device())
    }

    fn load_onto(&self, device: CudaDevice) -> Result<CudaDecoder> {
        let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
        CudaDecoder::load(&self.checkpoint.plan()?, &workers, device, CHOICES)
    }

    fn loaded(&self) -> CudaDecoder {
        self.leave(1 << 30);
        self.load().unwrap_or_else(|error| panic!("{error}"))
    }

    fn sizes(&self) -> CudaSizes {
        let context_length = self.checkpoint.config().context_length;
        CudaSizes { page_size: 16, pages: PAGES, step_tokens: CHUNK, sequences: 1, context_length }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.emulator.set_memory(0);
        self.emulator.set_piece(0);
        self.emulator.limit_allocations(None);
        self.emulator.defer(0);
    }
}

/// What there was no room for, and how that is said.
fn refusal<T>(result: Result<T>) -> (NoRoom, String) {
    match result {
        Ok(_) => panic!("there was room"),
        Err(Error::NoRoom(why)) => (why, Error::NoRoom(why).to_string()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn weights_need_what_is_said() {
    let bench = Bench::new();
    let needed = bench.need(CHUNK).weights;
    bench.leave(needed - 1);
    let (why, said) = refusal(bench.load());
    assert_eq!(why, NoRoom::Weights { needed, free: needed - 1 });
    assert!(said.contains("KiB free: use --device cpu or a smaller model"), "{said}");
    bench.leave(needed);
    let model = bench.load().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((model.weight_bytes() as u64, bench.free()), (needed, 0));
}

/// Pages are counted before anything is there, from what is free then.
#[test]
fn pages_that_were_counted_fit_a_device_that_maps_memory_in_pieces() {
    let bench = Bench::new();
    bench.emulator.set_piece(2 << 20);
    for megabytes in [160, 200, 263] {
        let free = megabytes << 20;
        bench.leave(free);
        let pages = bench.need(CHUNK).pages(Some(free), 16, Wanted::AtMost(1 << 40)).expect("some fit");
        let model = bench.load().unwrap_or_else(|error| panic!("{megabytes} MiB: {error}"));
        let state = model.state(CudaSizes { pages, ..bench.sizes() });
        let state = state.unwrap_or_else(|error| panic!("{megabytes} MiB, {pages} pages: {error}"));
        assert!(state.bytes() as u64 > free - (150 << 20), "{megabytes} MiB, {pages} pages: little of it is used");
    }
}

#[test]
fn a_step_and_pages_need_what_is_said() {
    let bench = Bench::new();
    let (model, sizes) = (bench.loaded(), bench.sizes());
    let with = |bytes: u64, sizes: CudaSizes| -> Result<CudaState> {
        bench.leave(bytes);
        model.state(sizes)
    };
    let need = bench.need(CHUNK);
    let (step, page) = (need.step, 16 * need.kv_per_token);
    let all = step + PAGES as u64 * page;

    let state = with(all, sizes).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((state.bytes() as u64, bench.free()), (PAGES as u64 * page, 0));
    drop(state);

    let (why, said) = refusal(with(all - 1, sizes));
    let fitting = (PAGES - 1) * 16;
    let expected =
        NoRoom::Pages { pages: PAGES, page_size: 16, needed: PAGES as u64 * page, step, free: all - 1, fitting };
    assert_eq!(why, expected);
    assert!(said.ends_with("--max-total-tokens 80 is the most that fits"), "{said}");
    with(all - 1, CudaSizes { pages: PAGES - 1, ..sizes }).unwrap_or_else(|error| panic!("{error}"));

    // One page does not fit beside the step, and a shorter one is said to.
    let free = step + page - 1;
    let (why, said) = refusal(with(free, sizes));
    let NoRoom::Step { tokens: CHUNK, fitting: Some(Steps { tokens, context_length: None }), .. } = why else {
        panic!("{said}");
    };
    assert!(said.ends_with(&format!("--chunked-prefill-size {tokens} is the most that fits")), "{said}");
    let shorter = |step_tokens| CudaSizes { step_tokens, pages: 1, ..sizes };
    with(free, shorter(tokens)).unwrap_or_else(|error| panic!("{error}"));
    assert!(with(free, shorter(tokens + 1)).is_err());

    // Not even a step of one token does.
    let free = bench.need(1).step / 2;
    let (why, said) = refusal(with(free, sizes));
    let NoRoom::Step { fitting: Some(Steps { tokens: 1, context_length: Some(length) }), .. } = why else {
        panic!("{said}");
    };
    assert!(said.contains(&format!("--chunked-prefill-size 1 --context-length {length} is the most")), "{said}");
    let shortest = |context_length| CudaSizes { context_length, ..shorter(1) };
    with(free, shortest(length)).unwrap_or_else(|error| panic!("{error}"));
    assert!(with(free, shortest(length + 1)).is_err());

    let (why, said) = refusal(with(100, sizes));
    assert!(matches!(why, NoRoom::Step { fitting: None, .. }), "{said}");
    assert!(said.ends_with("use --device cpu or a smaller model"), "{said}");
}

/// What the pools before have given back counts, though the device has not come to it yet.
#[test]
fn a_runner_is_rebuilt_where_there_is_room_for_one() {
    let bench = Bench::new();
    let model = bench.loaded();
    let need = bench.need(CHUNK);
    let page = 16 * need.kv_per_token;
    let limits =
        |pool_pages| RunnerLimits { page_size: 16, pool_pages, chunked_prefill_size: CHUNK, context_length: None };
    bench.leave(need.step + PAGES as u64 * page);
    let mut runner = Runner::on_cuda(model, limits(PAGES)).unwrap_or_else(|error| panic!("{error}"));
    for seed in 1..=4 {
        bench.emulator.defer(seed);
        runner = runner.rebuild(limits(PAGES)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let (_, said) = refusal(runner.rebuild(limits(PAGES + 1)));
    assert!(said.starts_with("7 pages of 16 tokens of keys and values take "), "{said}");
    assert!(said.ends_with("--max-total-tokens 96 is the most that fits"), "{said}");
}

/// Kernels of products that nothing has prepared are loaded in the middle of a step, and then there may be no memory for them.
#[test]
fn a_step_whose_kernels_there_is_no_memory_for_is_told_and_the_next_goes_on() {
    let bench = Bench::new();
    let limits = RunnerLimits { page_size: 16, pool_pages: 4, chunked_prefill_size: 40, context_length: Some(64) };
    let run = |runner: &mut Runner, tokens: &[u32]| {
        let mut sequence = runner.start();
        let logits = runner.extend(&mut sequence, tokens, Logits::Last);
        assert_eq!(sequence.tokens(), if logits.is_ok() { tokens.len() } else { 0 });
        runner.release(sequence).expect("it held its pages");
        logits
    };
    // Few rows and some have kernels of their own; the logits are of one row.
    let prompts = [&[1, 2, 3][..], &[4; 20]];
    let mut usual = Runner::on_cuda(bench.loaded(), limits).unwrap_or_else(|error| panic!("{error}"));
    let expected = prompts.map(|tokens| run(&mut usual, tokens).unwrap_or_else(|error| panic!("{error}")));
    let mut runner = Runner::on_cuda(bench.loaded(), limits).unwrap_or_else(|error| panic!("{error}"));
    for (tokens, expected) in prompts.into_iter().zip(expected) {
        bench.emulator.limit_allocations(Some(0));
        for _ in 0..2 {
            let (why, said) = refusal(run(&mut runner, tokens));
            assert_eq!(why, NoRoom::Code { free: bench.free() });
            assert!(said.contains("--max-total-tokens") && said.contains("--gemm-warmup fast"), "{said}");
        }
        bench.emulator.limit_allocations(None);
        assert!(!runner.is_lost() && runner.available_pages() == 4);
        assert!(run(&mut runner, tokens).is_ok_and(|logits| logits == expected));
        // What is loaded stays.
        bench.emulator.limit_allocations(Some(0));
        assert!(run(&mut runner, tokens).is_ok_and(|logits| logits == expected));
        bench.emulator.limit_allocations(None);
    }
}

/// What a step lacks memory for besides is no code of a kernel.
#[test]
fn a_step_that_there_is_no_memory_to_launch_is_told_and_the_next_goes_on() {
    const OUT_OF_MEMORY: i32 = 2;
    let bench = Bench::new();
    let limits = RunnerLimits { page_size: 16, pool_pages: 4, chunked_prefill_size: 40, context_length: Some(64) };
    let mut runner = Runner::on_cuda(bench.loaded(), limits).unwrap_or_else(|error| panic!("{error}"));
    let mut sequence = runner.start();
    // The first of single tokens runs kernel by kernel, the second is captured.
    for tokens in [&[1, 2, 3][..], &[4], &[5]] {
        runner.extend(&mut sequence, tokens, Logits::Last).unwrap_or_else(|error| panic!("{error}"));
    }
    for (call, tokens, what) in [
        (Call::LaunchGraph, &[6][..], "launching captured work"),
        (Call::Launch, &[7, 8, 9], "launching a gather of rows"),
    ] {
        bench.emulator.fail(call, OUT_OF_MEMORY);
        let (why, said) = refusal(runner.extend(&mut sequence, tokens, Logits::Last));
        bench.emulator.fail(call, 0);
        assert_eq!(why, NoRoom::Doing { what, free: bench.free() });
        let words = format!("no memory for {what}, and has ");
        assert!(said.contains(&words) && said.contains("--max-total-tokens"), "{said}");
        assert!(said.contains("--disable-cuda-graph"), "{said}");
        runner.extend(&mut sequence, tokens, Logits::Last).unwrap_or_else(|error| panic!("{error}"));
    }
    runner.release(sequence).expect("it held its pages");
}

/// What has been prepared is loaded: no step takes memory for it.
#[test]
fn a_step_whose_kernels_have_been_prepared_takes_no_memory() {
    let preparation = Preparation {
        warm_up: WarmUp::Fast,
        chunk: 80,
        most_rows: 80,
        autotune: Autotune::Off,
        is_asked: true,
        limit: Duration::ZERO,
        is_deterministic: false,
        folder: None,
        settings_key: 0,
    };
    let limits = RunnerLimits { page_size: 16, pool_pages: 8, chunked_prefill_size: 80, context_length: Some(128) };
    for model in ["llama", "qwen3_moe"] {
        let bench = Bench::of(model);
        let mut model = bench.loaded();
        tuning::prepare(&mut model, &preparation).unwrap_or_else(|error| panic!("{error}"));
        let mut runner = Runner::on_cuda(model, limits).unwrap_or_else(|error| panic!("{error}"));
        bench.emulator.limit_allocations(Some(0));
        let mut sequence = runner.start();
        // Of the experts of the second, blocks of few rows and of many.
        for tokens in [&[1; 3][..], &[2; 20], &[3; 80], &[4]] {
            runner.extend(&mut sequence, tokens, Logits::All).unwrap_or_else(|error| panic!("{error}"));
        }
        bench.emulator.limit_allocations(None);
        runner.release(sequence).expect("it held its pages");
    }
}

/// Between asking for free memory and taking it, another program may have taken it.
#[test]
fn every_allocation_that_fails_is_told_in_words_and_takes_nothing() {
    let bench = Bench::new();
    let before = bench.free();
    let weights = (0..100).find(|&count| {
        // Not all of them: each compiles the kernels of the model again.
        let count = 11 * count;
        let device = device();
        bench.emulator.limit_allocations(Some(count));
        let loaded = bench.load_onto(device);
        bench.emulator.limit_allocations(None);
        if loaded.is_ok() {
            return true;
        }
        let (why, said) = refusal(loaded);
        // Kernels are loaded first: there are three.
        let expected = if count < 3 { "the code of kernels" } else { "the weights" };
        assert!(matches!(why, NoRoom::Refused { what, .. } if what == expected), "{count}: {said}");
        assert!(said.contains("another program takes it"), "{said}");
        assert_eq!(bench.free(), before);
        false
    });
    assert!(weights > Some(1), "{weights:?}");
    let model = bench.loaded();
    let before = bench.free();
    let mut loads = 0;
    let allocations = (0..1000).find(|&count| {
        bench.emulator.limit_allocations(Some(count));
        let state = model.state(bench.sizes());
        bench.emulator.limit_allocations(None);
        if state.is_ok() {
            return true;
        }
        let (why, said) = refusal(state);
        // Kernels that know the size of a page are loaded after the pools.
        let NoRoom::Refused { what, .. } = why else { panic!("{count}: {said}") };
        assert!(["a step, keys and values", "the code of kernels"].contains(&what), "{count}: {said}");
        loads += usize::from(what == "the code of kernels");
        assert!(said.contains("--max-total-tokens") && said.contains("--chunked-prefill-size"), "{said}");
        assert_eq!(bench.free(), before);
        false
    });
    assert!(allocations > Some(10), "{allocations:?}");
    // One of attention in prompts, two in single tokens, and that of rotation.
    assert_eq!(loads, 4);
}
