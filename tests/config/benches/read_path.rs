//! What a setting's read costs, beside a plain struct and the usual ways to share one.
//!
//! `cargo bench -p config-tests --bench read_path`. Each figure is the median of many samples, taken in turn so that a
//! noisy moment falls on all alike; loop overhead is in all of them.

use std::hint::black_box;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use kitbag::ConfigNamespaces;

const READS: u32 = 1_000_000;
const SAMPLES: usize = 41;

/// The schema under test.
#[derive(ConfigNamespaces)]
#[config(derived(pool.capacity: usize = capacity(pool.workers, pool.queue)))]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 3)]
    workers: usize,
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, hot)]
    queue: usize,
    /// Port.
    #[config(ns = "http", default = 80)]
    port: u16,
}

fn capacity(workers: usize, queue: usize) -> usize {
    workers * queue
}

/// What a program would write by hand.
struct Plain {
    workers: usize,
    queue: usize,
}

/// A way to read, timed.
type Case<'a> = (&'static str, Box<dyn FnMut() -> f64 + 'a>);

/// Nanoseconds per read. The value read is used, as it would be in a program: it has to arrive.
fn sample(mut read: impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    for _ in 0..READS {
        black_box(read());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let plain = Box::new(Plain { workers: black_box(3), queue: black_box(32) });
    let cfg = Args::for_test(|_| {});
    let now = cfg.pin();
    let bag = now.pool();
    let swap = ArcSwap::from_pointee(Plain { workers: 3, queue: 32 });
    let lock = RwLock::new(Arc::new(Plain { workers: 3, queue: 32 }));
    // `black_box` on the handle makes every read start from it again, so that no load is hoisted out of the loop.
    let mut cases: Vec<Case<'_>> = vec![
        ("plain struct field", Box::new(|| sample(|| black_box(&plain).workers))),
        ("plain struct field, address in register", Box::new(|| sample(|| black_box(&*plain).workers))),
        ("kitbag: leaf through a pin", Box::new(|| sample(|| black_box(&now).pool().workers()))),
        ("kitbag: hot leaf through a pin", Box::new(|| sample(|| *black_box(&now).pool().queue()))),
        ("kitbag: derived value through a pin", Box::new(|| sample(|| *black_box(&now).pool().capacity()))),
        ("kitbag: leaf of a bag in hand", Box::new(|| sample(|| black_box(bag).workers()))),
        ("kitbag: pin, read, drop", Box::new(|| sample(|| black_box(&cfg).pin().pool().workers()))),
        ("ArcSwap::load, read", Box::new(|| sample(|| black_box(&swap).load().queue))),
        ("ArcSwap::load_full, read", Box::new(|| sample(|| black_box(&swap).load_full().queue))),
        ("RwLock read, read", Box::new(|| sample(|| black_box(&lock).read().map_or(0, |plain| plain.queue)))),
    ];
    let mut samples = vec![Vec::with_capacity(SAMPLES); cases.len()];
    for round in 0..=SAMPLES {
        for (case, samples) in cases.iter_mut().zip(&mut samples) {
            let value = case.1();
            // The first round warms caches and clocks.
            if round > 0 {
                samples.push(value);
            }
        }
    }
    let medians: Vec<_> = samples.into_iter().map(median).collect();
    println!("{:<40} {:>8} {:>8}", "", "ns", "ratio");
    for ((name, _), value) in cases.iter().zip(&medians) {
        println!("{name:<40} {value:>8.3} {:>8.2}", value / medians[0]);
    }
}
