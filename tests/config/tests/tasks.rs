//! Many tasks on two threads, each under an override of its own: none sees another's.
//!
//! `cargo test --release -p config-tests --test tasks -- --ignored` makes ten million reads.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread;
use std::time::Duration;

use config_tests::{Schedule, Service};
use kitbag::{ConfigNamespaces, Context};

const TASKS: usize = 64;
/// Reads of a task before it goes to the other thread.
const READS: usize = 8;

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[test]
fn no_cross_talk_in_half_a_million_reads() {
    no_cross_talk(500_000);
}

#[test]
#[ignore = "takes a minute without optimisation; CI makes a twentieth of the reads"]
fn no_cross_talk_in_ten_million_reads() {
    no_cross_talk(10_000_000);
}

fn no_cross_talk(least: usize) {
    // Even, so that each thread polls as often as the other.
    let polls = least.div_ceil(TASKS * READS).next_multiple_of(2);
    let cfg = Args::for_test(|_| {});
    let reads = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let (left, right) = (channel(), channel());
    for number in 1..=TASKS {
        let work = work(cfg.clone(), number, polls);
        let task = cfg.scope("a task's own", |o| o.schedule().chunk(number), work).expect("valid");
        let to = if number % 2 == 0 { &left.0 } else { &right.0 };
        to.send(Box::pin(task) as Task).expect("its receiver is here");
    }
    thread::scope(|scope| {
        let both = [(left.1, right.0), (right.1, left.0)].map(|(from, to)| {
            let reads = &reads;
            scope.spawn(move || reads.fetch_add(poll_all(&from, &to, TASKS * polls / 2), Ordering::Relaxed))
        });
        // Changes for everybody, so that what a scope has cached is made anew again and again.
        scope.spawn(|| {
            for step in (1..=20_u8).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                let temperature = f32::from(step) / 10.0;
                cfg.override_permanently("for all", |o| o.service().temperature(temperature)).expect("valid");
                thread::sleep(Duration::from_millis(1));
            }
        });
        let results = both.map(thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a task saw what was not its own");
    });
    assert!(reads.into_inner() >= least);
    assert_eq!(*cfg.pin().schedule().chunk(), 512, "nothing is left behind");
}

/// Polls what comes in and hands it to the other thread; returns the number of reads.
fn poll_all(from: &Receiver<Task>, to: &Sender<Task>, polls: usize) -> usize {
    let mut context = TaskContext::from_waker(Waker::noop());
    for _ in 0..polls {
        let mut task = from.recv().expect("the other thread goes on");
        if task.as_mut().poll(&mut context).is_pending() {
            to.send(task).expect("the other thread goes on");
        }
    }
    polls * READS
}

/// Ready at the last of so many polls; reads at each.
async fn work(cfg: Context<Args>, own: usize, polls: usize) {
    let mut polled = 0;
    poll_fn(|_| {
        for _ in 0..READS {
            let now = cfg.pin();
            let schedule = now.schedule();
            assert_eq!(*schedule.chunk(), own);
        }
        polled += 1;
        if polled == polls { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
