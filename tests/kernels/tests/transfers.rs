//! What goes to the device, and when.
//!
//! The emulator counts and defers for the whole process, so this is a process of its own.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, CudaDecoder, DecodeKernel};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernel_tests::{Call, Emulator, device};
use kernels::cpu::Workers;
use kernels::cuda::{CudaDevice, CudaSlice, PinnedBuffer, Staging};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn runner(model: &str, graphs: bool) -> Runner {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(model);
    let checkpoint = Checkpoint::open(&model, LoadFormat::Auto).expect("a model");
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let choices = CudaChoices { page_size: 16, decode: DecodeKernel::SplitKv { tokens: 16 }, graphs, settings_key: 0 };
    let model = CudaDecoder::load(&checkpoint.plan().expect("a plan"), &workers, device(), choices);
    let limits = RunnerLimits { page_size: 16, pool_pages: 6, chunked_prefill_size: 80, context_length: Some(96) };
    model.and_then(|model| Runner::on_cuda(model, limits)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_step_reads_one_copy_of_the_host() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::open();
    for (model, graphs) in [("llama", true), ("qwen3_moe", false)] {
        let mut runner = runner(model, graphs);
        let mut sequence = runner.start();
        let tokens: Vec<u32> = (1..=75).collect();
        // A prompt whose logits are computed in two parts, one of which only the last are wanted, and single tokens: launched
        // kernel by kernel, captured, and launched as a whole.
        let steps = [(75, Logits::All), (5, Logits::Nowhere), (3, Logits::Last)];
        for (count, wanted) in steps.into_iter().chain([(1, Logits::Last); 4]) {
            let before = emulator.copies_in();
            runner.extend(&mut sequence, &tokens[..count], wanted).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(emulator.copies_in() - before, 1, "{model}: a step of {count}, {wanted:?}");
        }
        let launched = runner.graph_use().map(|used| used.launched);
        assert_eq!(launched, Some(if graphs { 3 } else { 0 }), "{model}");
        runner.release(sequence).expect("it held its pages");
    }
}

/// A buffer that is filled again before it has been copied would be seen: the device copies late.
#[test]
fn values_go_through_two_buffers_in_parts() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::open();
    let device = device();
    for seed in 1..=8 {
        emulator.defer(seed);
        let mut staging = Staging::<u16>::new(&device, 10).expect("pinned memory");
        for (length, unit, parts) in [(40, 1, 4), (27, 3, 3), (32, 4, 4), (9, 9, 1), (0, 1, 0)] {
            let before = emulator.copies_in();
            let mut starts = Vec::new();
            let uploaded = staging.upload(&device, (length, unit), |start, part| {
                starts.push(start);
                part.iter_mut().zip(start..).for_each(|(value, number)| *value = number as u16);
            });
            let uploaded = uploaded.expect("it is copied");
            assert!(starts.len() == parts && starts.iter().all(|start| start % unit == 0), "{starts:?}");
            assert_eq!(emulator.copies_in() - before, parts as u64);
            let found = device.download(&uploaded.slice(..length)).expect("it is there");
            assert!(found.iter().copied().eq(0..length as u16), "seed {seed}: {found:?}");
        }
        let refusal = staging.upload(&device, (22, 11), |_, _| ()).expect_err("a row is longer than a buffer");
        assert_eq!(refusal.to_string(), "values of a part is 11; this launch needs 1 to 10");
    }
    emulator.defer(0);
}

/// What is looked at before the device has copied it would be seen: the device copies late.
#[test]
fn values_come_back_when_they_are_there() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::open();
    let device = device();
    for seed in 1..=8 {
        emulator.defer(seed);
        let mut staging = Staging::<u16>::new(&device, 10).expect("pinned memory");
        let mut readback = device.readback::<u16>(30).expect("pinned memory");
        for (first, length) in [(1, 30), (100, 7), (200, 0), (300, 29)] {
            let uploaded = staging.upload(&device, (length, 1), |start, part| {
                part.iter_mut().zip(first + start..).for_each(|(value, number)| *value = number as u16);
            });
            let uploaded = uploaded.expect("it is copied");
            let found = readback.read(&device, &uploaded.slice(..length)).expect("it is there");
            assert!(
                found.iter().copied().eq((first..first + length).map(|number| number as u16)),
                "seed {seed}: {found:?}"
            );
        }
        let longer = device.zeros::<u16>(31).expect("there is memory");
        let refusal = readback.read(&device, &longer).expect_err("there is room for fewer");
        assert_eq!(refusal.to_string(), "values to copy is 31; this launch needs at most 30");
    }
    emulator.defer(0);
}

/// `CUDA_ERROR_OPERATING_SYSTEM`: a refusal that does not last.
const REFUSED: i32 = 304;

/// A buffer with these values, and the copy of them that the device has not made yet.
fn copying(device: &CudaDevice, values: &[u32], to: &mut CudaSlice<u32>) -> PinnedBuffer<u32> {
    let mut buffer = device.pinned(values.len()).expect("pinned memory");
    buffer.values_mut().expect("nothing uses it").copy_from_slice(values);
    device.copy_pinned(&mut buffer, values.len(), to, 0).expect("it is asked for");
    buffer
}

