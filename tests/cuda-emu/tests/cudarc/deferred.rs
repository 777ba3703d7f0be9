//! Work that is deferred shows which waits a program forgot.

use std::sync::{Arc, MutexGuard};

use cudarc::driver::sys::{CUgraphInstantiate_flags as Flags, CUresult, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, result};
use libloading::os::unix::Library;

use super::{code, context, double, function, library, use_memory_streams_events_and_launches};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=24;

/// A context whose work is deferred; it is not any more when this is gone.
struct Deferring {
    context: Arc<CudaContext>,
    _guard: MutexGuard<'static, ()>,
}

impl Deferring {
    fn new(seed: u64) -> Self {
        let (guard, context) = context();
        defer(&library(), seed);
        Self { context, _guard: guard }
    }
}

impl Drop for Deferring {
    fn drop(&mut self) {
        defer(&library(), 0);
    }
}

fn defer(library: &Library, seed: u64) {
    // SAFETY: that is the function's type.
    let defer = unsafe { library.get::<extern "C" fn(u64)>("cuda_emu_defer") };
    defer.expect("the library defers work")(seed);
}

/// Two streams and two buffers whose uses the test itself orders, or does not.
struct Bench {
    one: Arc<CudaStream>,
    other: Arc<CudaStream>,
    doubled: CudaFunction,
    source: CudaSlice<u32>,
    target: CudaSlice<u32>,
    /// The last to go: the others are of its context.
    deferring: Deferring,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let deferring = Deferring::new(seed);
        let context = &deferring.context;
        // SAFETY: the lack of order is what is tested, and the memory is the emulator's.
        unsafe { context.disable_event_tracking() };
        let (one, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let doubled = function(context, "doubled");
        let source = one.clone_htod(&[1_u32, 2, 3]).unwrap();
        let target = one.alloc_zeros(3).unwrap();
        one.synchronize().unwrap();
        Self { one, other, doubled, source, target, deferring }
    }

    fn double(&mut self) {
        assert_eq!(double(&self.one, &self.doubled, &mut self.source, 3), CUresult::CUDA_SUCCESS);
    }
}

/// Runs a program with its wait, which must be right whatever the seed, and without it, which must be found to be wrong.
fn expect_that_the_wait_matters(what: &str, is_right: impl Fn(Bench, bool) -> bool) {
    let wrong = |waits: bool| SEEDS.filter(|&seed| !is_right(Bench::new(seed), waits)).collect::<Vec<_>>();
    assert_eq!(wrong(true), [0; 0], "{what}: seeds with which the right program is wrong");
    let found = wrong(false).len();
    assert!(found >= 4, "{what}: only {found} seeds show the mistake");
}

#[test]
fn a_result_that_is_read_too_early_is_found() {
    expect_that_the_wait_matters("a copy in another stream", |mut bench, waits| {
        bench.double();
        if waits {
            bench.other.join(&bench.one).unwrap();
        }
        bench.other.memcpy_dtod(&bench.source, &mut bench.target).unwrap();
        bench.other.clone_dtoh(&bench.target).unwrap() == [2, 4, 6]
    });
}

#[test]
fn an_event_that_was_recorded_before_the_work_is_found() {
    expect_that_the_wait_matters("an event", |mut bench, waits| {
        let early = bench.one.record_event(None).unwrap();
        bench.double();
        let late = bench.one.record_event(None).unwrap();
        let event = if waits { late } else { early };
        event.synchronize().unwrap();
        bench.other.clone_dtoh(&bench.source).unwrap() == [2, 4, 6]
    });
}

#[test]
fn memory_that_is_overwritten_too_early_is_found() {
    expect_that_the_wait_matters("a fill in another stream", |mut bench, waits| {
        bench.one.memcpy_dtod(&bench.source, &mut bench.target).unwrap();
        if waits {
            bench.other.join(&bench.one).unwrap();
        }
        bench.other.memset_zeros(&mut bench.source).unwrap();
        bench.one.clone_dtoh(&bench.target).unwrap() == [1, 2, 3]
    });
}

#[test]
fn pinned_memory_that_is_used_again_too_early_is_found() {
    expect_that_the_wait_matters("pinned memory", |mut bench, waits| {
        // SAFETY: four numbers, aligned, and freed at the end.
        let pinned = unsafe {
            let pointer = result::malloc_host(16, 0).unwrap().cast::<u32>();
            std::slice::from_raw_parts_mut(pointer, 4)
        };
        pinned.copy_from_slice(&[7, 8, 9, 0]);
        bench.one.memcpy_htod(&pinned[..3], &mut bench.source).unwrap();
        if waits {
            bench.one.synchronize().unwrap();
        }
        pinned.fill(0);
        let found = bench.one.clone_dtoh(&bench.source).unwrap();
        // SAFETY: it came from there, and nothing uses it any more.
        unsafe { result::free_host(pinned.as_mut_ptr().cast()) }.unwrap();
        found == [7, 8, 9]
    });
}

