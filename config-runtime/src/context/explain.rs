//! Why a leaf of this context has the value it has.

use std::sync::Arc;

use super::layer::Layer;
use super::{Context, Pinned, Sources, lock, scope};
use crate::error::ConfigError;
use crate::explain::Explanation;
use crate::leaf::Erased;
use crate::schema::{ConfigNamespaces, LeafInfo};
use crate::table::{Entry, Name, Now, Table};

impl<S: ConfigNamespaces> Context<S> {
    /// The whole chain behind a leaf: every value given, by whom, and which one is effective here.
    ///
    /// # Errors
    /// No leaf has this path; the nearest is named.
    pub fn explain(&self, path: &str) -> Result<Explanation, ConfigError> {
        let table = &self.0.shared.table;
        let Some(index) = table.index(path) else {
            return Err(unknown(table, path, |_| true));
        };
        Ok(self.moment().explain(index))
    }

    /// Everything that explanations need, of one moment.
    pub(crate) fn moment(&self) -> Moment<S> {
        let shared = &self.0.shared;
        // Commits store epoch, layers and sources under this lock, so they belong together. It is not the turn of the
        // commit itself: what a commit asks may explain. No code of the program runs under it.
        let (current, sources, base, mut layers) = {
            let state = lock(&self.0.state);
            (self.0.current.load(), shared.sources(), Arc::clone(&state.base), state.layers.clone())
        };
        layers.extend(scope::layers(&self.0, &current, &sources.facts));
        let pinned = Pinned(scope::overlaid(&self.0, || Arc::clone(&current)).unwrap_or(current));
        Moment { table: Arc::clone(&shared.table), sources, pinned, base, layers }
    }
}

/// That no leaf has this path, with the one that was meant: by its own name, a flag or a variable, or the nearest path.
/// `fits` says which leaves may be meant.
pub(super) fn unknown(table: &Table, path: &str, fits: impl Fn(&Entry) -> bool) -> ConfigError {
    let fitting = || table.entries.iter().filter(|entry| fits(entry)).map(|entry| entry.info);
    let paths = || fitting().map(|info| info.path);
    if let Some(Name::Former(former)) = table.name_of_path(path) {
        return match former.now {
            Now::Retired(note) => ConfigError::new(format!("this setting is gone: {note}")).leaf(former.path),
            Now::Alias(index) => renamed(former.path, table.entries[index].info.path),
            Now::Replaced(replaced) => renamed(former.path, replaced.target),
        };
    }
    if table.is_namespace(path) {
        let first = paths().find(|leaf| leaf.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')));
        let hint = first.map(|leaf| format!("name one of its settings, such as `{leaf}`"));
        return ConfigError::new(format!("`{path}` is a namespace")).hint(hint);
    }
    let plain = |text: &str| text.trim_start_matches('-').replace(['.', '-'], "_").to_lowercase();
    let given = plain(path);
    let is_end = |leaf: &str| {
        let ends = std::iter::once(leaf).chain(leaf.match_indices('.').map(|(dot, _)| &leaf[dot + 1..]));
        ends.map(plain).any(|end| end == given)
    };
    // The name of a variable ends with the path.
    let is_variable =
        |leaf: &str| given.strip_suffix(&plain(leaf)).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    let is_flag = |info: &&LeafInfo| !info.flag.is_empty() && plain(info.flag) == given;
    let flag = || fitting().find(is_flag).map(|info| info.path);
    let hint = match flag().or_else(|| paths().find(|leaf| is_end(leaf) || is_variable(leaf))) {
        Some(leaf) => Some(format!("did you mean `{leaf}`?")),
        None => crate::suggest::did_you_mean(path, paths()),
    };
    ConfigError::new(format!("no setting is called `{path}`")).hint(hint)
}

fn renamed(former: &str, now: &str) -> ConfigError {
    ConfigError::new(format!("`{former}` is a former name")).hint(Some(format!("this setting is `{now}` now")))
}

/// A context at one moment.
pub(crate) struct Moment<S: ConfigNamespaces> {
    table: Arc<Table>,
    sources: Arc<Sources>,
    pub(crate) pinned: Pinned<S>,
    base: Arc<[Erased]>,
    layers: Vec<Layer>,
}

impl<S: ConfigNamespaces> Moment<S> {
    pub(crate) fn explain(&self, index: usize) -> Explanation {
        let entry = &self.table.entries[index];
        let values = self.pinned.values();
        let mut explanation = Explanation::new(entry.info, &values[index]);
        if entry.is_derived() {
            let inputs = self.table.declared_inputs(index).into_iter();
            explanation.computed(&entry.info.start, inputs.map(|input| self.explain(input)).collect());
            return explanation;
        }
        let candidates = &self.sources.candidates[index];
        for (origin, value) in candidates {
            explanation.step(origin, value, false);
        }
        // A child's base is its parent's effective value, which the sources alone do not explain.
        if candidates.last().is_none_or(|(_, value)| !value.same(&*self.base[index])) {
            explanation.inherited(&self.base[index]);
        }
        for layer in &self.layers {
            for (_, value) in layer.edit.iter().filter(|(set, _)| *set == index) {
                explanation.step(&layer.origin, value, layer.suspended);
            }
        }
        explanation
    }
}