/// Has something fail that cannot tell: the next call that can does, whatever it is for.
fn leave_a_failure(device: &CudaDevice) {
    let memory = device.zeros::<u8>(1).expect("there is memory");
    // A thread that has not used the device cannot give its memory back.
    thread::scope(|scope| drop(scope.spawn(move || drop(memory))));
}

/// What is given back or written over before the device has copied it would be seen: the device copies late.
#[test]
fn whatever_fails_pinned_memory_stays_until_it_has_been_copied() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::open();
    let device = device();
    let mut target = device.zeros::<u32>(3).expect("there is memory");
    let there = |target: &CudaSlice<u32>| device.download(target).expect("the device works");
    for seed in 1..=8 {
        emulator.defer(seed);
        let number = 10 * seed as u32;
        let values = [number + 1, number + 2, number + 3];

        // A failure of before, which is told by the next call that can, and waits for nothing.
        let buffer = copying(&device, &values, &mut target);
        leave_a_failure(&device);
        drop(buffer);
        assert!(device.synchronize().is_err(), "seed {seed}: there was no failure");
        assert_eq!(there(&target), values, "seed {seed}: dropped after a failure of before");

        let values = values.map(|value| value + 1000);
        let mut buffer = copying(&device, &values, &mut target);
        leave_a_failure(&device);
        buffer.values_mut().expect("it waits").fill(0);
        assert!(device.synchronize().is_err(), "seed {seed}: there was no failure");
        assert_eq!(there(&target), values, "seed {seed}: written over after a failure of before");

        // A copy that nothing stands for.
        let values = values.map(|value| value + 1000);
        buffer.values_mut().expect("it waits").copy_from_slice(&values);
        emulator.fail(Call::Record, REFUSED);
        let refusal = device.copy_pinned(&mut buffer, 3, &mut target, 0).expect_err("recording fails").to_string();
        assert!(refusal.starts_with("recording an event: "), "{refusal}");
        emulator.fail(Call::Record, 0);
        buffer.values_mut().expect("it waits").fill(0);
        assert_eq!(there(&target), values, "seed {seed}: written over without an event");

        // Where nobody can wait, the memory is never given back.
        let values = values.map(|value| value + 1000);
        buffer.values_mut().expect("it waits").copy_from_slice(&values);
        device.copy_pinned(&mut buffer, 3, &mut target, 0).expect("it is asked for");
        emulator.fail(Call::Wait, REFUSED);
        buffer.values_mut().expect_err("it cannot wait");
        drop(buffer);
        emulator.fail(Call::Wait, 0);
        assert_eq!(there(&target), values, "seed {seed}: dropped without a wait");
    }
    emulator.defer(0);
}

/// The same for values that come from the device.
#[test]
fn whatever_fails_pinned_memory_stays_until_values_have_come() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::open();
    let device = device();
    for seed in 1..=8 {
        emulator.defer(seed);
        let values = [seed as u32, 7, 9];
        let source = device.upload(&values).expect("there is memory");
        for is_read_again in [false, true] {
            let mut readback = device.readback::<u32>(3).expect("pinned memory");
            emulator.fail(Call::Wait, REFUSED);
            let refusal = readback.read(&device, &source).expect_err("it cannot wait").to_string();
            assert!(refusal.starts_with("running kernels: "), "{refusal}");
            emulator.fail(Call::Wait, 0);
            if is_read_again {
                assert_eq!(readback.read(&device, &source).expect("it is there"), values, "seed {seed}");
            }
            drop(readback);
            device.synchronize().unwrap_or_else(|error| panic!("seed {seed}: given back too early: {error}"));
        }
        let mut readback = device.readback::<u32>(3).expect("pinned memory");
        emulator.fail(Call::Wait, REFUSED);
        readback.read(&device, &source).expect_err("it cannot wait");
        drop(readback);
        emulator.fail(Call::Wait, 0);
        device.synchronize().unwrap_or_else(|error| panic!("seed {seed}: given back without a wait: {error}"));
    }
    emulator.defer(0);
}

/// Captured work has the addresses of what it copies, and nobody can wait for copies that it will make.
#[test]
fn pinned_memory_that_captured_work_copies_stays() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let device = device();
    let mut target = device.zeros::<u32>(2).expect("there is memory");
    let mut buffer = device.pinned::<u32>(2).expect("pinned memory");
    buffer.values_mut().expect("nothing uses it").copy_from_slice(&[5, 6]);
    let graph = device.capture(|| device.copy_pinned(&mut buffer, 2, &mut target, 0));
    let mut graph = graph.expect("a copy can be captured");
    buffer.values_mut().expect_err("they may be copied at any time");
    drop(buffer);
    for _ in 0..2 {
        device.launch_graph(&mut graph).expect("it is as it was captured");
        assert_eq!(device.download(&target).expect("the device works"), [5, 6]);
    }
}
