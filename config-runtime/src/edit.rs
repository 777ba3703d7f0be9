//! Setters: which form of change may set which class of leaf.

use crate::leaf::{Erased, Leaf, erase};

/// What a set of setters collected: leaf index and new value, in order of the calls.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Edit {
    pub(crate) values: Vec<(usize, Erased)>,
}

impl Edit {
    pub fn set<T: Leaf>(&mut self, index: usize, value: T) {
        self.values.retain(|(set, _)| *set != index);
        self.values.push((index, erase(value)));
    }
}

/// A form of change that may set `launch` leaves.
#[diagnostic::on_unimplemented(
    message = "this setting is fixed at launch",
    label = "`{Self}` cannot change a `launch` setting",
    note = "set it in a file, the environment or a flag, or give a child context its own value with `ctx.child(..)`",
    note = "if it really may change while the program runs, mark the field `#[config(hot)]`"
)]
pub trait MaySetLaunch {}

/// A form of change that may set `load_time` leaves.
#[diagnostic::on_unimplemented(
    message = "this setting is decided while loading and fixed afterwards",
    label = "`{Self}` cannot change a `load_time` setting",
    note = "declare it with `Resolved::declare(..)` before the context is published"
)]
pub trait MaySetLoadTime {}

/// A form of change that may set `hot` leaves.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot change a `hot` setting")]
pub trait MaySetHot {}

/// Form: `ctx.override_with(..)`, seen by every reader of the context. Sets `hot` leaves.
#[derive(Debug)]
pub enum EngineWideOverride {}

/// Form: `ctx.override_thread(..)` and `ctx.scope(..)`, seen by one thread or future. Sets `hot` leaves.
#[derive(Debug)]
pub enum ScopedOverride {}

/// Form: `resolved.declare(..)`, before publish. Sets `load_time` and `hot` leaves.
#[derive(Debug)]
pub enum LoadTimeDeclaration {}

/// Form: `ctx.child(..)`. Sets every leaf.
#[derive(Debug)]
pub enum ChildContext {}

/// Form: `Args::for_test(..)`. Sets every leaf.
#[derive(Debug)]
pub enum TestKit {}

impl MaySetHot for EngineWideOverride {}
impl MaySetHot for ScopedOverride {}
impl MaySetLoadTime for LoadTimeDeclaration {}
impl MaySetHot for LoadTimeDeclaration {}
impl MaySetLaunch for ChildContext {}
impl MaySetLoadTime for ChildContext {}
impl MaySetHot for ChildContext {}
impl MaySetLaunch for TestKit {}
impl MaySetLoadTime for TestKit {}
impl MaySetHot for TestKit {}
