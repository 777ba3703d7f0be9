//! Settled values, not yet published.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::context::{Context, Pinned};
use crate::edit::LoadTimeDeclaration;
use crate::error::{ConfigError, Errors};
use crate::facts::Facts;
use crate::fingerprint::Recording;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::record::Record;
use crate::schema::{ConfigNamespaces, Start};
use crate::table::{Recompute, Table};
use crate::value::Value;

/// Every leaf with its value: what is published, or amended by load-time declarations first.
pub struct Resolved<S> {
    pub(crate) record: Record<S>,
    pub(crate) facts: Facts,
    /// One value per leaf.
    pub(crate) values: Arc<[Erased]>,
    /// What was declared while loading, in order.
    pub(crate) declared: Vec<Declaration>,
    /// Leaves that were read before publish, each once.
    early: Vec<usize>,
}

/// A leaf set by [`Resolved::declare`].
pub(crate) type Declaration = (Origin, usize, Erased);

impl<S: ConfigNamespaces> Resolved<S> {
    /// `refused`: leaves whose value a source's error already speaks of. `errors`: what the sources reported.
    pub(crate) fn of(
        mut record: Record<S>,
        facts: &Facts,
        refused: &[bool],
        mut errors: Errors,
    ) -> Result<Self, Errors> {
        let table = Arc::clone(&record.table);
        let mut values: Vec<Option<Erased>> = vec![None; table.entries.len()];
        for (index, entry) in table.entries.iter().enumerate() {
            match initial(&table, index) {
                Ok(Some(default)) => record.candidates[index].insert(0, (Origin::Default, default)),
                Ok(None) => {
                    let missing = record.candidates[index].is_empty() && !refused[index];
                    if missing && matches!(entry.info.start, Start::Required) {
                        errors.push(missing_leaf(&table, index));
                    }
                }
                Err(error) => errors.push(error),
            }
            values[index] = record.candidates[index].last().map(|(_, value)| Arc::clone(value));
            if refused[index] {
                values[index] = None;
            }
        }
        let unset: Vec<_> = values.iter().map(Option::is_none).collect();
        errors.extend(table.compute(&mut values, facts));
        for (index, value) in values.iter().enumerate() {
            if let (true, Some(value), Start::Computed(computation)) =
                (unset[index], value, table.entries[index].info.start)
            {
                let origin = Origin::Rule { function: computation.function };
                record.candidates[index].push((origin, Arc::clone(value)));
            }
        }
        errors.extend(table.validate(&values, facts));
        let values: Option<Arc<[Erased]>> = values.into_iter().collect();
        match values {
            Some(values) => {
                errors.check(Self { record, facts: facts.clone(), values, declared: Vec::new(), early: Vec::new() })
            }
            None => Err(errors),
        }
    }

    /// Reads, before publish, the settings that say what is to be loaded.
    ///
    /// What was read is settled with that: a [`declare`](Self::declare) that would change it comes too late, and is an error.
    ///
    /// ```
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// File to load.
    /// #     #[config(ns = "model", default = "tiny.bin")]
    /// #     path: String,
    /// #     /// Tokens that fit in the cache.
    /// #     #[config(ns = "schedule", default = 4096, load_time)]
    /// #     tokens: usize,
    /// # }
    /// let mut resolved = Args::loader().resolve()?;
    /// let path = resolved.read_early(|now| now.model().path().to_owned());
    /// assert_eq!(path, "tiny.bin");
    /// let too_early = resolved.read_early(|now| now.schedule().tokens());
    /// let errors = resolved.declare("the file is short", |o| o.schedule().tokens(1024)).unwrap_err();
    /// assert!(errors.to_string().contains("schedule.tokens: declared as 1024 after it was read as 4096"), "{errors}");
    /// # assert_eq!(too_early, 4096);
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    pub fn read_early<T>(&mut self, read: impl FnOnce(&S::Recording) -> T) -> T {
        let recording = S::Recording::from(Pinned::of_settled(&self.values));
        let got = read(&recording);
        self.settle_what_was_read(&recording);
        got
    }

