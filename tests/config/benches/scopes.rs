//! What live scopes cost those who are not in them: `cargo bench -p config-tests --bench scopes`.
//!
//! Medians of many short samples, without and with ten thousand scopes, in turn.

use std::future::{Future, pending};
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context as TaskContext, Waker};
use std::time::Instant;

use config_tests::Schedule;
use kitbag::{ConfigNamespaces, Context, Reader};

const SCOPES: usize = 10_000;
const SAMPLES: usize = 401;

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
}

/// A context of its own, and scopes over it that wait.
struct Subject {
    cfg: Context<Args>,
    reader: Reader<Args>,
    pin: <Args as ConfigNamespaces>::Pin<kitbag::Everything>,
    scopes: Vec<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Subject {
    fn new(scopes: usize) -> Self {
        let cfg = Args::for_test(|_| {});
        let mut task = TaskContext::from_waker(Waker::noop());
        let scopes = (1..=scopes).map(|number| {
            let chunk = 1 + number % 4096;
            let mut scope: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(cfg.scope("task", |o| o.schedule().chunk(chunk), wait(cfg.clone())).expect("valid"));
            assert!(scope.as_mut().poll(&mut task).is_pending());
            scope
        });
        let scopes = scopes.collect();
        Self { reader: cfg.reader(), pin: cfg.pin(), cfg, scopes }
    }
}

/// Reads in its scope, so that the scope holds an epoch of its own, and never ends.
async fn wait(cfg: Context<Args>) {
    black_box(*cfg.pin().schedule().chunk());
    pending::<()>().await;
}

/// An operation and how often it is repeated for one sample.
struct Operation {
    name: &'static str,
    calls: u32,
    run: fn(&mut Subject) -> usize,
}

const OPERATIONS: [Operation; 5] = [
    Operation { name: "read through a pin", calls: 200_000, run: |on| *on.pin.schedule().chunk() },
    Operation { name: "read through a live reader", calls: 200_000, run: |on| *on.reader.now().schedule().chunk() },
    Operation { name: "pin, read, drop", calls: 10_000, run: |on| *on.cfg.pin().schedule().chunk() },
    Operation {
        name: "read by name",
        calls: 10_000,
        run: |on| usize::from(on.cfg.value(black_box("schedule.chunk")).is_some()),
    },
    Operation {
        name: "override commit and its removal",
        calls: 20,
        run: |on| {
            let guard = on.cfg.override_with("bench", |o| o.schedule().chunk(64)).expect("valid");
            usize::from(guard.is_suspended())
        },
    },
];

fn sample(operation: &Operation, on: &mut Subject) -> f64 {
    let start = Instant::now();
    for _ in 0..operation.calls {
        black_box((operation.run)(black_box(on)));
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(operation.calls)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let (mut without, mut with) = (Subject::new(0), Subject::new(SCOPES));
    println!(
        "{:<40} {:>10} {:>10} {:>8}",
        "ns, by number of live scopes",
        without.scopes.len(),
        with.scopes.len(),
        "ratio"
    );
    for operation in &OPERATIONS {
        let samples = (0..SAMPLES).map(|_| (sample(operation, &mut without), sample(operation, &mut with)));
        let (few, many): (Vec<_>, Vec<_>) = samples.collect();
        let (few, many) = (median(few), median(many));
        println!("{:<40} {few:>10.2} {many:>10.2} {:>8.2}", operation.name, many / few);
    }
}
