//! The schema laid out flat: one entry per leaf, in the order of the tree.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::ConfigError;
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::reader::Inputs;
use crate::schema::{Class, Computation, ConfigNamespaces, LeafInfo, NamespaceInfo, Policy, Start, Validation};
use crate::value::Value;

/// Which derived values follow.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Recompute {
    /// Those that follow every change.
    Live,
    /// Those that follow a publish, too.
    Publish,
    /// All: a context is launched.
    All,
}

/// One leaf.
pub(crate) struct Entry {
    pub(crate) info: &'static LeafInfo,
    /// Index of the first leaf of the struct that declares it; keys in its computation count from there.
    offset: usize,
    /// Its environment variable.
    pub(crate) env: Option<String>,
}

impl Entry {
    pub(crate) fn is_derived(&self) -> bool {
        self.info.class == Class::Derived
    }

    /// Whether its derived value is computed anew on this occasion.
    fn follows(&self, recompute: Recompute) -> bool {
        self.is_derived()
            && match self.info.policy {
                Policy::Live => true,
                Policy::AtPublish => recompute != Recompute::Live,
                Policy::AtLaunch => recompute == Recompute::All,
            }
    }

    fn computation(&self) -> Option<&Computation> {
        match &self.info.start {
            Start::Computed(computation) => Some(computation),
            _ => None,
        }
    }

    /// The value that a text from the environment or a flag stands for.
    pub(crate) fn parse_text(&self, text: &str) -> Result<Erased, ConfigError> {
        let value = (self.info.ops.from_text)(text);
        self.accept(value, || format!("`{text}`"))
    }

    /// The value that a file's value stands for.
    pub(crate) fn parse_value(&self, value: &Value) -> Result<Erased, ConfigError> {
        self.accept((self.info.ops.from_value)(value), || value.describe())
    }

    fn accept(&self, value: Option<Erased>, found: impl Fn() -> String) -> Result<Erased, ConfigError> {
        let error = |problem| ConfigError::new(problem).leaf(self.info.path);
        let Some(value) = value else {
            let expected = (self.info.ops.expected)();
            let hint = (self.info.ops.choices)()
                .and_then(|names| crate::suggest::did_you_mean(found().trim_matches('`'), names.iter().copied()));
            return Err(error(format!("expected {expected}, found {}", found())).hint(hint));
        };
        self.check_range(&value).map_err(error)?;
        Ok(value)
    }

    pub(crate) fn check_range(&self, value: &Erased) -> Result<(), String> {
        match (self.info.ops.in_range, self.info.range) {
            (Some(in_range), Some(range)) if !in_range(value) => {
                Err(format!("{} is outside {range}", value.to_value()))
            }
            _ => Ok(()),
        }
    }
}

/// The whole schema.
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
    /// Each with the offset of its struct.
    validations: Vec<(usize, Validation)>,
    /// Leaves with a computation, each after its inputs.
    order: Vec<usize>,
    by_path: HashMap<&'static str, usize>,
    /// Path and doc of each namespace.
    pub(crate) namespaces: Vec<(&'static str, &'static str)>,
    pub(crate) env_prefix: Option<&'static str>,
}

impl Table {
    pub(crate) fn of<S: ConfigNamespaces>() -> Self {
        let mut table = Self {
            entries: Vec::with_capacity(S::SCHEMA.len()),
            validations: Vec::new(),
            order: Vec::new(),
            by_path: HashMap::new(),
            namespaces: Vec::new(),
            env_prefix: S::ENV_PREFIX,
        };
        table.add(&S::SCHEMA, 0);
        table.by_path = table.entries.iter().enumerate().map(|(index, entry)| (entry.info.path, index)).collect();
        table.order = table.evaluation_order();
        table
    }

    /// `declared_at`: offset of the struct that declares this namespace. A namespace that is a struct of its own
    /// starts a new one; namespaces of a flat schema all belong to the root.
    fn add(&mut self, namespace: &NamespaceInfo, declared_at: usize) {
        let here = self.entries.len();
        let offset = if namespace.own_struct { here } else { declared_at };
        if !namespace.path.is_empty() {
            self.namespaces.push((namespace.path, namespace.doc));
        }
        for info in namespace.leaves {
            let env = (info.class != Class::Derived)
                .then_some(self.env_prefix)
                .flatten()
                .map(|prefix| format!("{prefix}_{}", info.path.replace('.', "_").to_uppercase()));
            self.entries.push(Entry { info, offset, env });
        }
        self.validations.extend(namespace.validations.iter().map(|validation| (offset, *validation)));
        for child in namespace.children {
            self.add(child, offset);
        }
    }

    /// Depth-first over inputs. A cycle is a compile error of the derive, so the walk ends.
    fn evaluation_order(&self) -> Vec<usize> {
        fn visit(table: &Table, index: usize, seen: &mut [bool], order: &mut Vec<usize>) {
            if std::mem::replace(&mut seen[index], true) {
                return;
            }
            if let Some(computation) = table.entries[index].computation() {
                for input in table.indices(computation.inputs) {
                    visit(table, input, seen, order);
                }
                order.push(index);
            }
        }
        let mut order = Vec::new();
        let mut seen = vec![false; self.entries.len()];
        for index in 0..self.entries.len() {
            visit(self, index, &mut seen, &mut order);
        }
        order
    }

