//! Why a leaf of this context has the value it has.

use super::{Context, lock, scope};
use crate::error::ConfigError;
use crate::explain::Explanation;
use crate::schema::ConfigNamespaces;

impl<S: ConfigNamespaces> Context<S> {
    /// The whole chain behind a leaf: every value given, by whom, and which one is effective here.
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
        let pinned = self.pinned();
        let values = pinned.values();
        let sources = shared.sources();
        let mut explanation = Explanation::new(entry.info, &values[index]);
        if entry.is_derived() {
            let (inputs, _) = shared.table.inputs_of(index, values, &sources.facts);
            explanation.computed(&entry.info.start, inputs.into_iter().map(|input| self.explain_leaf(input)).collect());
            return explanation;
        }
        for (origin, value) in &sources.candidates[index] {
            explanation.step(origin, value, false);
        }
        let state = lock(&self.0.state);
        // A child's base is its parent's effective value, which the sources alone do not explain.
        if sources.candidates[index].last().is_none_or(|(_, value)| !value.same(&*state.base[index])) {
            explanation.inherited(&state.base[index]);
        }
        for layer in state.layers.iter().cloned().chain(scope::layers(&self.0)) {
            for (_, value) in layer.edit.iter().filter(|(set, _)| *set == index) {
                explanation.step(&layer.origin, value, layer.suspended);
            }
        }
        explanation
    }
}
