//! Published configuration: epochs, overrides as layers, children.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::edit::{ChildContext, Edit, EngineWideOverride};
use crate::error::{ConfigError, Errors};
use crate::explain::Explanation;
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::published::Published;
use crate::resolved::{Resolved, apply, settle};
use crate::role::{Everything, Role, View};
use crate::schema::{Bags, ConfigNamespaces};
use crate::table::Table;

/// One immutable version of a context: every leaf, and the bags built from them.
pub(crate) struct Epoch<S: ConfigNamespaces> {
    number: u64,
    pub(crate) values: Arc<[Erased]>,
    bags: S::Bags,
}

/// A pinned epoch, before it is narrowed to a role. Generated code wraps it.
pub struct Pinned<S: ConfigNamespaces>(Arc<Epoch<S>>);

impl<S: ConfigNamespaces> Pinned<S> {
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn bags(&self) -> &S::Bags {
        &self.0.bags
    }

    /// Number of the epoch: 0 at publish, one more with every commit.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.number
    }
}

impl<S: ConfigNamespaces> Clone for Pinned<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A set of overrides with one origin.
#[derive(Clone)]
struct Layer {
    id: u64,
    origin: Origin,
    edit: Vec<(usize, Erased)>,
    /// Set aside because the settings are not valid with it, after something it stood on was removed.
    suspended: bool,
}

/// What a commit may change. Written only under the family's lock.
struct State {
    /// The values under the layers: what was resolved, or the parent's effective values.
    base: Arc<[Erased]>,
    layers: Vec<Layer>,
    next_layer: u64,
}

struct Inner<S: ConfigNamespaces> {
    current: Published<Epoch<S>>,
    state: Mutex<State>,
    children: Mutex<Vec<(String, Weak<Inner<S>>)>>,
    shared: Arc<Shared>,
}

/// What a context has in common with its children.
struct Shared {
    table: Arc<Table>,
    facts: Facts,
    /// What the sources said about each leaf, for explain.
    candidates: Vec<Vec<(Origin, Erased)>>,
    /// Held for a whole commit: parents and children change together or not at all.
    commit: Mutex<()>,
}

/// A prepared change of one context. Nothing is visible until all are stored.
struct Step<S: ConfigNamespaces> {
    inner: Arc<Inner<S>>,
    base: Arc<[Erased]>,
    layers: Vec<Layer>,
    epoch: Arc<Epoch<S>>,
}

/// One engine's published configuration: a cheap handle, `Clone + Send + Sync`.
///
/// Readers [`pin`](Self::pin) an epoch and read plain fields. Changes are layers: each commit checks everything,
/// recomputes derived values, builds the next epoch aside and swaps it in.
pub struct Context<S: ConfigNamespaces>(Arc<Inner<S>>);

impl<S: ConfigNamespaces> Context<S> {
    pub(crate) fn publish(resolved: Resolved<S>) -> Self {
        let Resolved { record, facts, values } = resolved;
        let shared = Shared { table: record.table, facts, candidates: record.candidates, commit: Mutex::default() };
        Self(Arc::new(Inner::new(Arc::new(shared), values, Vec::new())))
    }

    /// One consistent epoch. A later change is seen by the next pin, never by this one.
    #[must_use]
    pub fn pin(&self) -> S::Pin<Everything> {
        S::Pin::from(self.pinned())
    }

    pub(crate) fn pinned(&self) -> Pinned<S> {
        Pinned(self.0.current.load())
    }

    /// This context as role `R` sees it.
    #[must_use]
    pub fn view<R: Role>(&self) -> View<S, R> {
        View::new(self.clone())
    }

    /// Overrides `hot` leaves for every reader of this context until the guard is dropped.
    ///
    /// Guards may be dropped in any order and from any thread: each is a layer, the newest wins, and dropping one
    /// removes its layer only.
    ///
    /// # Errors
    /// A value out of range or a broken cross-field rule, here or in a child. Nothing has changed then.
    #[track_caller]
    pub fn override_with(
        &self,
        why: &str,
        set: impl FnOnce(&mut S::Setters<EngineWideOverride>),
    ) -> Result<Override<S>, Errors> {
        // User code runs before any lock is taken.
        self.push_layer(why, Location::caller(), collect::<S, _>(set))
    }

    pub(crate) fn push_layer(
        &self,
        why: &str,
        location: &'static Location<'static>,
        edit: Vec<(usize, Erased)>,
    ) -> Result<Override<S>, Errors> {
        let _commit = lock(&self.0.shared.commit);
        let (base, mut layers, id) = {
            let mut state = lock(&self.0.state);
            let id = state.next_layer;
            state.next_layer += 1;
            (Arc::clone(&state.base), state.layers.clone(), id)
        };
        let origin = Origin::Override { layer: id, why: why.to_owned(), location };
        check_ranges(&self.0.shared.table, &edit, &origin)?;
        layers.push(Layer { id, origin, edit, suspended: false });
        let mut steps = Vec::new();
        self.0.prepare(base, layers, Mode::Refuse, &mut steps)?;
        store(steps);
        Ok(Override { context: Arc::downgrade(&self.0), id })
    }

