//! Whose turn it is to change a family of contexts.
//!
//! One commit at a time, held by a lock. What a commit asks on its way (a veto, persistence) runs on the same thread and
//! must not wait for that lock: a change from there is refused, and the end of an override is put off until the commit
//! is over.

use std::cell::RefCell;
use std::sync::MutexGuard;

use super::{Shared, lock};
use crate::error::{ConfigError, Errors};

/// What was put off.
type Deferred = Box<dyn FnOnce()>;

thread_local! {
    /// Families in the middle of a commit on this thread.
    static COMMITTING: RefCell<Vec<*const Shared>> = const { RefCell::new(Vec::new()) };
    static DEFERRED: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
}

/// The right to change a family, until dropped.
pub(super) struct Turn<'a> {
    // In this order: the lock is free and the mark gone before what was put off runs.
    _lock: MutexGuard<'a, ()>,
    _mark: Mark,
}

struct Mark;

impl Drop for Mark {
    fn drop(&mut self) {
        // While the thread ends its lists may be gone already; nothing was noted there then.
        let is_last = COMMITTING.try_with(|committing| {
            let mut committing = committing.borrow_mut();
            committing.pop();
            committing.is_empty()
        });
        if is_last == Ok(true) {
            // Taken out first: what runs may put something off itself.
            for act in DEFERRED.try_with(std::cell::RefCell::take).unwrap_or_default() {
                act();
            }
        }
    }
}

impl Shared {
    /// Whether this thread is in the middle of a commit of this family.
    pub(super) fn is_committing(&self) -> bool {
        COMMITTING.try_with(|committing| committing.borrow().contains(&std::ptr::from_ref(self))).unwrap_or(false)
    }

    /// Waits for the turn.
    pub(super) fn turn(&self) -> Result<Turn<'_>, Errors> {
        if self.is_committing() {
            let problem = "a change from inside a change of the same context";
            let hint = "a veto and persistence look only; change the context after the commit".to_owned();
            return Err(ConfigError::new(problem).hint(Some(hint)).into());
        }
        let guard = lock(&self.commit);
        // As above: without the mark a veto that changes the context would wait for itself, but only in a thread's last
        // moments.
        let _ = COMMITTING.try_with(|committing| committing.borrow_mut().push(std::ptr::from_ref(self)));
        Ok(Turn { _lock: guard, _mark: Mark })
    }
}

/// Runs `act` when the commit in the middle of which this thread is has ended.
pub(super) fn defer(act: Deferred) {
    let _ = DEFERRED.try_with(|deferred| deferred.borrow_mut().push(act));
}
