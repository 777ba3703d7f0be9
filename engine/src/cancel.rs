//! The wish to stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether what is underway is not wanted any more.
///
/// It is asked often, also in the middle of a step, by whichever thread computes. An [`AtomicBool`] that somebody sets is one.
pub trait Cancel: Sync {
    /// Whether to stop.
    fn is_cancelled(&self) -> bool;
}

impl Cancel for AtomicBool {
    fn is_cancelled(&self) -> bool {
        self.load(Ordering::Relaxed)
    }
}

/// Never stops.
pub(crate) struct Never;

impl Cancel for Never {
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Nothing when it is time to stop.
pub(crate) fn go_on(cancel: &dyn Cancel) -> Option<()> {
    (!cancel.is_cancelled()).then_some(())
}
