//! Back to what the lasting values were some changes ago.

use std::collections::VecDeque;
use std::sync::Arc;

use super::commit::{Past, State};
use super::history::{Change, HISTORY};
use super::layer::{Kind, Layer};
use super::request::Request;
use super::trial::confirm_in;
use super::{Context, Sources, lock};
use crate::error::Errors;
use crate::leaf::Erased;
use crate::schema::ConfigNamespaces;

/// A lasting change, and what there was before it.
pub(super) struct Undo {
    pub(super) change: Change,
    /// The trial that it began, while that is on trial.
    trial: Option<u64>,
    pub(super) base: Arc<[Erased]>,
    pub(super) sources: Arc<Sources>,
    pub(super) permanent: Vec<Layer>,
}

impl<S: ConfigNamespaces> Context<S> {
    /// The changes that [`rollback`](Self::rollback) can take back, oldest first: the latest 64 at most.
    ///
    /// These are reloads, permanent overrides, their ends, trials that are not over, and rollbacks. Overrides that end
    /// with a guard are none, and a republish begins a new list.
    #[must_use]
    pub fn lasting_changes(&self) -> Vec<Change> {
        lock(&self.0.state).undo.iter().map(|undo| undo.change.clone()).collect()
    }

    /// Takes the latest `changes` lasting changes back: what the sources said and the permanent overrides are what they
    /// were before the oldest of them.
    ///
    /// Overrides in force stay in force, engine-wide ones and scopes alike: their guards decide. So a value is what it
    /// was then unless an override lies over it now. A trial begun since goes; one that was confirmed since stays if it
    /// was begun before. A child goes back over its own changes, not over its parent's.
    ///
    /// A rollback is a change like any other: checks, vetoes and persistence apply, and it can be rolled back. Going two
    /// changes back is `rollback(why, 2)`, not `rollback(why, 1)` twice. Files are not written: the next time that a file
    /// changes, or at the next reload by call, what it says counts again.
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
    /// for queue in ["64", "128", "256"] {
    ///     cfg.override_by_name("admin", &[("pool.queue", queue)])?;
    /// }
    /// cfg.rollback("too much", 2)?;
    /// assert!(cfg.pin().pool().queue() == 64);
    /// cfg.rollback("after all", 1)?; // over the rollback
    /// assert!(cfg.pin().pool().queue() == 256);
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    ///
    /// # Errors
    /// There are not so many, the values of then are not valid any more, a veto or failed persistence. Nothing has changed
    /// then.
    pub fn rollback(&self, why: &str, changes: usize) -> Result<(), Errors> {
        self.make(&Request::Rollback { why: why.to_owned(), changes })
    }
}

/// What a commit replaced in a context.
pub(super) struct Replaced<'a> {
    pub(super) base: &'a Arc<[Erased]>,
    pub(super) sources: &'a Arc<Sources>,
    pub(super) layers: &'a [Layer],
}

/// What is remembered no longer: values of the program's own types, to be dropped without a lock.
#[derive(Default)]
pub(super) struct Forgotten {
    _undo: Vec<Undo>,
    _layers: Vec<Layer>,
}

impl State {
    /// Keeps the list of what can be rolled back.
    pub(super) fn note(&mut self, change: &Change, past: &Past, before: &Replaced<'_>) -> Forgotten {
        match past {
            Past::Passing => Forgotten::default(),
            Past::Lasting { trial } => {
                let oldest = if self.undo.len() == HISTORY { self.undo.pop_front() } else { None };
                let permanent = before.layers.iter().filter(|layer| layer.kind == Kind::Permanent).cloned().collect();
                let (base, sources) = (Arc::clone(before.base), Arc::clone(before.sources));
                self.undo.push_back(Undo { change: change.clone(), trial: *trial, base, sources, permanent });
                Forgotten { _undo: oldest.into_iter().collect(), ..Forgotten::default() }
            }
            Past::Confirmed(id) => {
                for undo in &mut self.undo {
                    confirm_in(&mut undo.permanent, *id);
                    undo.trial = undo.trial.filter(|trial| trial != id);
                }
                Forgotten::default()
            }
            Past::Ended(id) => self.forget_trial(*id),
            Past::New => Forgotten { _undo: std::mem::take(&mut self.undo).into(), ..Forgotten::default() },
        }
    }

    /// A trial that is over is not brought back.
    pub(super) fn forget_trial(&mut self, id: u64) -> Forgotten {
        let (undo, mut kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.undo).into_iter().partition(|undo: &Undo| undo.trial == Some(id));
        let is_trial = |layer: &mut Layer| layer.id == id && layer.trial.is_some();
        let layers = kept.iter_mut().flat_map(|undo| undo.permanent.extract_if(.., is_trial)).collect();
        self.undo = kept;
        Forgotten { _undo: undo.into(), _layers: layers }
    }
}