    /// Reads, before publish, settings that may be left to what is loaded: with `None` they are, and nothing is settled.
    ///
    /// ```
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Tokens that fit in the cache; as many as the file has unless set.
    /// #     #[config(ns = "schedule", load_time)]
    /// #     tokens: Option<usize>,
    /// # }
    /// for (argv, tokens) in [(&["engine"][..], None), (&["engine", "--tokens=512"], Some(512))] {
    ///     let mut resolved = Args::loader().args(argv.iter().copied()).resolve()?;
    ///     assert_eq!(resolved.try_read_early(|now| now.schedule().tokens()), tokens);
    ///     // What was left open may be declared, and only that.
    ///     let declared = resolved.declare("the file is short", |o| o.schedule().tokens(Some(1024)));
    ///     assert_eq!(declared.is_ok(), tokens.is_none());
    /// }
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    pub fn try_read_early<T>(&mut self, read: impl FnOnce(&S::Recording) -> Option<T>) -> Option<T> {
        let recording = S::Recording::from(Pinned::of_settled(&self.values));
        let got = read(&recording)?;
        self.settle_what_was_read(&recording);
        Some(got)
    }

    fn settle_what_was_read(&mut self, recording: &S::Recording) {
        for leaf in recording.parts().1.leaves() {
            if !self.early.contains(&leaf) {
                self.early.push(leaf);
            }
        }
    }

    /// Declares what a loaded artefact forces, before anything reads the settings.
    ///
    /// Rules follow: an `auto` leaf that nobody set is computed anew from what is declared. Consumes the value: after
    /// [`publish`](Self::publish) there is nothing left to declare on.
    ///
    /// # Errors
    /// A value out of range, a broken cross-field rule, or a change of what was [read early](Self::read_early).
    #[track_caller]
    pub fn declare(self, why: &str, set: impl FnOnce(&mut S::Setters<LoadTimeDeclaration>)) -> Result<Self, Errors> {
        self.decide(why, |_, setters| set(setters))
    }

    /// Declares what follows from a loaded artefact together with what is set: the first argument of `decide` tells that.
    ///
    /// A look at a setting in there is no [early read](Self::read_early). So a setting that may be "as the artefact says" is decided,
    /// and one that an operator has set is left alone.
    ///
    /// ```
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Tokens that fit in the cache; as many as the file has unless set.
    /// #     #[config(ns = "schedule", load_time)]
    /// #     tokens: Option<usize>,
    /// # }
    /// for (argv, tokens) in [(&["engine"][..], 1024), (&["engine", "--tokens=512"], 512)] {
    ///     let resolved = Args::loader().args(argv.iter().copied()).resolve()?;
    ///     let resolved = resolved.decide("the file is short", |now, o| {
    ///         if now.schedule().tokens().is_none() {
    ///             o.schedule().tokens(Some(1024));
    ///         }
    ///     })?;
    ///     assert_eq!(resolved.publish().pin().schedule().tokens(), Some(tokens));
    /// }
    /// # Ok::<(), kitbag::Errors>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`declare`](Self::declare).
    #[track_caller]
    pub fn decide(
        self,
        why: &str,
        decide: impl FnOnce(&S::Recording, &mut S::Setters<LoadTimeDeclaration>),
    ) -> Result<Self, Errors> {
        let origin = Origin::LoadTime { why: why.to_owned(), location: Location::caller() };
        let mut setters = S::Setters::from(crate::edit::Edit::default());
        decide(&S::Recording::from(Pinned::of_settled(&self.values)), &mut setters);
        let edit: crate::edit::Edit = setters.into();
        check_ranges(&self.record.table, &edit.values, &origin)?;
        self.with_declared(edit.values.into_iter().map(|(index, value)| (origin.clone(), index, value)).collect())
    }

    /// The same with further declarations, whose values are known to be in range.
    pub(crate) fn with_declared(mut self, declared: Vec<Declaration>) -> Result<Self, Errors> {
        let table = Arc::clone(&self.record.table);
        let by_rule = |given: &[(Origin, Erased)]| matches!(given.last(), Some((Origin::Rule { .. }, _)));
        // What a rule chose is chosen anew: what it follows from may be what is declared.
        let settled = self.values.iter().zip(&self.record.candidates);
        let mut next: Vec<_> = settled.map(|(value, given)| (!by_rule(given)).then(|| Arc::clone(value))).collect();
        for (_, index, value) in &declared {
            next[*index] = Some(Arc::clone(value));
        }
        let mut errors = Errors::default();
        errors.extend(table.compute(&mut next, &self.facts));
        errors.extend(table.validate(&next, &self.facts));
        for &leaf in &self.early {
            errors.extend(next[leaf].as_ref().and_then(|value| self.too_late(leaf, value, &declared)));
        }
        errors.check(())?;
        let candidates = &mut self.record.candidates;
        for (given, value) in candidates.iter_mut().zip(&next) {
            if let (Some((Origin::Rule { .. }, chosen)), Some(value)) = (given.last_mut(), value) {
                *chosen = Arc::clone(value);
            }
        }
        for (origin, index, value) in &declared {
            candidates[*index].push((origin.clone(), Arc::clone(value)));
        }
        // Without an error every leaf has a value.
        self.values = next.into_iter().flatten().collect();
        self.declared.extend(declared);
        Ok(self)
    }

