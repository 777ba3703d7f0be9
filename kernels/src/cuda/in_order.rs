//! The same work on many things by several threads, with the outcome that one thread would have.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// What `work` makes of each item, in the order of the items, on so many threads, this one among them; or its first error by
/// that order, whichever thread was faster.
///
/// Items are begun in their order, and what is begun is done. A thread to which `work` has given an error notes that and begins
/// nothing more; each of the others begins at most one item after it was noted, the one that it was about to take.
///
/// # Panics
///
/// If `work` does.
pub(super) fn in_order<T: Sync, R: Send + Sync, E: Send + Sync>(
    items: &[T],
    threads: NonZeroUsize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let done: Vec<OnceLock<Result<R, E>>> = items.iter().map(|_| OnceLock::new()).collect();
    // Results are handed over when the threads end, so these order nothing but themselves: whoever looks after an error was noted
    // has to see it.
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = || {
        while !has_failed.load(Ordering::SeqCst) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(place)) = (items.get(index), done.get(index)) else { return };
            let result = work(item);
            has_failed.fetch_or(result.is_err(), Ordering::SeqCst);
            let _ = place.set(result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.get().min(items.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    // Whatever was begun is done, and that is a first part of the items: all of them, unless there is an error in it.
    done.into_iter().map_while(OnceLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn results_are_in_order_and_made_at_the_same_time() {
        // Each waits for another, so that one thread would wait for ever.
        let barrier = Barrier::new(3);
        let items: Vec<usize> = (0..12).collect();
        let squares = in_order(&items, threads(3), |&item| {
            barrier.wait();
            Ok::<_, ()>(item * item)
        });
        assert_eq!(squares, Ok(items.iter().map(|item| item * item).collect()));
        for count in [1, 2, 40] {
            assert_eq!(in_order(&items, threads(count), |&item| Ok::<_, ()>(item)), Ok(items.clone()));
        }
        assert_eq!(in_order(&[0; 0], threads(2), |&item: &i32| Ok::<_, ()>(item)), Ok(vec![]));
    }

    #[test]
    fn the_first_error_by_order_counts_and_nothing_is_begun_after_it() {
        let items: Vec<usize> = (0..100).collect();
        let barrier = Barrier::new(2);
        let begun = AtomicUsize::new(0);
        let failed = in_order(&items, threads(2), |&item| {
            begun.fetch_add(1, Ordering::Relaxed);
            // Both threads have begun one when the first fails.
            barrier.wait();
            Err::<(), _>(item)
        });
        assert_eq!((failed, begun.into_inner()), (Err(0), 2));
        for count in [1, 2, 7] {
            let failed = in_order(&items, threads(count), |&item| if item % 10 == 9 { Err(item) } else { Ok(item) });
            assert_eq!(failed, Err(9), "{count}");
        }
    }
}