    pub(crate) fn index(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    fn indices(&self, paths: &'static [&'static str]) -> impl Iterator<Item = usize> {
        paths.iter().filter_map(|path| self.index(path))
    }

    /// Paths, for suggestions. Derived values cannot be set, so they are not suggested.
    pub(crate) fn settable_paths(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().filter(|entry| !entry.is_derived()).map(|entry| entry.info.path)
    }

    /// Whether `path` is a namespace or leads to one.
    pub(crate) fn is_namespace(&self, path: &str) -> bool {
        self.namespaces.iter().any(|(namespace, _)| {
            namespace.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Fills in computed values whose inputs are known: derived ones, and `auto` leaves that nobody set.
    pub(crate) fn compute(&self, values: &mut [Option<Erased>], facts: &Facts) -> Vec<ConfigError> {
        self.run(values, facts, |index, values| self.entries[index].is_derived() || values[index].is_none())
    }

    /// Computes derived values anew as far as this is an occasion for them to follow; the others keep the value they
    /// have in `before`. `auto` leaves were settled at resolution and do not follow.
    pub(crate) fn recompute(
        &self,
        values: &mut [Option<Erased>],
        before: &[Erased],
        facts: &Facts,
        recompute: Recompute,
    ) -> Vec<ConfigError> {
        for index in (0..self.entries.len()).filter(|index| self.entries[*index].is_derived()) {
            // Those that follow start from their old value too: an equal result then keeps its identity.
            values[index] = Some(Arc::clone(&before[index]));
        }
        self.run(values, facts, |index, _| self.entries[index].follows(recompute))
    }

    fn run(
        &self,
        values: &mut [Option<Erased>],
        facts: &Facts,
        due: impl Fn(usize, &[Option<Erased>]) -> bool,
    ) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for &index in &self.order {
            let entry = &self.entries[index];
            let Some(computation) = entry.computation().filter(|_| due(index, values)) else { continue };
            // An input with an error of its own has no value; that error is already reported.
            if self.indices(computation.inputs).any(|input| values[input].is_none()) {
                continue;
            }
            let error = |problem| {
                ConfigError::new(problem).at(format!("rule `{}`", computation.function)).leaf(entry.info.path)
            };
            let value = match crate::guard::catch(|| (computation.run)(&Inputs::new(values, entry.offset, facts))) {
                Ok(value) => value,
                Err(panic) => {
                    errors.push(error(panic));
                    continue;
                }
            };
            match entry.check_range(&value) {
                // An equal value keeps its identity, so that its namespace is not rebuilt.
                Ok(()) if values[index].as_ref().is_some_and(|old| old.same(&*value)) => {}
                Ok(()) => values[index] = Some(value),
                Err(problem) => errors.push(error(problem)),
            }
        }
        errors
    }

    /// Indices of the leaves whose values differ.
    pub(crate) fn changed(&self, old: &[Erased], new: &[Erased]) -> Vec<usize> {
        let differs = |index: &usize| {
            let (old, new) = (&old[*index], &new[*index]);
            !Arc::ptr_eq(old, new) && !old.same(&**new)
        };
        (0..self.entries.len()).filter(differs).collect()
    }

    /// Every cross-field rule whose inputs are known. An error shows the values of all inputs.
    pub(crate) fn validate(&self, values: &[Option<Erased>], facts: &Facts) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for (offset, validation) in &self.validations {
            if self.indices(validation.inputs).any(|input| values[input].is_none()) {
                continue;
            }
            let run = || (validation.run)(&Inputs::new(values, *offset, facts));
            if let Err(problem) = crate::guard::catch(run).unwrap_or_else(Err) {
                let inputs: Vec<_> = self
                    .indices(validation.inputs)
                    .filter_map(|index| Some((self.entries[index].info.path, values[index].as_ref()?.to_value())))
                    .map(|(path, value)| format!("{path} = {value}"))
                    .collect();
                let place = format!("rule `{}`", validation.function);
                errors.push(ConfigError::new(format!("{problem} ({})", inputs.join(", "))).at(place));
            }
        }
        errors
    }

    /// The inputs of a computed leaf, as declared and as really read.
    pub(crate) fn inputs_of(&self, index: usize, values: &[Erased], facts: &Facts) -> (Vec<usize>, Vec<usize>) {
        let entry = &self.entries[index];
        let Some(computation) = entry.computation() else { return (Vec::new(), Vec::new()) };
        let values: Vec<_> = values.iter().cloned().map(Some).collect();
        let inputs = Inputs::new(&values, entry.offset, facts);
        let _ = (computation.run)(&inputs);
        (self.indices(computation.inputs).collect(), inputs.read())
    }
}
