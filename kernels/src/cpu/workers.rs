//! The threads a caller lends to the CPU operations.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::Isa;

/// A pool of threads together with the instruction set they use.
///
/// Each engine owns one; two pools in one process do not share threads.
pub struct Workers {
    pool: rayon::ThreadPool,
    isa: Isa,
}

/// The operating system refused to start the threads.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {threads} worker threads: {source}")]
pub struct WorkersError {
    threads: NonZeroUsize,
    source: rayon::ThreadPoolBuildError,
}

/// Says so when what it is for is over, also by a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Takes part in the work of the pool, as the thread `own`, until it is done or there has been nothing to do for long.
///
/// The thread that runs the work can come here too, while it waits for a part of it; that one must go back. So must in the end
/// every thread, done or not: it may have come here in the middle of a part that it took before, of this work or of another
/// caller's, and one of them waits for that.
fn await_work(own: usize, runner: &AtomicUsize, is_done: &AtomicBool) {
    /// Questions without an answer after which others may have the processor: some microseconds.
    const PATIENCE: u32 = 256;
    /// More than what one thread does alone between two operations of a forward pass.
    const LONGEST_IDLE: Duration = Duration::from_micros(500);
    let (mut idle, mut since) = (0, Instant::now());
    while !is_done.load(Ordering::Acquire) && runner.load(Ordering::Relaxed) != own {
        match rayon::yield_now() {
            Some(rayon::Yield::Executed) => (idle, since) = (0, Instant::now()),
            _ if idle < PATIENCE => {
                idle += 1;
                std::hint::spin_loop();
            }
            _ if since.elapsed() > LONGEST_IDLE => return,
            _ => std::thread::yield_now(),
        }
    }
}

impl Workers {
    /// Starts `threads` threads that use the widest instructions of this processor.
    pub fn new(threads: NonZeroUsize) -> Result<Self, WorkersError> {
        Self::with_isa(threads, Isa::detect())
    }

    /// Starts `threads` threads that use the instructions `isa`.
    pub fn with_isa(threads: NonZeroUsize, isa: Isa) -> Result<Self, WorkersError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.get())
            .thread_name(|index| format!("kernel-{index}"))
            .build()
            .map_err(|source| WorkersError { threads, source })?;
        Ok(Self { pool, isa })
    }

    /// The number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Runs `work` on one of the threads; the operations inside then start without a hand-over.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// As [`Workers::run`], and the other threads stay awake for the operations inside until `work` is done.
    ///
    /// This is for work of many short operations: to wake a thread takes longer than one of them. The threads ask for work all
    /// the time; one that finds none for long lets others have its processor in between, and in the end goes to sleep.
    pub fn run_awake<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        if self.threads() == 1 {
            return self.run(work);
        }
        let (is_done, runner) = (AtomicBool::new(false), AtomicUsize::new(usize::MAX));
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, context| await_work(context.index(), &runner, &is_done));
            let _done = SetOnDrop(&is_done);
            self.pool.install(|| {
                runner.store(self.pool.current_thread_index().unwrap_or(usize::MAX), Ordering::Relaxed);
                work()
            })
        })
    }

    /// The first result, by index, that `find` has for an index below `count`. Calls run in parallel.
    pub fn find_first<R: Send>(&self, count: usize, find: impl Fn(usize) -> Option<R> + Sync + Send) -> Option<R> {
        self.run(|| (0..count).into_par_iter().find_map_first(find))
    }

    /// Calls `work(index, row)` for each row of `row_len` elements of `data`, in parallel.
    ///
    /// # Panics
    ///
    /// When `row_len` is zero or does not divide the length of `data`.
    pub fn for_each_row(&self, data: &mut [f32], row_len: usize, work: impl Fn(usize, &mut [f32]) + Sync + Send) {
        assert!(row_len > 0 && data.len().is_multiple_of(row_len), "{} elements are not rows of {row_len}", data.len());
        if data.len() == row_len {
            return work(0, data);
        }
        self.run(|| {
            data.par_chunks_exact_mut(row_len).enumerate().for_each(|(index, row)| work(index, row));
        });
    }

    /// The same for elements of any kind and work that needs room of its own, which `room` makes for some rows at a time.
    ///
    /// # Panics
    ///
    /// As [`Workers::for_each_row`].
    pub fn for_each_row_with<T: Send, R>(
        &self,
        data: &mut [T],
        row_len: usize,
        room: impl Fn() -> R + Sync + Send,
        work: impl Fn(&mut R, usize, &mut [T]) + Sync + Send,
    ) {
        assert!(row_len > 0 && data.len().is_multiple_of(row_len), "{} elements are not rows of {row_len}", data.len());
        self.run(|| {
            let rows = data.par_chunks_exact_mut(row_len).enumerate();
            rows.for_each_init(room, |room, (index, row)| work(room, index, row));
        });
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Workers;

    fn workers(threads: usize) -> Workers {
        Workers::new(NonZeroUsize::new(threads).expect("not zero")).expect("threads start")
    }

    /// Parallel rows one after another, as a forward pass has them; returns the number of rows.
    fn many_operations(workers: &Workers, operations: usize) -> usize {
        let rows = AtomicUsize::new(0);
        for _ in 0..operations {
            workers.for_each_row(&mut [0.0; 24], 2, |_, _| {
                rows.fetch_add(1, Ordering::Relaxed);
            });
        }
        rows.into_inner()
    }

    #[test]
    fn awake_threads_do_all_the_work_and_go_back_to_sleep() {
        for threads in [1, 2, 3, 5] {
            let workers = workers(threads);
            // Wherever the work starts, and however often: every call ends, which it would not if a thread waited for itself.
            for _ in 0..300 {
                assert_eq!(workers.run_awake(|| many_operations(&workers, 20)), 240);
            }
            assert_eq!(workers.run(|| workers.run_awake(|| many_operations(&workers, 20))), 240);
            assert_eq!(workers.run_awake(|| workers.run_awake(|| many_operations(&workers, 20))), 240);
        }
    }

    #[test]
    fn a_thread_that_finds_nothing_to_do_goes_back_though_the_work_is_not_done() {
        // It may stand on a part of the work that it took before.
        workers(2).run(|| super::await_work(0, &AtomicUsize::new(usize::MAX), &false.into()));
    }

    #[test]
    fn callers_who_share_threads_do_not_wait_for_each_other_in_a_circle() {
        for threads in [2, 3] {
            let workers = workers(threads);
            std::thread::scope(|scope| {
                for caller in 0..4 {
                    let workers = &workers;
                    scope.spawn(move || {
                        for _ in 0..500 {
                            let work = || many_operations(workers, 20);
                            let rows = if caller == 0 { workers.run(work) } else { workers.run_awake(work) };
                            assert_eq!(rows, 240);
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_panic_in_the_work_reaches_the_caller_and_leaves_the_threads_usable() {
        let workers = workers(3);
        let work = std::panic::AssertUnwindSafe(|| workers.run_awake(|| panic!("on purpose")));
        let panic = std::panic::catch_unwind(work).map(|()| "none").expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        assert_eq!(workers.run_awake(|| many_operations(&workers, 3)), 36);
    }
}
