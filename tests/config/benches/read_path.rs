//! What a setting's read costs, beside a plain struct, the usual ways to share one, and other libraries.
//!
//! `cargo bench -p config-tests --bench read_path`. Each figure is the median of many samples (the mean of four,
//! each for the loop at another place), taken in turn so that a
//! noisy moment falls on all alike, each shorter than what a scheduler gives to others; loop overhead is in all of them. Ratios that have a bar are shown beside it. Nothing
//! fails: a time depends on the machine.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use config::Config;
use figment::Figment;
use figment::providers::Serialized;
use kitbag::ConfigNamespaces;
use serde::{Deserialize, Serialize};

/// At each place of a case's loop.
const SAMPLES: usize = 151;

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
#[derive(Serialize, Deserialize)]
struct Plain {
    pool: Pool,
    http: Http,
}

#[derive(Serialize, Deserialize)]
struct Pool {
    workers: usize,
    queue: usize,
}

#[derive(Serialize, Deserialize)]
struct Http {
    port: u16,
}

impl Plain {
    fn new() -> Self {
        Self { pool: Pool { workers: black_box(3), queue: black_box(32) }, http: Http { port: black_box(80) } }
    }
}

/// Values that each change on their own, found by a handle or by their name: the way of mz-dyncfg.
struct Atomics(HashMap<&'static str, Arc<AtomicUsize>>);

impl Atomics {
    fn new() -> Self {
        let values = [("pool.workers", 3), ("pool.queue", 32), ("http.port", 80)];
        Self(values.into_iter().map(|(name, value)| (name, Arc::new(AtomicUsize::new(value)))).collect())
    }

    fn handle(&self, name: &str) -> Arc<AtomicUsize> {
        Arc::clone(&self.0[name])
    }
}

/// A way to read, timed.
struct Case<'a> {
    name: &'static str,
    sample: Box<dyn FnMut() -> f64 + 'a>,
}

/// A read without a write to memory.
fn fast<'a>(name: &'static str, read: impl FnMut() -> usize + 'a) -> Case<'a> {
    timed(name, 200_000, read)
}

/// A read of some nanoseconds.
fn medium<'a>(name: &'static str, read: impl FnMut() -> usize + 'a) -> Case<'a> {
    timed(name, 10_000, read)
}

/// A read of a fraction of a microsecond or more.
fn slow<'a>(name: &'static str, read: impl FnMut() -> usize + 'a) -> Case<'a> {
    timed(name, 300, read)
}

fn timed<'a>(name: &'static str, reads: u32, mut read: impl FnMut() -> usize + 'a) -> Case<'a> {
    let mut turn = 0;
    let sample = move || {
        turn = (turn + 1) % PLACEMENTS;
        match turn {
            0 => per_read::<0>(reads, &mut read),
            1 => deeper(1, &mut || per_read::<1>(reads, &mut read)),
            2 => deeper(2, &mut || per_read::<2>(reads, &mut read)),
            _ => deeper(3, &mut || per_read::<3>(reads, &mut read)),
        }
    };
    Case { name, sample: Box::new(sample) }
}

/// Where a loop of few instructions starts within 64 bytes can double its time, so each case is compiled at four places,
/// the compiler aligning loops to 16 bytes.
const PLACEMENTS: usize = 4;

/// Runs something some frames further down the stack: where on it a pointer lies matters as much.
#[inline(never)]
fn deeper(frames: usize, run: &mut dyn FnMut() -> f64) -> f64 {
    if frames == 0 { run() } else { black_box(deeper(black_box(frames) - 1, run)) }
}

