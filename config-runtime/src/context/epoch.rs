//! One immutable version of a context.

use std::sync::Arc;

use crate::leaf::Erased;
use crate::schema::{Bags, ConfigNamespaces};

/// Every leaf, and the bags built from them.
pub(crate) struct Epoch<S: ConfigNamespaces> {
    pub(super) number: u64,
    pub(crate) values: Arc<[Erased]>,
    pub(super) bags: S::Bags,
}

impl<S: ConfigNamespaces> Epoch<S> {
    pub(super) fn first(values: Arc<[Erased]>) -> Self {
        let bags = S::Bags::build(&values, None);
        Self { number: 0, values, bags }
    }

    /// The epoch with this number and these values. Namespaces in which nothing changed are shared with this one.
    pub(super) fn next(&self, number: u64, values: Arc<[Erased]>) -> Self {
        let bags = S::Bags::build(&values, Some((&self.bags, &self.values)));
        Self { number, values, bags }
    }
}

/// A pinned epoch, before it is narrowed to a role. Generated code wraps it.
pub struct Pinned<S: ConfigNamespaces>(pub(crate) Arc<Epoch<S>>);

impl<S: ConfigNamespaces> Pinned<S> {
    /// What is settled and not yet published.
    pub(crate) fn of_settled(values: &Arc<[Erased]>) -> Self {
        Self(Arc::new(Epoch::first(Arc::clone(values))))
    }

    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn bags(&self) -> &S::Bags {
        &self.0.bags
    }

    /// Number of the epoch: 0 at publish, one more with every commit.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.number
    }

    /// The values in schema order.
    pub(crate) fn values(&self) -> &[Erased] {
        &self.0.values
    }
}

impl<S: ConfigNamespaces> Clone for Pinned<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
