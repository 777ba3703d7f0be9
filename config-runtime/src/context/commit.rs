//! The one way in: validate all, recompute derived values, build the next epochs aside, ask, persist, swap, tell.

use std::collections::VecDeque;
use std::sync::Arc;

use super::epoch::{Epoch, Pinned};
use super::history::{Change, HISTORY};
use super::layer::{Before, Layer, Mode, solve};
use super::rollback::{Replaced, Undo};
use super::turn::{Stage, Turn};
use super::{Inner, Sources, lock};
use crate::error::{ConfigError, Errors};
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::schema::ConfigNamespaces;
use crate::table::Recompute;

/// What a commit may change. Written only under the family's lock.
pub(super) struct State {
    /// The values under the layers: what was resolved, or the parent's effective values.
    pub(super) base: Arc<[Erased]>,
    pub(super) layers: Vec<Layer>,
    pub(super) next_layer: u64,
    pub(super) history: VecDeque<Change>,
    /// What can be rolled back, oldest first.
    pub(super) undo: VecDeque<Undo>,
}

impl State {
    pub(super) fn new(base: Arc<[Erased]>, layers: Vec<Layer>) -> Self {
        let next_layer = layers.len() as u64;
        Self { base, layers, next_layer, history: VecDeque::new(), undo: VecDeque::new() }
    }
}

/// What a commit works on, to be changed freely: nothing is visible until it is stored.
pub(super) struct Draft {
    pub(super) base: Arc<[Erased]>,
    pub(super) layers: Vec<Layer>,
    next_layer: u64,
    /// Whether derived values that follow a publish are recomputed too.
    pub(super) recompute: Recompute,
    /// What the sources say now, if they were read again.
    pub(super) sources: Option<Arc<Sources>>,
}

impl Draft {
    pub(super) fn of(state: &State, recompute: Recompute) -> Self {
        let (base, layers) = (Arc::clone(&state.base), state.layers.clone());
        Self { base, layers, next_layer: state.next_layer, recompute, sources: None }
    }

    /// A number for a new layer.
    pub(super) fn number(&mut self) -> u64 {
        self.next_layer += 1;
        self.next_layer - 1
    }
}

/// How a commit deals with what stands against it, and what history says of it.
pub(super) struct Terms {
    pub(super) mode: Mode,
    pub(super) what: String,
    /// Whether permanent overrides change, which are then handed to persistence.
    pub(super) persist: bool,
    pub(super) past: Past,
}

/// What a change is to a rollback.
pub(super) enum Past {
    /// None of its business: a guard decides.
    Passing,
    /// It can be rolled back; it may have begun a trial.
    Lasting { trial: Option<u64> },
    /// This trial became an ordinary change.
    Confirmed(u64),
    /// This trial was never there.
    Ended(u64),
    /// What was before is gone for good.
    New,
}

/// A prepared change of one context.
pub(super) struct Step<S: ConfigNamespaces> {
    inner: Arc<Inner<S>>,
    /// Names from the context where the commit began down to this child; empty for that context itself.
    pub(super) child: String,
    pub(super) draft: Draft,
    pub(super) old: Arc<Epoch<S>>,
    pub(super) new: Arc<Epoch<S>>,
    /// Leaves whose values differ.
    pub(super) changed: Vec<usize>,
}

/// A commit that has its turn and has built the next epochs aside: it can still be dropped without a trace.
pub(super) struct Prepared<'a, S: ConfigNamespaces, T> {
    turn: Turn<'a>,
    /// Of the context where the commit began first.
    pub(super) steps: Vec<Step<S>>,
    pub(super) terms: Terms,
    pub(super) result: T,
}

