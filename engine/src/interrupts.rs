//! Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::cli::Failure;

/// What a shell reports for a program that Ctrl-C ended: 128 and the number of the signal.
pub(crate) const EXIT_CODE: u8 = 130;

/// What Ctrl-C does while this program runs: at once the end, or a wish that is granted after the step underway.
///
/// A second Ctrl-C ends the program at once in any case.
pub(crate) struct Interrupts {
    /// Set by Ctrl-C. When it is set already, Ctrl-C ends the program.
    is_set: Arc<AtomicBool>,
}

impl Interrupts {
    /// From now on Ctrl-C ends the program at once, with the exit code of an interrupted one.
    pub(crate) fn new() -> Result<Self, Failure> {
        let is_set = Arc::new(AtomicBool::new(true));
        // In this order: the end comes first when it was set before.
        flag::register_conditional_shutdown(SIGINT, EXIT_CODE.into(), Arc::clone(&is_set))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&is_set)))
            .map_err(|e| Failure::Run(format!("cannot listen for Ctrl-C: {e}")))?;
        Ok(Self { is_set })
    }

    /// Does `work`, which looks at the flag that Ctrl-C sets. The second result is whether it was set.
    pub(crate) fn during<T>(&self, work: impl FnOnce(&AtomicBool) -> T) -> (T, bool) {
        self.is_set.store(false, Ordering::Relaxed);
        let done = work(&self.is_set);
        (done, self.is_set.swap(true, Ordering::Relaxed))
    }
}