#[test]
fn memory_that_is_freed_too_early_is_found() {
    expect_that_the_wait_matters("a free", |bench, waits| {
        let Bench { one, other, doubled, source, mut target, deferring } = bench;
        other.memcpy_dtod(&source, &mut target).unwrap();
        if waits {
            one.join(&other).unwrap();
        }
        // It is freed in the stream that allocated it.
        drop(source);
        let found = [&one, &other].map(|stream| code(stream.synchronize()));
        drop((one, other, doubled, target));
        drop(deferring);
        found == [CUresult::CUDA_SUCCESS; 2]
    });
}

#[test]
fn a_graph_is_work_like_other_work() {
    expect_that_the_wait_matters("a graph", |mut bench, waits| {
        bench.one.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        bench.other.join(&bench.one).unwrap();
        bench.double();
        bench.other.memset_zeros(&mut bench.target).unwrap();
        bench.one.join(&bench.other).unwrap();
        let graph = bench.one.end_capture(Flags(0)).unwrap().unwrap();
        graph.launch().unwrap();
        graph.launch().unwrap();
        if waits {
            bench.other.join(&bench.one).unwrap();
        }
        bench.other.memcpy_dtod(&bench.source, &mut bench.target).unwrap();
        bench.other.clone_dtoh(&bench.target).unwrap() == [4, 8, 12]
    });
}

#[test]
fn a_branch_of_a_graph_that_another_reads_without_waiting_is_found() {
    expect_that_the_wait_matters("a branch", |mut bench, waits| {
        bench.one.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        if !waits {
            bench.other.join(&bench.one).unwrap();
        }
        bench.double();
        if waits {
            bench.other.join(&bench.one).unwrap();
        }
        bench.other.memcpy_dtod(&bench.source, &mut bench.target).unwrap();
        bench.one.join(&bench.other).unwrap();
        let graph = bench.one.end_capture(Flags(0)).unwrap().unwrap();
        graph.launch().unwrap();
        bench.one.clone_dtoh(&bench.target).unwrap() == [2, 4, 6]
    });
}

/// Blocking streams and the default stream wait for each other without being told.
#[test]
fn the_legacy_stream_and_blocking_streams_need_no_waits() {
    for seed in SEEDS {
        let mut bench = Bench::new(seed);
        let context = bench.deferring.context.clone();
        let blocking = result::stream::create(result::stream::StreamKind::Default).unwrap();
        // SAFETY: the stream is this context's, and lives as long as the test.
        let blocking = unsafe { context.wrap_borrowed_stream(blocking) };
        assert_eq!(double(&blocking, &bench.doubled, &mut bench.source, 3), CUresult::CUDA_SUCCESS);
        context.default_stream().memcpy_dtod(&bench.source, &mut bench.target).unwrap();
        blocking.memset_zeros(&mut bench.source).unwrap();
        assert_eq!(blocking.clone_dtoh(&bench.target).unwrap(), [2, 4, 6], "seed {seed}");
        assert_eq!(context.default_stream().clone_dtoh(&bench.source).unwrap(), [0; 3], "seed {seed}");
    }
}

/// cudarc orders the uses of a buffer by itself, with events.
#[test]
fn a_program_that_waits_is_right_in_every_order() {
    for seed in SEEDS {
        let deferring = Deferring::new(seed);
        use_memory_streams_events_and_launches(&deferring.context);
    }
    for seed in SEEDS {
        let deferring = Deferring::new(seed);
        let (one, other) = (deferring.context.new_stream().unwrap(), deferring.context.new_stream().unwrap());
        let doubled = function(&deferring.context, "doubled");
        let mut buffer = one.clone_htod(&[1_u32, 2, 3]).unwrap();
        for stream in [&other, &one, &other] {
            assert_eq!(double(stream, &doubled, &mut buffer, 3), CUresult::CUDA_SUCCESS);
        }
        assert_eq!(one.clone_dtoh(&buffer).unwrap(), [8, 16, 24], "seed {seed}");
    }
}

#[test]
fn asking_again_and_again_comes_to_an_end() {
    for seed in SEEDS {
        let mut bench = Bench::new(seed);
        bench.double();
        let event = bench.one.record_event(None).unwrap();
        assert!(!event.is_complete(), "seed {seed}");
        let asked = (0..100).position(|_| event.is_complete());
        assert!(asked.is_some(), "seed {seed}");
        assert_eq!(bench.other.clone_dtoh(&bench.source).unwrap(), [2, 4, 6], "seed {seed}");
    }
}

#[test]
fn a_fault_is_told_where_the_program_waits() {
    let mut bench = Bench::new(1);
    bench.double();
    let mut freed = bench.one.alloc_zeros::<u32>(3).unwrap();
    let (address, record) = cudarc::driver::DevicePtr::device_ptr(&freed, &bench.one);
    // SAFETY: it is used afterwards, which is what is tested; the emulator's memory has no such address then.
    unsafe { result::free_async(address, bench.one.cu_stream()) }.unwrap();
    drop(record);
    assert_eq!(double(&bench.one, &bench.doubled, &mut freed, 3), CUresult::CUDA_SUCCESS);
    assert_eq!(code(bench.one.synchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_eq!(code(bench.other.synchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}
