//! Reads on one thread and on two, alone and while a writer changes what is read:
//! `cargo bench -p config-tests --bench threads`.
//!
//! All reads of a sample are counted against the time from the first to the last. The best sample is shown: what else
//! runs on the machine only takes away. A machine with fewer than two idle cores cannot show the gain of a second thread.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use kitbag::{ConfigNamespaces, Context};

const SAMPLE: Duration = Duration::from_millis(2);
const SAMPLES: usize = 300;
/// Reads between two looks at the clock.
const BATCH: u32 = 1_000;
/// What a writer rests after a change.
const PAUSE: Duration = Duration::from_micros(200);

/// The schema under test.
#[derive(ConfigNamespaces)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 3)]
    workers: usize,
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, hot)]
    queue: usize,
}

/// What a program would write by hand.
struct Plain {
    queue: usize,
}

/// Something that is read by many and changed by one.
trait Shared: Clone + Send {
    /// Reads `BATCH` times.
    fn read_batch(&mut self);
    fn write(&self, queue: usize);
}

/// Reads go through a live reader, which each thread has for itself.
struct Live(Context<Args>, kitbag::Reader<Args>);

impl Clone for Live {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.0.reader())
    }
}

impl Shared for Live {
    fn read_batch(&mut self) {
        for _ in 0..BATCH {
            black_box(*black_box(&mut self.1).now().pool().queue());
        }
    }

    fn write(&self, queue: usize) {
        self.0.override_permanently("bench", |o| o.pool().queue(queue)).expect("valid");
    }
}

/// Each read pins.
#[derive(Clone)]
struct Pinning(Context<Args>);

impl Shared for Pinning {
    fn read_batch(&mut self) {
        for _ in 0..BATCH {
            black_box(*black_box(&self.0).pin().pool().queue());
        }
    }

    fn write(&self, queue: usize) {
        self.0.override_permanently("bench", |o| o.pool().queue(queue)).expect("valid");
    }
}

impl Shared for Arc<ArcSwap<Plain>> {
    fn read_batch(&mut self) {
        for _ in 0..BATCH {
            black_box(black_box(&*self).load().queue);
        }
    }

    fn write(&self, queue: usize) {
        self.store(Arc::new(Plain { queue }));
    }
}

impl Shared for Arc<RwLock<Plain>> {
    fn read_batch(&mut self) {
        for _ in 0..BATCH {
            black_box(RwLock::read(black_box(&*self)).expect("nobody panics").queue);
        }
    }

    fn write(&self, queue: usize) {
        RwLock::write(self).expect("nobody panics").queue = queue;
    }
}

/// Millions of reads per second, of the best sample.
fn throughput(shared: &impl Shared, readers: usize, writes: bool) -> f64 {
    (0..SAMPLES).map(|_| sample(shared, readers, writes)).fold(0.0, f64::max)
}

fn sample(shared: &impl Shared, readers: usize, writes: bool) -> f64 {
    let start = Barrier::new(readers);
    let done = AtomicBool::new(!writes);
    thread::scope(|scope| {
        let (writer, done) = (shared.clone(), &done);
        scope.spawn(move || {
            for queue in (1..=64).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                writer.write(queue);
                thread::sleep(PAUSE);
            }
        });
        let readers = (0..readers).map(|_| {
            let (mut shared, start) = (shared.clone(), &start);
            scope.spawn(move || {
                start.wait();
                let begin = Instant::now();
                let mut batches = 0_u32;
                while begin.elapsed() < SAMPLE {
                    shared.read_batch();
                    batches += 1;
                }
                (begin, Instant::now(), batches)
            })
        });
        // All are started before the first is waited for.
        let readers: Vec<_> = readers.collect();
        let results: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("a reader ends")).collect();
        done.store(true, Ordering::Relaxed);
        let first = results.iter().map(|result| result.0).min().expect("a reader");
        let last = results.iter().map(|result| result.1).max().expect("a reader");
        let batches: u32 = results.iter().map(|result| result.2).sum();
        f64::from(batches) * f64::from(BATCH) / 1e6 / (last - first).as_secs_f64()
    })
}

fn show(name: &str, shared: &impl Shared) {
    let alone = [1, 2].map(|readers| throughput(shared, readers, false));
    let written = [1, 2].map(|readers| throughput(shared, readers, true));
    println!(
        "{name:<28} {:>8.1} {:>8.1} {:>6.2} {:>11.1} {:>8.1} {:>6.2} {:>14.2}",
        alone[0],
        alone[1],
        alone[1] / alone[0],
        written[0],
        written[1],
        written[1] / written[0],
        written[1] / alone[1]
    );
}

fn main() {
    println!(
        "{:<28} {:<24} {:<27} {:>14}",
        "millions of reads per second", "        alone", "       with a writer", "with / alone"
    );
    println!(
        "{:<28} {:>8} {:>8} {:>6} {:>11} {:>8} {:>6} {:>14}",
        "", "1 thread", "2", "ratio", "1 thread", "2", "ratio", "2 threads"
    );
    let cfg = Args::for_test(|_| {});
    show("kitbag: live reader", &Live(cfg.clone(), cfg.reader()));
    show("kitbag: pin, read, drop", &Pinning(cfg));
    show("ArcSwap::load, read", &Arc::new(ArcSwap::from_pointee(Plain { queue: 32 })));
    show("RwLock<Struct>, read", &Arc::new(RwLock::new(Plain { queue: 32 })));
}