    /// A context of its own that follows this one except for what `set` sets, of any class.
    ///
    /// Building it changes nothing here. Later changes of this context show through unless shadowed; one that would
    /// make the child invalid is refused, naming the child.
    ///
    /// # Errors
    /// A value out of range or a broken cross-field rule.
    #[track_caller]
    pub fn child(&self, name: &str, set: impl FnOnce(&mut S::Setters<ChildContext>)) -> Result<Self, Errors> {
        self.push_child(name, Location::caller(), collect::<S, _>(set))
    }

    pub(crate) fn push_child(
        &self,
        name: &str,
        location: &'static Location<'static>,
        edit: Vec<(usize, Erased)>,
    ) -> Result<Self, Errors> {
        let origin = Origin::Child { name: name.to_owned(), location };
        let _commit = lock(&self.0.shared.commit);
        let base = Arc::clone(&self.0.current.load().values);
        let shared = &self.0.shared;
        apply(&shared.table, &base, &edit, &origin, &shared.facts)?;
        let layer = Layer { id: 0, origin, edit, suspended: false };
        let child = Arc::new(Inner::new(Arc::clone(shared), base, vec![layer]));
        let mut children = lock(&self.0.children);
        children.retain(|(_, child)| child.strong_count() > 0);
        children.push((name.to_owned(), Arc::downgrade(&child)));
        Ok(Self(child))
    }

    /// The whole chain behind a leaf: every value given, by whom, and which one is effective.
    ///
    /// # Errors
    /// No leaf has this path; the nearest is named.
    pub fn explain(&self, path: &str) -> Result<Explanation, ConfigError> {
        let table = &self.0.shared.table;
        let Some(index) = table.index(path) else {
            let hint = crate::suggest::did_you_mean(path, table.entries.iter().map(|entry| entry.info.path));
            return Err(ConfigError::new(format!("no setting is called `{path}`")).hint(hint));
        };
        let _commit = lock(&self.0.shared.commit);
        Ok(self.explain_leaf(index))
    }

    fn explain_leaf(&self, index: usize) -> Explanation {
        let shared = &self.0.shared;
        let entry = &shared.table.entries[index];
        let values = &self.0.current.load().values;
        let mut explanation = Explanation::new(entry.info.path, &values[index], entry.is_derived());
        if entry.is_derived() {
            let known: Vec<_> = values.iter().cloned().map(Some).collect();
            let (inputs, _) = shared.table.inputs_of(index, &known, &shared.facts);
            let inputs = inputs.into_iter().map(|input| self.explain_leaf(input)).collect();
            explanation.computed(&entry.info.start, inputs);
            return explanation;
        }
        for (origin, value) in &shared.candidates[index] {
            explanation.step(origin, value, false);
        }
        let state = lock(&self.0.state);
        // A child's base is its parent's effective value, which the sources alone do not explain.
        if shared.candidates[index].last().is_none_or(|(_, value)| !value.same(&*state.base[index])) {
            explanation.inherited(&state.base[index]);
        }
        for layer in &state.layers {
            for (_, value) in layer.edit.iter().filter(|(set, _)| *set == index) {
                explanation.step(&layer.origin, value, layer.suspended);
            }
        }
        explanation
    }

    /// Every leaf with its effective value, in schema order.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, crate::value::Value)> {
        let epoch = self.0.current.load();
        let leaves = self.0.shared.table.entries.iter().map(|entry| entry.info.path);
        leaves.zip(epoch.values.iter().map(|value| value.to_value())).collect()
    }
}

/// Whether a change that does not validate is refused or its layers are set aside.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Refuse,
    Suspend,
}

impl<S: ConfigNamespaces> Inner<S> {
    fn new(shared: Arc<Shared>, base: Arc<[Erased]>, layers: Vec<Layer>) -> Self {
        let values = settle_layers(&shared, &base, &layers, |_| true).unwrap_or_else(|_| Arc::clone(&base));
        let bags = S::Bags::build(&values, None);
        let next_layer = layers.len() as u64;
        Self {
            current: Published::new(Epoch { number: 0, values, bags }),
            state: Mutex::new(State { base, layers, next_layer }),
            children: Mutex::default(),
            shared,
        }
    }

