//! The cell that holds the current epoch of a context: the only place that knows how publication works.
//!
//! Two things are stored, in this order: the epoch, then its number. A reader that sees a number therefore finds that
//! epoch or a newer one, and a reader whose number is current holds the current epoch. One writer at a time, by the
//! commit lock.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

use std::sync::Arc;

/// One published value, replaced as a whole, and its number.
pub(crate) struct Published<T> {
    current: Cell<T>,
    number: AtomicU64,
}

impl<T> Published<T> {
    pub(crate) fn new(value: T, number: u64) -> Self {
        Self { current: Cell::new(value), number: AtomicU64::new(number) }
    }

    /// The current value.
    pub(crate) fn load(&self) -> Arc<T> {
        self.current.load()
    }

    /// A short look at the current value, cheaper than holding on to it.
    pub(crate) fn look<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        self.current.look(read)
    }

    /// Number of the current value, or of the one before while it is being replaced.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, value: Arc<T>, number: u64) {
        self.current.store(value);
        // Released after the value: who acquires this number finds the value.
        self.number.store(number, Ordering::Release);
    }
}

#[cfg(not(loom))]
struct Cell<T>(arc_swap::ArcSwap<T>);

#[cfg(not(loom))]
impl<T> Cell<T> {
    fn new(value: T) -> Self {
        Self(arc_swap::ArcSwap::from_pointee(value))
    }

    fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    fn look<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0.load())
    }

    fn store(&self, value: Arc<T>) {
        self.0.store(value);
    }
}

/// The model checker does not see into arc-swap, which has tests of its own. This stands for it with no more order than
/// arc-swap promises: a load may find an older value unless something else orders it after the store.
#[cfg(loom)]
struct Cell<T> {
    values: loom::sync::Mutex<Vec<Arc<T>>>,
    newest: loom::sync::atomic::AtomicUsize,
}

#[cfg(loom)]
impl<T> Cell<T> {
    fn new(value: T) -> Self {
        let newest = loom::sync::atomic::AtomicUsize::new(0);
        Self { values: loom::sync::Mutex::new(vec![Arc::new(value)]), newest }
    }

    fn load(&self) -> Arc<T> {
        let newest = self.newest.load(Ordering::Acquire);
        Arc::clone(&self.values.lock().expect("no model panics while it holds the lock")[newest])
    }

    fn look<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.load())
    }

    fn store(&self, value: Arc<T>) {
        let mut values = self.values.lock().expect("no model panics while it holds the lock");
        values.push(value);
        self.newest.store(values.len() - 1, Ordering::Release);
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p kitbag --release --lib published`
#[cfg(all(test, loom))]
mod tests {
    use std::sync::Arc;

    use super::Published;

    #[test]
    fn a_number_seen_is_an_epoch_found() {
        loom::model(|| {
            let cell = Arc::new(Published::new(0u64, 0));
            let writer = {
                let cell = Arc::clone(&cell);
                loom::thread::spawn(move || {
                    for number in 1..=2 {
                        cell.store(Arc::new(number), number);
                    }
                })
            };
            let mut held = 0;
            for _ in 0..2 {
                let number = cell.number();
                let found = *cell.load();
                assert!(found >= number, "saw number {number}, found epoch {found}");
                assert!(found >= held, "epochs never go back");
                held = found;
            }
            writer.join().expect("the writer ends");
            assert_eq!((cell.number(), *cell.load()), (2, 2));
        });
    }
}
