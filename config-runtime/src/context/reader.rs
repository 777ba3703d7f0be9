//! A reader that follows a context.

use std::fmt;
use std::sync::Arc;

use super::{Context, Inner, Pinned};
use crate::role::Everything;
use crate::schema::ConfigNamespaces;
use crate::value::Value;

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
/// cfg.override_permanently("grow", |o| o.pool().queue(128))?;
/// assert_eq!(reader.value("pool.queue").map(|queue| queue.to_string()), Some("128".to_owned()));
/// # Ok::<(), kitbag::Errors>(())
/// ```
pub struct Reader<S: ConfigNamespaces> {
    inner: Arc<Inner<S>>,
    number: u64,
    pinned: Pinned<S>,
    pin: S::Pin<Everything>,
}

impl<S: ConfigNamespaces> Reader<S> {
    pub(super) fn new(context: &Context<S>) -> Self {
        let pinned = Pinned(context.0.current.load());
        let (number, pin) = (pinned.epoch(), S::Pin::from(pinned.clone()));
        Self { inner: Arc::clone(&context.0), number, pinned, pin }
    }

    /// The newest epoch.
    #[inline]
    pub fn now(&mut self) -> &S::Pin<Everything> {
        self.follow();
        &self.pin
    }

    /// The newest value of the leaf with this path, for what reads by name again and again: a metrics page, say.
    /// [`Context::value`] does the same without a reader to keep, sees scopes, and costs the load of an epoch more.
    #[must_use]
    pub fn value(&mut self, path: &str) -> Option<Value> {
        let index = self.inner.shared.table.index(path)?;
        self.follow();
        Some(self.pinned.values()[index].to_value())
    }

    #[inline]
    fn follow(&mut self) {
        if self.inner.current.number() != self.number {
            self.refresh();
        }
    }

    #[cold]
    fn refresh(&mut self) {
        self.pinned = Pinned(self.inner.current.load());
        self.number = self.pinned.epoch();
        self.pin = S::Pin::from(self.pinned.clone());
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
