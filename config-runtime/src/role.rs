//! Roles: which namespaces a part of the program may read.

use std::fmt;
use std::marker::PhantomData;

use crate::context::Context;
use crate::schema::{Bag, ConfigNamespaces};

/// A part of the program with a list of namespaces it may read. Write `#[derive(ConfigRole)]`.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// # #[derive(ConfigNamespaces)]
/// # struct Args {
/// #     /// Jobs that may wait.
/// #     #[config(ns = "pool", default = 32)]
/// #     queue: usize,
/// #     /// Port.
/// #     #[config(ns = "http", default = 80)]
/// #     port: u16,
/// # }
/// use kitbag::ConfigRole;
///
/// #[derive(ConfigRole)]
/// #[config(reads(PoolBag))]
/// struct Worker;
///
/// let cfg = Args::for_test(|_| {});
/// let worker = cfg.view::<Worker>();
/// assert_eq!(worker.pin().pool().queue(), 32); // `.http()` does not compile
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a role",
    note = "write `#[derive(kitbag::ConfigRole)]` and `#[config(reads(..))]` on it"
)]
pub trait Role: 'static {
    /// For messages.
    const NAME: &'static str;
}

/// Role `Self` may read the namespace of bag `B`.
#[diagnostic::on_unimplemented(
    message = "role `{Self}` may not read the namespace of `{B}`",
    label = "not in the role's list",
    note = "add `{B}` to `#[config(reads(..))]` on `{Self}`, or pass the value in from a role that reads it"
)]
pub trait MayRead<B>: Role {}

/// The role of code that may read every namespace.
#[derive(Clone, Copy, Debug)]
pub enum Everything {}

impl Role for Everything {
    const NAME: &'static str = "everything";
}

impl<B: Bag> MayRead<B> for Everything {}

/// A context as role `R` sees it.
pub struct View<S: ConfigNamespaces, R> {
    context: Context<S>,
    role: PhantomData<fn() -> R>,
}

impl<S: ConfigNamespaces, R: Role> View<S, R> {
    pub(crate) fn new(context: Context<S>) -> Self {
        Self { context, role: PhantomData }
    }

    /// One consistent epoch, narrowed to the role's namespaces.
    #[must_use]
    pub fn pin(&self) -> S::Pin<R> {
        S::Pin::from(self.context.pinned())
    }
}

impl<S: ConfigNamespaces, R> Clone for View<S, R> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone(), role: PhantomData }
    }
}

impl<S: ConfigNamespaces, R: Role> fmt::Debug for View<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View<{}>", R::NAME)
    }
}
