//! What binds a guard to the thread that made it.

use std::marker::PhantomData;

/// A part that makes a guard neither `Send` nor `Sync`.
///
/// A pointer, since the compiler then names what it points to: who sends a guard away reads the name below.
pub(super) type OneThread = PhantomData<*const GuardStaysOnItsThread>;

/// Read in the compiler's messages only.
#[derive(Debug)]
pub(super) enum GuardStaysOnItsThread {}
