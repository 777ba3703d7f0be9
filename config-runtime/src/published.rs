//! The cell that holds the current epoch of a context.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// One published value, replaced as a whole. The only place that knows how publication works.
pub(crate) struct Published<T>(ArcSwap<T>);

impl<T> Published<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ArcSwap::from_pointee(value))
    }

    pub(crate) fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        self.0.store(value);
    }
}
