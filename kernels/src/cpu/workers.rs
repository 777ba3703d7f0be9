//! The threads a caller lends to the CPU operations.

use std::num::NonZeroUsize;

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
}