    /// Builds the next epoch of this context and of all its children aside.
    fn prepare(
        self: &Arc<Self>,
        base: Arc<[Erased]>,
        mut layers: Vec<Layer>,
        mode: Mode,
        steps: &mut Vec<Step<S>>,
    ) -> Result<(), Errors> {
        let values = solve(&self.shared, &base, &mut layers, mode)?;
        let old = self.current.load();
        let bags = S::Bags::build(&values, Some((&old.bags, &old.values)));
        let epoch = Arc::new(Epoch { number: old.number + 1, values: Arc::clone(&values), bags });
        steps.push(Step { inner: Arc::clone(self), base, layers, epoch });
        let children = lock(&self.children).clone();
        for (name, child) in children {
            let Some(child) = child.upgrade() else { continue };
            let layers = lock(&child.state).layers.clone();
            child.prepare(Arc::clone(&values), layers, mode, steps).map_err(|errors| {
                let mut named = Errors::default();
                for error in &errors {
                    named.push(error.clone().at(format!("child context `{name}`")));
                }
                named
            })?;
        }
        Ok(())
    }
}

/// The effective values of `base` under `layers`, all of them if that is valid.
fn solve(shared: &Shared, base: &Arc<[Erased]>, layers: &mut [Layer], mode: Mode) -> Result<Arc<[Erased]>, Errors> {
    if let Ok(values) = settle_layers(shared, base, layers, |_| true) {
        for layer in layers.iter_mut() {
            layer.suspended = false;
        }
        return Ok(values);
    }
    if mode == Mode::Refuse {
        return settle_layers(shared, base, layers, |layer| !layer.suspended);
    }
    // Oldest first, each layer that still fits. The base alone is valid: it was, and nothing in it changed.
    for layer in layers.iter_mut() {
        layer.suspended = true;
    }
    for index in 0..layers.len() {
        layers[index].suspended = false;
        if settle_layers(shared, base, layers, |layer| !layer.suspended).is_err() {
            layers[index].suspended = true;
        }
    }
    settle_layers(shared, base, layers, |layer| !layer.suspended)
}

fn settle_layers(
    shared: &Shared,
    base: &Arc<[Erased]>,
    layers: &[Layer],
    active: impl Fn(&Layer) -> bool,
) -> Result<Arc<[Erased]>, Errors> {
    let edit: Vec<_> =
        layers.iter().filter(|layer| active(layer)).flat_map(|layer| layer.edit.iter().cloned()).collect();
    if edit.is_empty() {
        return Ok(Arc::clone(base));
    }
    settle(&shared.table, base, &edit, &shared.facts)
}

fn check_ranges(table: &Table, edit: &[(usize, Erased)], origin: &Origin) -> Result<(), Errors> {
    let mut errors = Errors::default();
    for (index, value) in edit {
        let entry = &table.entries[*index];
        if let Err(problem) = entry.check_range(value) {
            errors.push(ConfigError::new(problem).given_by(origin).leaf(entry.info.path));
        }
    }
    errors.check(())
}

/// Makes prepared steps visible. Cannot fail.
fn store<S: ConfigNamespaces>(steps: Vec<Step<S>>) {
    for Step { inner, base, layers, epoch } in steps {
        let mut state = lock(&inner.state);
        state.base = base;
        state.layers = layers;
        drop(state);
        inner.current.store(epoch);
    }
}

fn collect<S: ConfigNamespaces, F>(set: impl FnOnce(&mut S::Setters<F>)) -> Vec<(usize, Erased)> {
    let mut setters = S::Setters::<F>::from(Edit::default());
    set(&mut setters);
    let edit: Edit = setters.into();
    edit.values
}

/// A panic in user code cannot leave state half-written, because it is written only after that code returned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: ConfigNamespaces> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (path, value) in self.values() {
            map.entry(&format_args!("{path}"), &format_args!("{value}"));
        }
        map.finish()
    }
}

/// An engine-wide override; it ends when this guard is dropped.
#[must_use = "the override ends when this guard is dropped"]
pub struct Override<S: ConfigNamespaces> {
    context: Weak<Inner<S>>,
    id: u64,
}

impl<S: ConfigNamespaces> Override<S> {
    /// Whether the override is set aside: the settings are not valid with it since something else was removed.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.context
            .upgrade()
            .is_some_and(|inner| lock(&inner.state).layers.iter().any(|layer| layer.id == self.id && layer.suspended))
    }
}

impl<S: ConfigNamespaces> Drop for Override<S> {
    fn drop(&mut self) {
        // A context that is gone has nothing to restore.
        let Some(inner) = self.context.upgrade() else { return };
        let _commit = lock(&inner.shared.commit);
        let (base, mut layers) = {
            let state = lock(&inner.state);
            (Arc::clone(&state.base), state.layers.clone())
        };
        layers.retain(|layer| layer.id != self.id);
        let mut steps = Vec::new();
        // Removal always succeeds: what is no longer valid without this layer is suspended.
        if inner.prepare(base, layers, Mode::Suspend, &mut steps).is_ok() {
            store(steps);
        }
    }
}

impl<S: ConfigNamespaces> fmt::Debug for Override<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Override({})", self.id)
    }
}
