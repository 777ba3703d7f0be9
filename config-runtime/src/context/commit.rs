//! The one way in: validate all, recompute derived values, build the next epochs aside, ask, persist, swap, tell.

use std::collections::VecDeque;
use std::sync::Arc;

use super::epoch::{Epoch, Pinned};
use super::history::{Change, HISTORY};
use super::layer::{Before, Kind, Layer, Mode, solve};
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
}

impl State {
    pub(super) fn new(base: Arc<[Erased]>, layers: Vec<Layer>) -> Self {
        let next_layer = layers.len() as u64;
        Self { base, layers, next_layer, history: VecDeque::new() }
    }
}

/// What a commit works on, to be changed freely: nothing is visible until it is stored.
pub(super) struct Draft {
    pub(super) base: Arc<[Erased]>,
    pub(super) layers: Vec<Layer>,
    /// Whether derived values that follow a publish are recomputed too.
    pub(super) recompute: Recompute,
    /// What the sources say now, if they were read again.
    pub(super) sources: Option<Sources>,
}

/// How a commit deals with what stands against it, and what history says of it.
pub(super) struct Terms {
    pub(super) mode: Mode,
    pub(super) what: String,
    /// Whether permanent overrides change, which are then handed to persistence.
    pub(super) persist: bool,
}

/// A prepared change of one context.
struct Step<S: ConfigNamespaces> {
    inner: Arc<Inner<S>>,
    draft: Draft,
    old: Arc<Epoch<S>>,
    new: Arc<Epoch<S>>,
}

impl<S: ConfigNamespaces> Inner<S> {
    /// Runs one commit. `change` gets the number of the next layer and returns what the caller wants back.
    pub(super) fn commit<T>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Draft, u64) -> Result<(T, Terms), Errors>,
    ) -> Result<T, Errors> {
        let _turn = self.shared.turn()?;
        let (mut draft, id) = {
            let mut state = lock(&self.state);
            let id = state.next_layer;
            state.next_layer += 1;
            let (base, layers) = (Arc::clone(&state.base), state.layers.clone());
            let draft = Draft { base, layers, recompute: Recompute::Live, sources: None };
            (draft, id)
        };
        let (result, terms) = change(&mut draft, id)?;
        let mut steps = Vec::new();
        let facts = draft.sources.as_ref().map_or_else(|| self.shared.sources().facts.clone(), |new| new.facts.clone());
        self.prepare(draft, terms.mode, &facts, &mut steps)?;
        if terms.mode == Mode::Refuse {
            ask(&steps)?;
        }
        if terms.persist {
            self.persist(&steps[0].draft.layers)?;
        }
        store(steps, &terms.what);
        Ok(result)
    }

    /// Builds the next epoch of this context and of all its children aside.
    fn prepare(
        self: &Arc<Self>,
        mut draft: Draft,
        mode: Mode,
        facts: &Facts,
        steps: &mut Vec<Step<S>>,
    ) -> Result<(), Errors> {
        let recompute = draft.recompute;
        let old = self.current.load();
        let before = Before { base: &draft.base, facts, values: &old.values };
        let values = solve(&self.shared, &before, &mut draft.layers, mode, recompute)?;
        let new = Arc::new(old.next(old.number + 1, Arc::clone(&values)));
        steps.push(Step { inner: Arc::clone(self), draft, old, new });
        let children = lock(&self.children).clone();
        for (name, child) in children {
            let Some(child) = child.upgrade() else { continue };
            let layers = lock(&child.state).layers.clone();
            let draft = Draft { base: Arc::clone(&values), layers, recompute, sources: None };
            child.prepare(draft, mode, facts, steps).map_err(|errors| {
                let named = errors.iter().map(|error| error.clone().at(format!("child context `{name}`")));
                let mut list = Errors::default();
                list.extend(named);
                list
            })?;
        }
        Ok(())
    }

    /// Hands all permanent overrides to the program's persistence, before they become visible.
    fn persist(&self, layers: &[Layer]) -> Result<(), Errors> {
        let Some(persist) = lock(&self.shared.persist).clone() else { return Ok(()) };
        let entries = &self.shared.table.entries;
        let values: Vec<_> = permanent(layers)
            .flat_map(|layer| &layer.edit)
            .filter(|(index, _)| !(entries[*index].info.ops.is_secret)())
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
    layers.iter().filter(|layer| layer.kind == Kind::Permanent)
}

/// Every subscriber may veto; all are asked, so that all reasons are shown.
fn ask<S: ConfigNamespaces>(steps: &[Step<S>]) -> Result<(), Errors> {
    let mut errors = Errors::default();
    for step in steps {
        let (old, new) = (Pinned(Arc::clone(&step.old)), Pinned(Arc::clone(&step.new)));
        for (name, veto) in step.inner.subscribers.vetoes() {
            let answer = crate::guard::catch(|| veto(&old, &new)).unwrap_or_else(Err);
            if let Err(reason) = answer {
                errors.push(ConfigError::new(reason).at(format!("subscriber `{name}`")));
            }
        }
    }
    errors.check(())
}

/// Makes prepared steps visible, then tells the subscribers. Cannot fail.
fn store<S: ConfigNamespaces>(steps: Vec<Step<S>>, what: &str) {
    let mut changed = Vec::with_capacity(steps.len());
    for Step { inner, draft, old, new } in steps {
        let change = Change::between(&inner.shared.table, &old.values, &new.values, new.number, what);
        let mut state = lock(&inner.state);
        state.base = draft.base;
        state.layers = draft.layers;
        if state.history.len() == HISTORY {
            state.history.pop_front();
        }
        state.history.push_back(change);
        // Still under the lock: who reads epoch and layers under it finds what belongs together.
        if let Some(sources) = draft.sources {
            *lock(&inner.shared.sources) = Arc::new(sources);
        }
        let number = new.number;
        inner.current.store(new, number);
        drop(state);
        changed.push(inner);
    }
    for inner in changed {
        inner.subscribers.tell();
    }
}

/// What history calls a change that adds a layer.
pub(super) fn described(origin: &Origin) -> Terms {
    Terms { mode: Mode::Refuse, what: origin.to_string(), persist: false }
}
