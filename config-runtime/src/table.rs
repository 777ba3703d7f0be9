//! The schema laid out flat: one entry per leaf, in the order of the tree.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::error::ConfigError;
use crate::facts::Facts;
use crate::fingerprint::Fingerprint;
use crate::leaf::{Erased, Fault};
use crate::origin::Origin;
use crate::reader::{Inputs, Values};
use crate::schema::{
    Class, Computation, ConfigNamespaces, LeafInfo, NamespaceInfo, Policy, Replaced, Start, Validation,
};
use crate::value::{Value, shortened};

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

    fn is_secret(&self) -> bool {
        self.info.is_secret()
    }

    /// Whether another process must be told its value: it cannot be computed there from the other leaves.
    pub(crate) fn is_sent(&self) -> bool {
        !self.is_derived() || self.info.policy != Policy::Live
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

    /// The origin of a value that its rule chose.
    pub(crate) fn rule(&self) -> Option<Origin> {
        self.computation().map(|computation| Origin::Rule { function: computation.function })
    }

    fn computation(&self) -> Option<&Computation> {
        match &self.info.start {
            Start::Computed(computation) => Some(computation),
            _ => None,
        }
    }

    /// The value that a text from the environment or a flag stands for.
    pub(crate) fn parse_text(&self, text: &str) -> Result<Erased, ConfigError> {
        let value = self.caught(|| self.info.ops.ty.parse_text(text))?;
        // The first says enough: all have the same place.
        let faults = self.faults_within(value.as_ref(), || Value::Text(text.to_owned()));
        if let Some(fault) = faults.as_deref().and_then(<[Fault]>::first) {
            return Err(ConfigError::new(fault.text()).leaf(self.info.path));
        }
        self.accept(value, || format!("`{}`", shortened(text)))
    }

    /// The value that a file's value stands for.
    pub(crate) fn parse_value(&self, value: &Value) -> Result<Erased, Refused> {
        let parsed = self.caught(|| self.info.ops.ty.parse_value(value)).map_err(Refused::Whole)?;
        if let Some(faults) = self.faults_within(parsed.as_ref(), || value.clone()) {
            return Err(Refused::Within(faults));
        }
        let accepted = self.accept(parsed, || value.describe());
        accepted.map_err(|error| {
            Refused::Whole(if error.suggestion().is_none() { error.hint(self.quoting(value)) } else { error })
        })
    }

    /// Advice where only the quotes of a file's value are wrong.
    fn quoting(&self, value: &Value) -> Option<String> {
        if self.is_secret() {
            return None;
        }
        let (other, advice) = match value {
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
                (Value::Text(value.to_string()), "put it in quotes")
            }
            Value::Text(text) => {
                let scalar = text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Float));
                (scalar.or_else(|_| text.parse().map(Value::Bool)).ok()?, "write it without quotes")
            }
            Value::Unset | Value::List(_) | Value::Table(_) => return None,
        };
        self.caught(|| self.info.ops.ty.parse_value(&other)).ok()?.map(|_| advice.to_owned())
    }

    /// What a leaf's own code reads; a panic in it is an error like any other.
    fn caught<T>(&self, read: impl FnOnce() -> T) -> Result<T, ConfigError> {
        crate::guard::catch(read).map_err(|panic| {
            let problem = if self.is_secret() { "it panicked; the value given is not shown".to_owned() } else { panic };
            ConfigError::new(problem).leaf(self.info.path)
        })
    }

    /// A list or map says which entries it is, unless that would show a secret.
    fn faults_within(&self, parsed: Option<&Erased>, given: impl FnOnce() -> Value) -> Option<Vec<Fault>> {
        let is_shown = parsed.is_none() && !self.is_secret();
        is_shown.then(|| self.info.ops.ty.faults(&given())).filter(|faults| !faults.is_empty())
    }

    fn accept(&self, value: Option<Erased>, found: impl Fn() -> String) -> Result<Erased, ConfigError> {
        let error = |problem| ConfigError::new(problem).leaf(self.info.path);
        let Some(value) = value else {
            let expected = self.info.ops.ty.expected();
            if self.is_secret() {
                return Err(error(format!("expected {expected}; the value given is not shown")));
            }
            let hint = self
                .info
                .ops
                .ty
                .choices()
                .and_then(|names| crate::suggest::did_you_mean(found().trim_matches('`'), names.iter().copied()));
            return Err(error(format!("expected {expected}, found {}", found())).hint(hint));
        };
        self.check_range(&value).map_err(error)?;
        Ok(value)
    }

    pub(crate) fn check_range(&self, value: &Erased) -> Result<(), String> {
        if !value.is_valid() {
            return Err(format!("expected {}, found {}", self.info.ops.ty.expected(), value.to_value()));
        }
        if let Some(range) = self.info.ops.range.and_then(|range| range(Some(value))) {
            return Err(format!("{} is outside {range}", value.to_value()));
        }
        match self.info.ops.validate {
            Some(validate) => crate::guard::catch(|| validate(value)).unwrap_or_else(Err),
            None => Ok(()),
        }
    }
}

