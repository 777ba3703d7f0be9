//! Work is captured and replayed as by the real driver, and what a capture does not allow has the driver's error.

use std::sync::Arc;
use std::thread;

use cudarc::driver::sys::{
    self, CUgraphInstantiate_flags as Flags, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, PushKernelArg, result};
use cudarc::nvrtc::Ptx;

use super::{PTX, code, context, double, function, one_thread};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD_LOCAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;
const UNSUPPORTED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
const INVALIDATED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

/// A stream, a kernel and a buffer of three numbers, whose uses the test itself orders.
struct Bench {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    doubled: CudaFunction,
    buffer: CudaSlice<u32>,
}

impl Bench {
    fn new(context: Arc<CudaContext>) -> Self {
        // SAFETY: every use of a buffer on another stream is ordered by the test, or the lack of it is what is tested.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let doubled = function(&context, "doubled");
        let buffer = stream.clone_htod(&[1_u32, 2, 3]).unwrap();
        Self { context, stream, doubled, buffer }
    }

    fn double(&mut self) -> CUresult {
        double(&self.stream, &self.doubled, &mut self.buffer, 3)
    }

    fn numbers(&self) -> Vec<u32> {
        self.stream.clone_dtoh(&self.buffer).unwrap()
    }

    /// Captures, replays and counts: nothing is left of what was before.
    fn check_that_capture_works(&mut self) {
        self.stream.memcpy_htod(&[1, 2, 3], &mut self.buffer).unwrap();
        self.stream.begin_capture(THREAD_LOCAL).unwrap();
        assert_eq!(self.double(), SUCCESS);
        let graph = self.stream.end_capture(Flags(0)).unwrap().unwrap();
        assert_eq!(self.numbers(), [1, 2, 3]);
        graph.launch().unwrap();
        graph.launch().unwrap();
        assert_eq!(self.numbers(), [4, 8, 12]);
    }
}

