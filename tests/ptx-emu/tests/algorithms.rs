//! Whole kernels give right numbers and pass all checkers, under any schedule.

mod support;

use ptx_emu::{LaunchConfig, Params, Schedule};
use support::{Device, noise, unit};

const PTX: &str = include_str!("ptx/algorithms.ptx");

/// The orders every kernel is run in.
fn schedules() -> impl Iterator<Item = Schedule> {
    [Schedule::InOrder].into_iter().chain((0..4).map(Schedule::Random))
}

fn device(schedule: Schedule) -> Device {
    let mut device = Device::new(PTX);
    device.options.schedule = schedule;
    device
}

#[test]
fn a_block_sums_with_shuffles_and_shared_memory() {
    for schedule in schedules() {
        let mut device = device(schedule);
        let values: Vec<u32> = (0..3 * 1000).collect();
        let floats: Vec<u32> = values.iter().map(|&value| (value as f32).to_bits()).collect();
        let (input, output) = (device.upload(&floats), device.buffer(3));
        let config = LaunchConfig::new([3, 1, 1], [256, 1, 1]);
        device.launch("block_sum", config, &Params::new().u64(input).u64(output).i32(1000)).unwrap();
        let sums = device.download(output, 3).into_iter().map(f32::from_bits).collect::<Vec<_>>();
        // All partial sums are integers below 2^24, so order does not matter.
        assert_eq!(sums, [499_500.0, 1_499_500.0, 2_499_500.0]);
    }
}

#[test]
fn a_scan_in_dynamic_shared_memory() {
    for schedule in schedules() {
        let mut device = device(schedule);
        let values = noise(300, 1);
        let (input, output) = (device.upload(&values), device.buffer(300));
        let config = LaunchConfig::new([1, 1, 1], [300, 1, 1]).dynamic_shared(300 * 4);
        device.launch("scan", config, &Params::new().u64(input).u64(output)).unwrap();
        let mut sum = 0_u32;
        let expected: Vec<_> = values
            .iter()
            .map(|&value| {
                sum = sum.wrapping_add(value);
                sum
            })
            .collect();
        assert_eq!(device.download(output, 300), expected);
    }
}

#[test]
fn tensor_cores_multiply_matrices() {
    let (depth, rows) = (80, 11);
    // bf16 values, two to a word.
    let half = |values: &[f32]| values.iter().map(|value| value.to_bits() >> 16).collect::<Vec<_>>();
    let words = |halves: &[u32]| halves.chunks_exact(2).map(|two| two[0] | two[1] << 16).collect::<Vec<_>>();
    let number = |half: u32| f64::from(f32::from_bits(half << 16));
    let a = half(&unit(&noise(16 * depth, 2)));
    let b = half(&unit(&noise(16 * depth, 3)));
    for schedule in schedules() {
        let mut device = device(schedule);
        let (pa, pb, pc) = (device.upload(&words(&a)), device.upload(&words(&b)), device.buffer(256));
        let params = Params::new().u64(pa).u64(pb).u64(pc).i32(depth as i32).i32(rows);
        let stats = device.run("tile_product", 32, &params).unwrap();
        assert_eq!(stats.matrix_instructions, 2 * depth as u64 / 16);
        let c = device.download(pc, 256);
        for (index, &got) in c.iter().enumerate() {
            let (m, n) = (index / 16, index % 16);
            let expected: f64 = (0..depth).map(|k| number(a[m * depth + k]) * number(b[n * depth + k])).sum();
            let expected = if m < rows as usize { expected } else { 0.0 };
            assert!((f64::from(f32::from_bits(got)) - expected).abs() < 1e-4, "{m} {n}");
        }
    }
}

#[test]
fn lanes_loop_apart_and_meet_again() {
    let mut device = device(Schedule::InOrder);
    let starts: Vec<u32> = (1..=32).collect();
    let (input, output) = (device.upload(&starts), device.buffer(32));
    let stats = device.run("collatz", 32, &Params::new().u64(input).u64(output)).unwrap();
    let steps: Vec<u32> = starts
        .iter()
        .map(|&start| {
            let (mut n, mut steps) = (start, 0);
            while n != 1 {
                n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
                steps += 1;
            }
            steps
        })
        .collect();
    let long = steps.iter().filter(|&&steps| steps > 10).count() as u32;
    assert_eq!(device.download(output, 32), steps.iter().map(|&s| s + 1000 * long).collect::<Vec<_>>());
    assert!(stats.divergent_branches > 0);
    assert!(stats.lane_instructions < stats.warp_instructions * 32);
}

#[test]
fn blocks_add_to_one_histogram() {
    let bytes: Vec<u32> = noise(500, 9);
    let mut expected = [0; 16];
    for word in &bytes {
        for byte in word.to_le_bytes() {
            expected[usize::from(byte & 15)] += 1;
        }
    }
    for schedule in schedules() {
        let mut device = device(schedule);
        let (input, output) = (device.upload(&bytes), device.upload(&[0; 16]));
        let config = LaunchConfig::new([5, 1, 1], [96, 1, 1]);
        device.launch("histogram", config, &Params::new().u64(input).u64(output).i32(2000)).unwrap();
        assert_eq!(device.download(output, 16), expected);
    }
}

#[test]
fn named_barriers_order_producer_and_consumer() {
    for schedule in schedules() {
        let mut device = device(schedule);
        let values = noise(4 * 64, 5);
        let (input, output) = (device.upload(&values), device.buffer(4 * 64));
        device.run("pipeline", 128, &Params::new().u64(input).u64(output).i32(4)).unwrap();
        let expected: Vec<u32> =
            values.chunks(64).flat_map(|part| part.iter().rev().map(|value| value.wrapping_add(1))).collect();
        assert_eq!(device.download(output, 4 * 64), expected);
    }
}

#[test]
fn counters_are_the_same_on_every_run() {
    let run = || {
        let mut device = device(Schedule::InOrder);
        let (input, output) = (device.upload(&noise(300, 1)), device.buffer(300));
        let config = LaunchConfig::new([1, 1, 1], [300, 1, 1]).dynamic_shared(300 * 4);
        device.launch("scan", config, &Params::new().u64(input).u64(output)).unwrap()
    };
    let stats = run();
    assert_eq!(stats, run());
    assert_eq!((stats.global_load_bytes, stats.global_store_bytes), (1200, 1200));
    // 10 warps: once after the load and twice for each of 9 distances.
    assert_eq!(stats.barriers, 10 * 19);
}
