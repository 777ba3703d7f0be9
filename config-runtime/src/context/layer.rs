//! Overrides as layers over the base, and the values that follow from them.

use std::sync::Arc;

use super::Shared;
use super::trial::Term;
use crate::error::Errors;
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::resolved::settle;
use crate::table::Recompute;

/// A set of overrides with one origin.
#[derive(Clone)]
pub(super) struct Layer {
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) origin: Origin,
    pub(super) edit: Vec<(usize, Erased)>,
    /// Set aside because the settings are not valid with it, after something it stood on was removed.
    pub(super) suspended: bool,
    /// It goes unless it is confirmed.
    pub(super) trial: Option<Term>,
}

impl Layer {
    pub(super) fn new(id: u64, kind: Kind, origin: Origin, edit: Vec<(usize, Erased)>) -> Self {
        Self { id, kind, origin, edit, suspended: false, trial: None }
    }

    pub(super) fn sets(&self, index: usize) -> bool {
        self.edit.iter().any(|(set, _)| *set == index)
    }

    /// Whether it stays until replaced.
    pub(super) fn is_confirmed(&self) -> bool {
        self.kind == Kind::Permanent && self.trial.is_none()
    }
}

/// Which layers lie above which: in this order, and within a kind the newest on top.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    /// What makes a child differ from its parent.
    Child,
    /// Stays until replaced, unless it is on trial.
    Permanent,
    /// Ends with its guard.
    EngineWide,
    /// Seen by one thread or future.
    Scope,
}

/// Whether a change that does not validate is refused or its layers are set aside.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Refuse,
    Suspend,
}

/// What layers are put over, and what they replace.
pub(super) struct Before<'a> {
    pub(super) base: &'a Arc<[Erased]>,
    pub(super) facts: &'a Facts,
    /// The effective values so far: derived values that do not follow keep theirs.
    pub(super) values: &'a [Erased],
}

/// Puts a layer in its place.
pub(super) fn insert(layers: &mut Vec<Layer>, layer: Layer) {
    let position = layers.iter().rposition(|below| below.kind <= layer.kind).map_or(0, |below| below + 1);
    layers.insert(position, layer);
}

/// The effective values of `base` under `layers`, all of them if that is valid.
pub(super) fn solve(
    shared: &Shared,
    before: &Before<'_>,
    layers: &mut [Layer],
    mode: Mode,
    recompute: Recompute,
) -> Result<Arc<[Erased]>, Errors> {
    let settle_active = |layers: &[Layer]| settle_layers(shared, before, layers, recompute, |layer| !layer.suspended);
    match settle_layers(shared, before, layers, recompute, |_| true) {
        Ok(values) => {
            for layer in layers.iter_mut() {
                layer.suspended = false;
            }
            return Ok(values);
        }
        // With nothing set aside a second try is the same try: no rule runs, or panics, twice.
        Err(errors) if mode == Mode::Refuse && !layers.iter().any(|layer| layer.suspended) => return Err(errors),
        Err(_) => {}
    }
    if mode == Mode::Refuse {
        return settle_active(layers);
    }
    // Oldest first, each layer that still fits. The base alone is valid: it was checked before it became the base.
    for layer in layers.iter_mut() {
        layer.suspended = true;
    }
    for index in 0..layers.len() {
        layers[index].suspended = false;
        if settle_active(layers).is_err() {
            layers[index].suspended = true;
        }
    }
    settle_active(layers)
}

fn settle_layers(
    shared: &Shared,
    before: &Before<'_>,
    layers: &[Layer],
    recompute: Recompute,
    active: impl Fn(&Layer) -> bool,
) -> Result<Arc<[Erased]>, Errors> {
    let edit: Vec<_> =
        layers.iter().filter(|layer| active(layer)).flat_map(|layer| layer.edit.iter().cloned()).collect();
    settle(&shared.table, before.base, before.values, &edit, before.facts, recompute)
}