#[test]
fn a_graph_replays_copies_fills_and_launches_with_what_was_captured() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context);
    let stream = bench.stream.clone();
    let mut input = vec![5_u32, 6, 7];
    let mut output = vec![0_u32; 4];
    let mut copy = stream.alloc_zeros::<u32>(4).unwrap();
    stream.synchronize().unwrap();
    stream.begin_capture(GLOBAL).unwrap();
    assert_eq!(stream.capture_status().unwrap(), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    stream.memcpy_htod(&input, &mut bench.buffer).unwrap();
    let mut count = 2;
    assert_eq!(double(&stream, &bench.doubled, &mut bench.buffer, count), SUCCESS);
    stream.memset_zeros(&mut copy).unwrap();
    stream.memcpy_dtod(&bench.buffer, &mut copy.slice_mut(1..)).unwrap();
    stream.memcpy_dtoh(&copy, &mut output).unwrap();
    let graph = stream.end_capture(Flags(0)).unwrap().unwrap();
    assert_eq!(stream.capture_status().unwrap(), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    // Nothing has run, and what was captured is the value that the argument had.
    count += 1;
    assert_eq!((bench.numbers(), output.clone(), count), (vec![1, 2, 3], vec![0; 4], 3));
    graph.upload().unwrap();
    for numbers in [[5, 6, 7], [10, 20, 30]] {
        input.copy_from_slice(&numbers);
        graph.launch().unwrap();
        stream.synchronize().unwrap();
        assert_eq!(output, [0, 2 * numbers[0], 2 * numbers[1], numbers[2]]);
    }
    // What is launched is a copy of the graph; a graph in a capture becomes a part of what is captured.
    stream.begin_capture(THREAD_LOCAL).unwrap();
    graph.launch().unwrap();
    assert_eq!(bench.double(), SUCCESS);
    let outer = stream.end_capture(Flags(0)).unwrap().unwrap();
    drop(graph);
    outer.launch().unwrap();
    assert_eq!(bench.numbers(), [40, 80, 60]);
    drop(outer);
    bench.check_that_capture_works();
}

#[test]
fn an_empty_capture_is_a_graph() {
    let (_guard, context) = context();
    let bench = Bench::new(context);
    bench.stream.begin_capture(GLOBAL).unwrap();
    let graph = bench.stream.end_capture(Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH).unwrap().unwrap();
    graph.launch().unwrap();
    assert_eq!(bench.numbers(), [1, 2, 3]);
}

/// What is tried, the driver's answer, and how it is tried.
type Forbidden<'a> = (&'a str, CUresult, Box<dyn Fn(&mut Bench) -> CUresult + 'a>);

/// Each of them spoils the capture and leaves the stream usable.
#[test]
fn what_a_capture_forbids_has_the_drivers_error() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context.clone());
    let before = bench.stream.record_event(None).unwrap();
    let other = context.new_stream().unwrap();
    let elf = |bench: &Bench| bench.context.load_module(Ptx::from_src(PTX));
    let cases: [Forbidden<'_>; 13] = [
        ("waiting for the stream", UNSUPPORTED, Box::new(|bench| code(bench.stream.synchronize()))),
        (
            "asking the stream",
            UNSUPPORTED,
            Box::new(|bench| {
                // SAFETY: the stream exists.
                unsafe { sys::cuStreamQuery(bench.stream.cu_stream()) }
            }),
        ),
        ("waiting for the device", UNSUPPORTED, Box::new(|bench| code(bench.context.synchronize()))),
        ("waiting for another stream", UNSUPPORTED, Box::new(|_| code(other.synchronize()))),
        // SAFETY: nothing is allocated.
        ("an allocation at once", UNSUPPORTED, Box::new(|_| code(unsafe { result::malloc_sync(64) }))),
        // SAFETY: nothing is allocated.
        ("pinning memory", UNSUPPORTED, Box::new(|_| code(unsafe { result::malloc_host(64, 0) }))),
        (
            "a blocking copy",
            UNSUPPORTED,
            Box::new(|bench| {
                let (to, _record) = cudarc::driver::DevicePtr::device_ptr(&bench.buffer, &bench.stream);
                // SAFETY: the buffer has room for one number.
                code(unsafe { result::memcpy_htod_sync(to, &[1_u32]) })
            }),
        ),
        ("loading a module", UNSUPPORTED, Box::new(|bench| code(elf(bench)))),
        (
            "a free of memory that is not the graph's",
            CUresult::CUDA_ERROR_INVALID_VALUE,
            Box::new(|bench| {
                let (address, _record) = cudarc::driver::DevicePtr::device_ptr(&bench.buffer, &bench.stream);
                // SAFETY: it is refused.
                code(unsafe { result::free_async(address, bench.stream.cu_stream()) })
            }),
        ),
        (
            "a launch that is too large",
            CUresult::CUDA_ERROR_INVALID_VALUE,
            Box::new(|bench| {
                let mut launch = bench.stream.launch_builder(&bench.doubled);
                launch.arg(&mut bench.buffer).arg(&3_u32);
                let config = cudarc::driver::LaunchConfig { block_dim: (2048, 1, 1), ..one_thread(0) };
                // SAFETY: it is refused.
                code(unsafe { launch.launch(config) })
            }),
        ),
        (
            "an event from before",
            CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            Box::new(|bench| code(bench.stream.wait(&before))),
        ),
        (
            "waiting for a captured event",
            CUresult::CUDA_ERROR_CAPTURED_EVENT,
            Box::new(|bench| code(bench.stream.record_event(None).unwrap().synchronize())),
        ),
        // The real driver has a node for it; this one says that it has not.
        (
            "an allocation in the stream",
            CUresult::CUDA_ERROR_NOT_SUPPORTED,
            Box::new(|bench| code(bench.stream.alloc_zeros::<u32>(4))),
        ),
    ];
    for (what, expected, forbidden) in &cases {
        bench.stream.begin_capture(THREAD_LOCAL).unwrap();
        assert_eq!(bench.double(), SUCCESS);
        assert_eq!(forbidden(&mut bench), *expected, "{what}");
        let status = bench.stream.capture_status().unwrap();
        assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED, "{what}");
        assert_eq!(bench.double(), INVALIDATED, "{what}");
        assert_eq!(code(bench.stream.end_capture(Flags(0)).map(drop)), INVALIDATED, "{what}");
        bench.check_that_capture_works();
    }
}

#[test]
fn modes_say_which_threads_a_capture_hinders() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context.clone());
    // SAFETY: what is allocated is freed with the context.
    let allocate = || code(unsafe { result::malloc_sync(64) });
    let elsewhere = |action: &(dyn Fn() -> CUresult + Sync)| {
        let context = context.clone();
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                context.bind_to_thread().unwrap();
                action()
            });
            thread.join().unwrap()
        })
    };
    for (mode, here, there) in
        [(GLOBAL, UNSUPPORTED, UNSUPPORTED), (THREAD_LOCAL, UNSUPPORTED, SUCCESS), (RELAXED, SUCCESS, SUCCESS)]
    {
        for (is_here, expected) in [(true, here), (false, there)] {
            bench.stream.begin_capture(mode).unwrap();
            assert_eq!(if is_here { allocate() } else { elsewhere(&allocate) }, expected, "{mode:?}, here: {is_here}");
            let end = code(bench.stream.end_capture(Flags(0)).map(drop));
            assert_eq!(end, if expected == SUCCESS { SUCCESS } else { INVALIDATED }, "{mode:?}, here: {is_here}");
        }
        bench.stream.begin_capture(mode).unwrap();
        let stream = bench.stream.clone();
        let end = elsewhere(&move || code(stream.end_capture(Flags(0)).map(drop)));
        let wrong = CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        assert_eq!(end, if mode == RELAXED { SUCCESS } else { wrong }, "{mode:?}");
        if mode != RELAXED {
            bench.stream.end_capture(Flags(0)).unwrap();
        }
        bench.check_that_capture_works();
    }
}

