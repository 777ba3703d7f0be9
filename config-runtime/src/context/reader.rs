//! A reader that follows a context.

use std::fmt;
use std::sync::Arc;

use super::{Context, Inner, Pinned};
use crate::role::Everything;
use crate::schema::ConfigNamespaces;

/// Follows the engine-wide epochs of a context for one thread.
///
/// [`now`](Self::now) costs one atomic load while nothing changes: no lock, no reference count, no allocation. Scoped
/// overrides of a thread or future are seen by [`Context::pin`] only.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// # #[derive(ConfigNamespaces)]
/// # struct Args {
/// #     /// Jobs that may wait.
/// #     #[config(ns = "pool", default = 32, hot)]
/// #     queue: usize,
/// # }
/// let cfg = Args::for_test(|_| {});
/// let mut reader = cfg.reader();
/// assert!(reader.now().pool().queue() == 32);
/// cfg.override_permanently("grow", |o| o.pool().queue(64))?;
/// assert!(reader.now().pool().queue() == 64);
/// # Ok::<(), kitbag::Errors>(())
/// ```
pub struct Reader<S: ConfigNamespaces> {
    inner: Arc<Inner<S>>,
    number: u64,
    pin: S::Pin<Everything>,
}

impl<S: ConfigNamespaces> Reader<S> {
    pub(super) fn new(context: &Context<S>) -> Self {
        let epoch = context.0.current.load();
        Self { inner: Arc::clone(&context.0), number: epoch.number, pin: S::Pin::from(Pinned(epoch)) }
    }

    /// The newest epoch.
    #[inline]
    pub fn now(&mut self) -> &S::Pin<Everything> {
        if self.inner.current.number() != self.number {
            self.refresh();
        }
        &self.pin
    }

    #[cold]
    fn refresh(&mut self) {
        let epoch = self.inner.current.load();
        self.number = epoch.number;
        self.pin = S::Pin::from(Pinned(epoch));
    }
}

impl<S: ConfigNamespaces> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Self::new(&Context(Arc::clone(&self.inner)))
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Reader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader(epoch {})", self.number)
    }
}
