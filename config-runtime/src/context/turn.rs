//! Whose turn it is to change a family of contexts.
//!
//! One commit at a time. On its way a commit runs code of the program: rules, vetoes, persistence. What that code does
//! must not wait for the commit that waits for it. A change from the same thread is refused at once. One from another
//! thread cannot be told from a change that merely races, so it waits, but not for ever: a veto that joins such a thread
//! gets an error, not a hang. The end of an override is put off instead: the commit that is in the way does it when it is
//! over.

use std::fmt;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::lock;
use crate::error::{ConfigError, Errors};

/// How long a change waits for another one, unless the program says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was put off.
pub(super) type Deferred = Box<dyn FnOnce() + Send>;

/// The one turn of a family, and who waits for it.
pub(super) struct Turns {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    holder: Option<Holder>,
    /// Turns given so far: tells a turn that lasts from one turn after another.
    given: u64,
    patience: Duration,
    deferred: Vec<Deferred>,
}

/// The thread in the middle of a commit.
struct Holder {
    thread: ThreadId,
    stage: Stage,
}

/// What a commit waits for.
#[derive(Clone)]
pub(super) enum Stage {
    /// Rules and checks.
    Settling,
    /// The subscriber with this name.
    Asking(String),
    /// The program's persistence.
    Persisting,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settling => f.write_str("its rules and checks run"),
            Self::Asking(name) => write!(f, "subscriber `{name}` is being asked"),
            Self::Persisting => f.write_str("it is being persisted"),
        }
    }
}

/// Why there is no turn to be had.
enum Refusal {
    /// This thread holds it.
    Inside(Stage),
    /// Another thread has held it for too long.
    Stuck(Stage, Duration),
}

impl From<Refusal> for Errors {
    fn from(refusal: Refusal) -> Self {
        let (problem, hint) = match refusal {
            Refusal::Inside(stage) => (
                format!("a change from inside a change of the same context ({stage})"),
                "rules, a veto and persistence look only; change the context after the commit",
            ),
            Refusal::Stuck(stage, patience) => (
                format!("another change of the same context is not decided after {patience:?}: {stage}"),
                "what a commit asks must not wait for a thread that changes the context; if it is only slow, allow more \
                 with `set_patience`",
            ),
        };
        ConfigError::new(problem).hint(Some(hint.to_owned())).into()
    }
}

/// The right to change a family, until dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Default for Turns {
    fn default() -> Self {
        let state = State { holder: None, given: 0, patience: PATIENCE, deferred: Vec::new() };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }
}

impl Turns {
    /// Waits for the turn.
    pub(super) fn take(&self) -> Result<Turn<'_>, Errors> {
        self.wait(|refusal, _| Errors::from(refusal))
    }

    /// Waits for the turn; if it cannot be had, whoever holds it does what `later` gives, when it is over.
    pub(super) fn take_or_defer(&self, later: impl FnOnce() -> Deferred) -> Option<Turn<'_>> {
        // Under the same lock that found the turn held: its holder cannot have looked already.
        self.wait(|_, state| state.deferred.push(later())).ok()
    }

    fn wait<E>(&self, refuse: impl FnOnce(Refusal, &mut State) -> E) -> Result<Turn<'_>, E> {
        let here = std::thread::current().id();
        let mut state = lock(&self.state);
        let mut waits_for = None;
        loop {
            let Some(holder) = &state.holder else {
                state.holder = Some(Holder { thread: here, stage: Stage::Settling });
                state.given += 1;
                return Ok(Turn(self));
            };
            if holder.thread == here {
                let stage = holder.stage.clone();
                return Err(refuse(Refusal::Inside(stage), &mut state));
            }
            // Counted anew for every turn: many short ones are no fault.
            let since = match waits_for {
                Some((turn, since)) if turn == state.given => since,
                _ => waits_for.insert((state.given, Instant::now())).1,
            };
            let Some(left) = state.patience.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
                let (stage, patience) = (holder.stage.clone(), state.patience);
                return Err(refuse(Refusal::Stuck(stage, patience), &mut state));
            };
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn set_patience(&self, patience: Duration) {
        lock(&self.state).patience = patience;
        // Who waits already counts with the new one.
        self.freed.notify_all();
    }
}

impl Turn<'_> {
    /// Notes what the commit waits for from now on.
    pub(super) fn enter(&self, stage: Stage) {
        if let Some(holder) = &mut lock(&self.0.state).holder {
            holder.stage = stage;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let deferred = {
            let mut state = lock(&self.0.state);
            state.holder = None;
            std::mem::take(&mut state.deferred)
        };
        // Everybody, because some may have come to the end of their patience.
        self.0.freed.notify_all();
        for act in deferred {
            act();
        }
    }
}