#[test]
fn events_fork_a_capture_to_other_streams_and_join_it() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context.clone());
    let (stream, side) = (bench.stream.clone(), context.new_stream().unwrap());
    let mut other = side.clone_htod(&[10_u32, 20, 30]).unwrap();
    let mut sum = stream.alloc_zeros::<u32>(6).unwrap();
    stream.synchronize().unwrap();
    side.synchronize().unwrap();
    stream.begin_capture(THREAD_LOCAL).unwrap();
    side.join(&stream).unwrap();
    assert_eq!(side.capture_status().unwrap(), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_eq!(double(&side, &bench.doubled, &mut other, 3), SUCCESS);
    assert_eq!(bench.double(), SUCCESS);
    stream.join(&side).unwrap();
    stream.memcpy_dtod(&bench.buffer, &mut sum.slice_mut(..3)).unwrap();
    stream.memcpy_dtod(&other, &mut sum.slice_mut(3..)).unwrap();
    let graph = stream.end_capture(Flags(0)).unwrap().unwrap();
    assert_eq!(side.capture_status().unwrap(), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    for factor in [2, 4] {
        graph.launch().unwrap();
        let expected: Vec<u32> = [1, 2, 3, 10, 20, 30].iter().map(|number| number * factor).collect();
        assert_eq!(stream.clone_dtoh(&sum).unwrap(), expected);
    }

    // Not joined.
    stream.begin_capture(THREAD_LOCAL).unwrap();
    side.join(&stream).unwrap();
    assert_eq!(double(&side, &bench.doubled, &mut other, 3), SUCCESS);
    let unjoined = code(stream.end_capture(Flags(0)).map(drop));
    assert_eq!(unjoined, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    // Ended where it did not begin.
    stream.begin_capture(THREAD_LOCAL).unwrap();
    side.join(&stream).unwrap();
    let unmatched = code(side.end_capture(Flags(0)).map(drop));
    assert_eq!(unmatched, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_eq!(code(stream.end_capture(Flags(0)).map(drop)), INVALIDATED);
    // Two captures that would become one.
    stream.begin_capture(THREAD_LOCAL).unwrap();
    side.begin_capture(THREAD_LOCAL).unwrap();
    assert_eq!(code(stream.join(&side)), CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE);
    for stream in [&stream, &side] {
        assert_eq!(code(stream.end_capture(Flags(0)).map(drop)), INVALIDATED);
    }
    bench.check_that_capture_works();
    assert_eq!(side.clone_dtoh(&other).unwrap(), [40, 80, 120]);
}

#[test]
fn captures_begin_and_end_in_order() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context.clone());
    let illegal = CUresult::CUDA_ERROR_ILLEGAL_STATE;
    assert_eq!(code(bench.stream.end_capture(Flags(0)).map(drop)), illegal);
    assert_eq!(code(context.default_stream().begin_capture(THREAD_LOCAL)), UNSUPPORTED);
    bench.stream.begin_capture(THREAD_LOCAL).unwrap();
    assert_eq!(code(bench.stream.begin_capture(THREAD_LOCAL)), illegal);
    assert_eq!(bench.double(), SUCCESS);
    let flags =
        Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | Flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    assert_eq!(code(bench.stream.end_capture(flags).map(drop)), CUresult::CUDA_ERROR_INVALID_VALUE);
    bench.check_that_capture_works();
}

/// The default stream waits for blocking streams, and so must not be used while one of them is captured.
#[test]
fn the_legacy_stream_is_kept_out_of_a_capture() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context.clone());
    let legacy = context.default_stream();
    let blocking = result::stream::create(result::stream::StreamKind::Default).unwrap();
    // SAFETY: the stream is this context's, and lives as long as the test.
    let blocking = unsafe { context.wrap_borrowed_stream(blocking) };
    for (stream, expected) in
        [(bench.stream.clone(), SUCCESS), (blocking, CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)]
    {
        stream.begin_capture(THREAD_LOCAL).unwrap();
        assert_eq!(code(legacy.memset_zeros(&mut bench.buffer)), expected);
        let end = code(stream.end_capture(Flags(0)).map(drop));
        assert_eq!(end, if expected == SUCCESS { SUCCESS } else { INVALIDATED });
    }
    bench.check_that_capture_works();
}

#[test]
fn a_graph_keeps_addresses_and_not_memory() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context);
    bench.stream.begin_capture(THREAD_LOCAL).unwrap();
    assert_eq!(bench.double(), SUCCESS);
    let graph = bench.stream.end_capture(Flags(0)).unwrap().unwrap();
    drop(bench.buffer);
    graph.launch().unwrap();
    assert_eq!(code(bench.stream.synchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn a_graph_whose_kernels_are_gone_fails_and_is_told() {
    let (_guard, context) = context();
    let mut bench = Bench::new(context.clone());
    bench.stream.begin_capture(THREAD_LOCAL).unwrap();
    assert_eq!(bench.double(), SUCCESS);
    let graph = bench.stream.end_capture(Flags(0)).unwrap().unwrap();
    drop(bench.doubled);
    graph.launch().unwrap();
    assert_eq!(code(bench.stream.synchronize()), CUresult::CUDA_ERROR_LAUNCH_FAILED);
}
