//! Tasks with overrides of their own on two threads: what a scope sets goes with its task and meets no other.
//!
//! The executor is a queue and two threads, so that nothing stands between the example and what it shows.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use kitbag::{ConfigNamespaces, Context, Errors};

/// Makes thumbnails, each with a width of its own.
#[derive(ConfigNamespaces)]
#[config(env = "WORKERS", derived(job.pixels: usize = pixels(job.width, job.height)))]
struct Args {
    /// Threads that poll tasks.
    #[config(ns = "pool", default = 2, range = 1..=64)]
    threads: usize,
    /// Tasks.
    #[config(ns = "pool", default = 64, range = 1..=4096)]
    tasks: usize,
    /// Steps of a task.
    #[config(ns = "pool", default = 50, range = 1..=100_000)]
    steps: usize,
    /// Width of a thumbnail.
    #[config(ns = "job", default = 8000, range = 1..=8192, hot)]
    width: usize,
    /// Height of a thumbnail.
    #[config(ns = "job", default = 480, range = 1..=8192, hot)]
    height: usize,
}

fn pixels(width: usize, height: usize) -> usize {
    width * height
}

fn main() -> Result<(), Errors> {
    let cfg = Args::load()?;
    let report = run(&cfg)?;
    println!("{report}");
    Ok(())
}

/// What the tasks saw.
#[derive(Debug, Default, PartialEq)]
struct Report {
    threads: usize,
    tasks: usize,
    /// Reads that found the task's own width, and pixels that fit it.
    own: usize,
    /// Reads that found anything else.
    foreign: usize,
    /// Widths seen by what a task spawned with [`Context::carry`].
    carried: BTreeSet<usize>,
    /// Widths seen by what a task spawned without.
    plain: BTreeSet<usize>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} tasks on {} threads", self.tasks, self.threads)?;
        writeln!(f, "own width {} times, a foreign one {} times", self.own, self.foreign)?;
        write!(f, "spawned: {} widths carried, {:?} without", self.carried.len(), self.plain)
    }
}

/// Runs every task under an override of its own.
fn run(cfg: &Context<Args>) -> Result<Report, Errors> {
    let now = cfg.pin();
    let (threads, tasks) = (now.pool().threads(), now.pool().tasks());
    let report = Arc::new(Mutex::new(Report { threads, tasks, ..Report::default() }));
    let executor = Arc::new(Executor::default());
    for task in 1..=tasks {
        let work = make_thumbnail(cfg.clone(), task, Arc::clone(&executor), Arc::clone(&report));
        executor.spawn(cfg.scope(
            "a task's own width",
            |o| {
                o.job().width(task);
            },
            work,
        )?);
    }
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| executor.work());
        }
        // A change for everybody shows through the scopes, and the derived value follows both.
        for height in (1..=200).cycle().take_while(|_| !executor.is_done()) {
            let higher = cfg.override_with("higher", |o| o.job().height(height));
            drop(higher);
            std::thread::yield_now();
        }
    });
    Ok(std::mem::take(&mut lock(&report)))
}

async fn make_thumbnail(cfg: Context<Args>, width: usize, executor: Arc<Executor>, report: Arc<Mutex<Report>>) {
    let (mut own, mut foreign) = (0, 0);
    for _ in 0..cfg.pin().pool().steps() {
        {
            let now = cfg.pin();
            let job = now.job();
            let fits = job.width() == width && job.pixels() == width * *job.height();
            *(if fits { &mut own } else { &mut foreign }) += 1;
        }
        // The next step may run on the other thread.
        yield_now().await;
    }
    {
        let mut report = lock(&report);
        report.own += own;
        report.foreign += foreign;
    }
    let look = |cfg: Context<Args>, report: Arc<Mutex<Report>>, carried| async move {
        let width = *cfg.pin().job().width();
        let mut report = lock(&report);
        let seen = if carried { &mut report.carried } else { &mut report.plain };
        seen.insert(width);
    };
    // A spawned task starts without overrides, unless they are handed to it.
    executor.spawn(cfg.carry(look(cfg.clone(), Arc::clone(&report), true)));
    executor.spawn(look(cfg.clone(), report, false));
}

/// Tasks that can go on, and how many are not done.
#[derive(Default)]
struct Executor {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<Task>>,
    unfinished: usize,
}

/// A future, `None` once it is done.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    executor: Arc<Executor>,
}

impl Executor {
    fn spawn(self: &Arc<Self>, future: impl Future<Output = ()> + Send + 'static) {
        let task = Task { future: Mutex::new(Some(Box::pin(future))), executor: Arc::clone(self) };
        lock(&self.state).unfinished += 1;
        Arc::new(task).wake();
    }

    fn is_done(&self) -> bool {
        lock(&self.state).unfinished == 0
    }

    /// Polls what is ready until every task is done.
    fn work(&self) {
        while let Some(task) = self.next() {
            let mut future = lock(&task.future);
            let Some(running) = future.as_mut() else { continue };
            let waker = Waker::from(Arc::clone(&task));
            if running.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_ready() {
                *future = None;
                lock(&self.state).unfinished -= 1;
                self.changed.notify_all();
            }
        }
    }

    fn next(&self) -> Option<Arc<Task>> {
        let mut state = lock(&self.state);
        while state.ready.is_empty() && state.unfinished > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.ready.pop_front()
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = Arc::clone(&self.executor);
        lock(&executor.state).ready.push_back(self);
        executor.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets other tasks run.
async fn yield_now() {
    let mut polled = false;
    poll_fn(|task| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_task_sees_anothers_width() {
        let cfg = Args::for_test(|_| {});
        let report = run(&cfg).unwrap();
        assert_eq!((report.threads, report.tasks, report.own, report.foreign), (2, 64, 64 * 50, 0));
        assert_eq!(report.carried, (1..=64).collect());
        assert_eq!(report.plain, [8000].into());
        // Nothing is left when all are done.
        let now = cfg.pin();
        assert_eq!((*now.job().width(), *now.job().height(), *now.job().pixels()), (8000, 480, 8000 * 480));
    }

    #[test]
    fn a_width_that_is_out_of_range_is_refused_before_anything_runs() {
        let cfg = Args::for_test(|o| o.pool().tasks(4096));
        assert!(
            run(&Args::for_test(|o| {
                o.pool().tasks(3);
                o.pool().steps(1);
            }))
            .is_ok()
        );
        let refused = cfg
            .scope(
                "too wide",
                |o| {
                    o.job().width(8193);
                },
                async {},
            )
            .map(drop);
        assert!(refused.unwrap_err().to_string().contains("job.width: 8193 is outside 1..=8192"));
    }
}