impl<S: ConfigNamespaces> Inner<S> {
    /// Runs one commit. `change` returns what the caller wants back.
    pub(super) fn commit<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Draft) -> Result<(T, Terms), Errors>,
    ) -> Result<T, Errors> {
        self.commit_in(self.shared.turns.take()?, change)
    }

    /// The same with a turn that is had already.
    pub(super) fn commit_in<T>(
        self: &Arc<Self>,
        turn: Turn<'_>,
        change: impl FnOnce(&mut Draft) -> Result<(T, Terms), Errors>,
    ) -> Result<T, Errors> {
        let prepared = self.prepare(turn, change)?;
        if prepared.terms.mode == Mode::Refuse {
            let mut errors = Errors::default();
            errors.extend(prepared.vetoes());
            errors.check(())?;
        }
        prepared.finish()
    }

    /// The first half of a commit: validates, recomputes, builds the next epochs aside.
    pub(super) fn prepare<'a, T>(
        self: &Arc<Self>,
        turn: Turn<'a>,
        change: impl FnOnce(&mut Draft) -> Result<(T, Terms), Errors>,
    ) -> Result<Prepared<'a, S, T>, Errors> {
        let mut draft = Draft::of(&lock(&self.state), Recompute::Live);
        let (result, terms) = change(&mut draft)?;
        let mut steps = Vec::new();
        let sources = draft.sources.clone().unwrap_or_else(|| self.shared.sources());
        self.step(String::new(), draft, terms.mode, &sources.facts, &mut steps)?;
        Ok(Prepared { turn, steps, terms, result })
    }

    /// Builds the next epoch of this context and of all its children aside. Errors of all children come together.
    fn step(
        self: &Arc<Self>,
        child: String,
        mut draft: Draft,
        mode: Mode,
        facts: &Facts,
        steps: &mut Vec<Step<S>>,
    ) -> Result<(), Errors> {
        let recompute = draft.recompute;
        let old = self.current.load();
        let before = Before { base: &draft.base, facts, values: &old.values };
        let values = solve(&self.shared, &before, &mut draft.layers, mode, recompute).map_err(|errors| {
            let named = |error: &ConfigError| match child.as_str() {
                "" => error.clone(),
                child => error.clone().at(format!("child context `{child}`")),
            };
            let mut list = Errors::default();
            list.extend(errors.iter().map(named));
            list
        })?;
        let new = Arc::new(old.next(old.number + 1, Arc::clone(&values)));
        let changed = self.shared.table.changed(&old.values, &new.values);
        let names = if child.is_empty() { child.clone() } else { format!("{child}/") };
        steps.push(Step { inner: Arc::clone(self), child, draft, old, new, changed });
        let mut errors = Errors::default();
        let children = lock(&self.children).clone();
        for (name, child) in children {
            let Some(child) = child.upgrade() else { continue };
            let draft = Draft { base: Arc::clone(&values), ..Draft::of(&lock(&child.state), recompute) };
            if let Err(of_child) = child.step(format!("{names}{name}"), draft, mode, facts, steps) {
                errors.append(of_child);
            }
        }
        errors.check(())
    }

    /// Hands all permanent overrides to the program's persistence, before they become visible.
    fn persist(&self, layers: &[Layer]) -> Result<(), Errors> {
        let Some(persist) = lock(&self.shared.persist).clone() else { return Ok(()) };
        let entries = &self.shared.table.entries;
        let values: Vec<_> = permanent(layers)
            .flat_map(|layer| &layer.edit)
            .filter(|(index, _)| !entries[*index].info.is_secret())
            .map(|(index, value)| (entries[*index].info.path, value.to_value()))
            .collect();
        let failed = |problem| Errors::from(ConfigError::new(format!("not persisted, so not applied: {problem}")));
        match crate::guard::catch(|| persist(&values)) {
            Ok(result) => result.map_err(failed),
            Err(panic) => Err(failed(panic)),
        }
    }
}

fn permanent(layers: &[Layer]) -> impl Iterator<Item = &Layer> {
    layers.iter().filter(|layer| layer.is_confirmed())
}

impl<S: ConfigNamespaces, T> Prepared<'_, S, T> {
    /// Every subscriber of a context in which something changes may veto; all are asked, so that all reasons are shown.
    pub(super) fn vetoes(&self) -> Vec<ConfigError> {
        let mut vetoes = Vec::new();
        for step in self.steps.iter().filter(|step| !step.changed.is_empty()) {
            let (old, new) = (Pinned(Arc::clone(&step.old)), Pinned(Arc::clone(&step.new)));
            for (name, veto) in step.inner.subscribers.vetoes() {
                self.turn.enter(Stage::Asking(name.clone()));
                let answer = crate::guard::catch(|| veto(&old, &new)).unwrap_or_else(Err);
                if let Err(reason) = answer {
                    let place = match step.child.as_str() {
                        "" => format!("subscriber `{name}`"),
                        child => format!("subscriber `{name}` of child context `{child}`"),
                    };
                    vetoes.push(ConfigError::new(reason).at(place));
                }
            }
        }
        vetoes
    }

    /// The second half of a commit: persists, makes the epochs visible, gives the turn back, tells the subscribers.
    pub(super) fn finish(self) -> Result<T, Errors> {
        let Self { turn, steps, terms, result } = self;
        if terms.persist {
            turn.enter(Stage::Persisting);
            let first = &steps[0];
            first.inner.persist(&first.draft.layers)?;
        }
        let stored = store(steps, &terms);
        drop(turn);
        // Without the turn: who is woken may run at once, on this thread, and change the context.
        for inner in stored {
            inner.subscribers.tell();
        }
        Ok(result)
    }
}

/// Makes prepared steps visible. Cannot fail.
fn store<S: ConfigNamespaces>(steps: Vec<Step<S>>, terms: &Terms) -> Vec<Arc<Inner<S>>> {
    let mut stored = Vec::with_capacity(steps.len());
    for Step { inner, child, draft, old, new, changed } in steps {
        let change = Change::between(&inner.shared.table, &old.values, &new.values, &changed, new.number, &terms.what);
        // Only where the commit began is there something to go back to; its children follow.
        let past = if child.is_empty() { &terms.past } else { &Past::Passing };
        let sources = inner.shared.sources();
        let mut state = lock(&inner.state);
        let base = std::mem::replace(&mut state.base, draft.base);
        let layers = std::mem::replace(&mut state.layers, draft.layers);
        state.next_layer = draft.next_layer;
        let forgotten = if state.history.len() == HISTORY { state.history.pop_front() } else { None };
        let before = Replaced { base: &base, sources: &sources, layers: &layers };
        let undone = state.note(&change, past, &before);
        state.history.push_back(change);
        // Still under the lock: who reads epoch and layers under it finds what belongs together.
        if let Some(sources) = draft.sources {
            *lock(&inner.shared.sources) = sources;
        }
        let number = new.number;
        inner.current.store(new, number);
        drop(state);
        // What is replaced holds values of the program's own types, so it goes outside the lock.
        drop((base, layers, forgotten, undone, sources));
        stored.push(inner);
    }
    stored
}

/// What history calls a change that adds a layer.
pub(super) fn described(origin: &Origin) -> Terms {
    Terms { mode: Mode::Refuse, what: origin.to_string(), persist: false, past: Past::Passing }
}