/// Nanoseconds per read. The value read is used, as it would be in a program: it has to arrive.
#[inline(never)]
fn per_read<const PLACEMENT: usize>(reads: u32, read: &mut impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    for place in 0..PLACEMENT {
        // 16 bytes of code or so.
        black_box((place, PLACEMENT));
    }
    for _ in 0..reads {
        black_box(read());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(reads)
}

/// The mean of what is usual at each place: whether a loop of two cycles takes a third one is not decided by one of them.
fn usual(samples: &[f64]) -> f64 {
    let at = |place: usize| median(samples.iter().copied().skip(place).step_by(PLACEMENTS).collect());
    (0..PLACEMENTS).map(at).sum::<f64>() / PLACEMENTS as f64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

const PLAIN: &str = "plain struct field";
const PINNED: &str = "kitbag: leaf through a pin";
const DERIVED: &str = "kitbag: derived value through a pin";
const LIVE: &str = "kitbag: leaf through a live reader";
const PIN: &str = "kitbag: pin, read, drop";
const NAMED: &str = "kitbag: by name";
const NAMED_LIVE: &str = "kitbag: by name, live reader";
const LOAD: &str = "ArcSwap::load, read";
const LOAD_FULL: &str = "ArcSwap::load_full, read";

fn main() {
    let plain = Box::new(Plain::new());
    let cfg = Args::for_test(|_| {});
    let now = cfg.pin();
    let bag = now.pool();
    let (mut reader, mut derived_reader, mut named_reader) = (cfg.reader(), cfg.reader(), cfg.reader());
    let swap = ArcSwap::from_pointee(Plain::new());
    let lock = RwLock::new(Plain::new());
    let atomics = Atomics::new();
    let handle = atomics.handle("pool.queue");
    let built = Config::builder().add_source(Config::try_from(&*plain).expect("valid")).build().expect("valid");
    let figment = Figment::from(Serialized::defaults(&*plain));
    // `black_box` on the handle makes every read start from it again, so that no load is hoisted out of the loop.
    let mut cases = vec![
        fast(PLAIN, || black_box(&plain).pool.workers),
        fast("plain struct field, address in register", || black_box(&*plain).pool.workers),
        fast(PINNED, || black_box(&now).pool().workers()),
        fast("kitbag: hot leaf through a pin", || *black_box(&now).pool().queue()),
        fast(DERIVED, || *black_box(&now).pool().capacity()),
        fast("kitbag: leaf of a bag in hand", || black_box(bag).workers()),
        fast(LIVE, || black_box(&mut reader).now().pool().workers()),
        fast("kitbag: derived value, live reader", || *black_box(&mut derived_reader).now().pool().capacity()),
        medium(PIN, || black_box(&cfg).pin().pool().workers()),
        medium(NAMED, || usize::from(black_box(cfg.value(black_box("pool.queue"))).is_some())),
        medium(NAMED_LIVE, || usize::from(black_box(named_reader.value(black_box("pool.queue"))).is_some())),
        fast("atomic by handle", || black_box(&handle).load(Ordering::Relaxed)),
        medium("atomic by name", || black_box(&atomics).0[black_box("pool.queue")].load(Ordering::Relaxed)),
        medium(LOAD, || black_box(&swap).load().pool.queue),
        medium(LOAD_FULL, || black_box(&swap).load_full().pool.queue),
        medium("RwLock<Struct>, read", || black_box(&lock).read().map_or(0, |plain| plain.pool.queue)),
        slow("config: get, by name", || black_box(&built).get(black_box("pool.queue")).unwrap_or(0)),
        slow("figment: extract_inner, by name", || {
            black_box(&figment).extract_inner(black_box("pool.queue")).unwrap_or(0)
        }),
        slow("figment: extract, the whole struct", || {
            black_box(&figment).extract::<Plain>().map_or(0, |plain| plain.pool.queue + usize::from(plain.http.port))
        }),
    ];
    let mut samples = vec![Vec::with_capacity(PLACEMENTS * SAMPLES); cases.len()];
    for round in 0..PLACEMENTS * (SAMPLES + 1) {
        for (case, samples) in cases.iter_mut().zip(&mut samples) {
            let value = (case.sample)();
            // The first rounds warm caches and clocks.
            if round >= PLACEMENTS {
                samples.push(value);
            }
        }
    }
    let medians: Vec<_> = samples.iter().map(|samples| usual(samples)).collect();
    let of = |name: &str| cases.iter().position(|case| case.name == name).map_or(f64::NAN, |index| medians[index]);
    println!("{:<40} {:>9} {:>9}", "", "ns", "ratio");
    for (case, value) in cases.iter().zip(&medians) {
        println!("{:<40} {value:>9.2} {:>9.2}", case.name, value / of(PLAIN));
    }
    println!("\n{:<40} {:>9} {:>9}", "", "measured", "at most");
    for (name, measured, bar) in [
        ("leaf through a pin / plain field", of(PINNED) / of(PLAIN), 1.3),
        ("derived value / leaf, through a pin", of(DERIVED) / of(PINNED), 1.1),
        ("live reader / plain field", of(LIVE) / of(PLAIN), 3.0),
        ("live reader / ArcSwap::load", of(LIVE) / of(LOAD), 1.0 / 3.0),
        ("pin / ArcSwap::load_full", of(PIN) / of(LOAD_FULL), 2.0),
        ("by name, ns", of(NAMED), 30.0),
        ("by name, live reader, ns", of(NAMED_LIVE), 30.0),
    ] {
        println!("{name:<40} {measured:>9.2} {bar:>9.2}");
    }
}