    /// The fault of a value that is not the one that was read.
    fn too_late(&self, leaf: usize, value: &Erased, declared: &[Declaration]) -> Option<ConfigError> {
        let read = &self.values[leaf];
        if read.same(&**value) {
            return None;
        }
        // What is declared together has one origin.
        let (origin, ..) = declared.first()?;
        let (value, read) = (value.to_value(), read.to_value());
        let fault = ConfigError::new(format!("declared as {value} after it was read as {read}"));
        Some(fault.given_by(origin).leaf(self.record.table.entries[leaf].info.path))
    }

    /// Deprecated names in use, each with what to use instead.
    pub fn warnings(&self) -> &[ConfigError] {
        &self.record.warnings
    }

    /// Every leaf with its value, for dumps, in schema order. Secrets are redacted.
    pub fn values(&self) -> Vec<(&'static str, Value)> {
        let leaves = self.record.table.entries.iter().map(|entry| entry.info.path);
        leaves.zip(self.values.iter().map(|value| value.to_value())).collect()
    }

    /// Publishes: from here on the values are read through the context, and change only through it.
    #[must_use]
    pub fn publish(self) -> Context<S> {
        Context::publish(self)
    }
}

impl<S> fmt::Debug for Resolved<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (entry, value) in self.record.table.entries.iter().zip(&*self.values) {
            map.entry(&format_args!("{}", entry.info.path), &format_args!("{}", value.to_value()));
        }
        map.finish()
    }
}

/// The value a leaf has if no source gives one.
pub(crate) fn initial(table: &Table, index: usize) -> Result<Option<Erased>, ConfigError> {
    let entry = &table.entries[index];
    match entry.info.start {
        Start::Default { .. } => {
            let fault = |problem| ConfigError::new(problem).at("the schema's default").leaf(entry.info.path);
            let value =
                entry.info.default_value().unwrap_or_else(|| unreachable!("it has a default")).map_err(fault)?;
            entry.check_range(&value).map_err(fault)?;
            Ok(Some(value))
        }
        Start::Required => Ok(entry.info.ops.ty.when_absent()),
        Start::Computed(_) => Ok(None),
    }
}

pub(crate) fn missing_leaf(table: &Table, index: usize) -> ConfigError {
    let entry = &table.entries[index];
    let variable = entry.env.as_ref().map(|variable| format!(", {variable}")).unwrap_or_default();
    let hint = if entry.info.bootstrap {
        format!("set --{}{variable}", entry.info.flag)
    } else {
        format!("set --{}{variable} or `{}` in a file", entry.info.flag, entry.info.path)
    };
    ConfigError::new("required, and nothing sets it").leaf(entry.info.path).hint(Some(hint))
}

/// Ranges do not change, so a value is held against its range once, when it is set.
pub(crate) fn check_ranges(table: &Table, edit: &[(usize, Erased)], origin: &Origin) -> Result<(), Errors> {
    let mut errors = Errors::default();
    for (index, value) in edit {
        let entry = &table.entries[*index];
        if let Err(problem) = entry.check_range(value) {
            errors.push(ConfigError::new(problem).given_by(origin).leaf(entry.info.path));
        }
    }
    errors.check(())
}

/// `base` with `edit` applied, derived values recomputed and every rule checked.
///
/// `before` holds the values that derived values keep if this is no occasion for them to follow.
pub(crate) fn settle(
    table: &Table,
    base: &[Erased],
    before: &[Erased],
    edit: &[(usize, Erased)],
    facts: &Facts,
    recompute: Recompute,
) -> Result<Arc<[Erased]>, Errors> {
    let mut next: Vec<Option<Erased>> = base.iter().cloned().map(Some).collect();
    for (index, value) in edit {
        next[*index] = Some(Arc::clone(value));
    }
    let mut errors = Errors::default();
    errors.extend(table.recompute(&mut next, before, facts, recompute));
    errors.extend(table.validate(&next, facts));
    errors.check(())?;
    // Nothing was removed, so every leaf still has a value.
    Ok(next.into_iter().flatten().collect())
}
