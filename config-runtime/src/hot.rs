//! What the accessor of a `hot` leaf returns.

use std::fmt;
use std::ops::Deref;

/// The value of a setting that may change while the program runs.
///
/// It borrows the pinned epoch, so it cannot be stored in a long-lived struct by mistake; copy the value out with
/// `*` where a decision is really meant to outlive the epoch.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// #[derive(ConfigNamespaces)]
/// struct Args {
///     /// Jobs that may wait.
///     #[config(ns = "pool", default = 32, hot)]
///     queue: usize,
/// }
/// let cfg = Args::for_test(|_| {});
/// let now = cfg.pin();
/// assert!(now.pool().queue() == 32);
/// let doubled: usize = *now.pool().queue() * 2;
/// # assert_eq!(doubled, 64);
/// ```
#[derive(Clone, Copy)]
pub struct Hot<'a, T>(&'a T);

impl<'a, T> Hot<'a, T> {
    /// Called by generated accessors.
    #[doc(hidden)]
    #[inline]
    pub fn new(value: &'a T) -> Self {
        Self(value)
    }

    /// The reference itself, for the emitted tests.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn into_ref(self) -> &'a T {
        self.0
    }
}

impl<T> Deref for Hot<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Hot<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Hot<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: PartialEq> PartialEq<T> for Hot<'_, T> {
    fn eq(&self, other: &T) -> bool {
        self.0 == other
    }
}

impl<T: PartialEq> PartialEq for Hot<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: PartialOrd> PartialOrd<T> for Hot<'_, T> {
    fn partial_cmp(&self, other: &T) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(other)
    }
}

impl<T: PartialOrd> PartialOrd for Hot<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(other.0)
    }
}