/// Why a file's value is refused.
pub(crate) enum Refused {
    Whole(ConfigError),
    /// For what is in it.
    Within(Vec<Fault>),
}

/// A name that is not a leaf any more.
pub(crate) struct Former {
    pub(crate) path: &'static str,
    pub(crate) flag: String,
    pub(crate) now: Now,
}

/// What a former name stands for.
pub(crate) enum Now {
    /// The leaf with this index.
    Alias(usize),
    /// Another leaf, after conversion and with a warning.
    Replaced(&'static Replaced),
    /// Nothing: the advice is given.
    Retired(&'static str),
}

/// What a name in a source means.
pub(crate) enum Name<'a> {
    Leaf(usize),
    Former(&'a Former),
}

/// Hashes paths. They are the program's own, so nobody can choose them to collide, and a short hash is a fast one.
#[derive(Default)]
struct PathHasher(u64);

impl Hasher for PathHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add(*word);
        }
        match bytes.last_chunk() {
            _ if rest.is_empty() => {}
            // Some bytes count twice, which is quicker than to copy so few.
            Some(word) => self.add(*word),
            None => rest.iter().for_each(|byte| self.add(u64::from(*byte).to_le_bytes())),
        }
    }

    /// The end of a text. A path is hashed alone, so nothing has to be kept apart from what follows it.
    fn write_u8(&mut self, _: u8) {}
}

impl PathHasher {
    fn add(&mut self, word: [u8; 8]) {
        self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// The whole schema.
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
    /// Each with the offset of its struct.
    validations: Vec<(usize, Validation)>,
    /// Leaves with a computation, each after its inputs.
    order: Vec<usize>,
    by_path: HashMap<&'static str, usize, BuildHasherDefault<PathHasher>>,
    /// Former names: path, and what it stands for now.
    pub(crate) former: Vec<Former>,
    /// Path and doc of each namespace.
    pub(crate) namespaces: Vec<(&'static str, &'static str)>,
    pub(crate) env_prefix: Option<&'static str>,
}

impl Table {
    pub(crate) fn of<S: ConfigNamespaces>() -> Self {
        let mut table = Self {
            entries: Vec::with_capacity(S::schema().len()),
            validations: Vec::new(),
            order: Vec::new(),
            by_path: HashMap::default(),
            former: Vec::new(),
            namespaces: Vec::new(),
            env_prefix: S::ENV_PREFIX,
        };
        table.add(S::schema(), 0);
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
            let computed = || self.env_name(info.path).filter(|_| info.class != Class::Derived);
            let env = info.env.map(str::to_owned).or_else(computed);
            for alias in info.aliases {
                let flag = alias.rsplit('.').next().unwrap_or(alias).replace('_', "-");
                self.former.push(Former { path: alias, flag, now: Now::Alias(self.entries.len()) });
            }
            self.entries.push(Entry { info, offset, env });
        }
        for replaced in namespace.replaced {
            let (path, flag) = (replaced.path, replaced.flag.to_owned());
            self.former.push(Former { path, flag, now: Now::Replaced(replaced) });
        }
        for (path, note) in namespace.retired {
            let flag = path.rsplit('.').next().unwrap_or(path).replace('_', "-");
            self.former.push(Former { path, flag, now: Now::Retired(note) });
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

    /// The environment variable that belongs to a path.
    pub(crate) fn env_name(&self, path: &str) -> Option<String> {
        self.env_prefix.map(|prefix| format!("{prefix}_{}", path.replace('.', "_").to_uppercase()))
    }

    /// What a path in a file means.
    pub(crate) fn name_of_path(&self, path: &str) -> Option<Name<'_>> {
        let former = || self.former.iter().find(|former| former.path == path).map(Name::Former);
        self.index(path).map(Name::Leaf).or_else(former)
    }

    /// What an environment variable means.
    pub(crate) fn name_of_variable(&self, variable: &str) -> Option<Name<'_>> {
        let leaf = self.entries.iter().position(|entry| entry.env.as_deref() == Some(variable)).map(Name::Leaf);
        let is_former = |former: &&Former| self.env_name(former.path).as_deref() == Some(variable);
        leaf.or_else(|| self.former.iter().find(is_former).map(Name::Former))
    }

    /// Digest of the schema: names, types, classes, defaults and ranges of all leaves.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let parts = self.entries.iter().flat_map(|entry| {
            let info = entry.info;
            let start = match info.start {
                Start::Required => "",
                Start::Default { text, .. } => text,
                Start::Computed(computation) => computation.function,
            };
            [
                info.path,
                info.type_name,
                start,
                info.range.unwrap_or_default(),
                if entry.is_derived() { "derived" } else { "" },
            ]
        });
        Fingerprint::of(parts)
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
        let leads_to = |to: &str| to.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let former = || self.former.iter().any(|former| former.path != path && leads_to(former.path));
        self.namespaces.iter().any(|(namespace, _)| leads_to(namespace)) || former()
    }

    /// Fills in computed values whose inputs are known: derived ones and `auto` leaves that nobody set.
    pub(crate) fn compute(&self, values: &mut [Option<Erased>], facts: &Facts) -> Vec<ConfigError> {
        self.run(values, facts, |index, values| values[index].is_none())
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
            let value = match crate::guard::catch(|| {
                (computation.run)(&Inputs::new(Values::Partial(values), entry.offset, facts))
            }) {
                Ok(value) => value,
                Err(panic) => {
                    errors.push(error(format!("{panic} ({})", self.named(computation.inputs, values))));
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
            let run = || (validation.run)(&Inputs::new(Values::Partial(values), *offset, facts));
            if let Err(problem) = crate::guard::catch(run).unwrap_or_else(Err) {
                let inputs = self.named(validation.inputs, values);
                let place = format!("rule `{}`", validation.function);
                errors.push(ConfigError::new(format!("{problem} ({inputs})")).at(place));
            }
        }
        errors
    }

    /// What a rule was given, for messages.
    fn named(&self, inputs: &'static [&'static str], values: &[Option<Erased>]) -> String {
        let inputs = self
            .indices(inputs)
            .filter_map(|index| Some((self.entries[index].info.path, values[index].as_ref()?.to_value())))
            .map(|(path, value)| format!("{path} = {}", shortened(&value.to_string())));
        inputs.collect::<Vec<_>>().join(", ")
    }

    /// The inputs that a computed leaf declares.
    pub(crate) fn declared_inputs(&self, index: usize) -> Vec<usize> {
        let computation = self.entries[index].computation();
        computation.map_or_else(Vec::new, |computation| self.indices(computation.inputs).collect())
    }

    /// The inputs of a computed leaf, as declared and as really read.
    pub(crate) fn inputs_of(&self, index: usize, values: &[Erased], facts: &Facts) -> (Vec<usize>, Vec<usize>) {
        let entry = &self.entries[index];
        let Some(computation) = entry.computation() else { return (Vec::new(), Vec::new()) };
        let inputs = Inputs::new(Values::Settled(values), entry.offset, facts);
        let _ = (computation.run)(&inputs);
        (self.indices(computation.inputs).collect(), inputs.read())
    }
}
