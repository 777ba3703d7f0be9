//! A lasting change as an operator asks for it: planned and made from the same description.

use std::sync::Arc;

use super::commit::{Draft, Past, State, Terms};
use super::explain::unknown;
use super::layer::{Kind, Layer, Mode, insert};
use super::trial::Term;
use super::{Context, Inner, Sources, lock};
use crate::error::{ConfigError, Errors};
use crate::leaf::Erased;
use crate::loader::Loader;
use crate::origin::Origin;
use crate::resolved::{Resolved, check_ranges};
use crate::schema::{Class, ConfigNamespaces};
use crate::table::Table;

/// What is to become of the lasting values: those of the sources and the permanent overrides.
#[derive(Clone)]
pub(super) enum Request {
    /// Sources that were read again.
    Reload { values: Arc<[Erased]>, sources: Arc<Sources> },
    /// Permanent overrides; with a term, until then unless confirmed.
    Set { origin: Origin, edit: Vec<(usize, Erased)>, term: Option<Term> },
    /// Permanent overrides taken back.
    End { why: String, leaves: Vec<usize> },
    /// What it was so many lasting changes ago.
    Rollback { why: String, changes: usize },
}

/// A leaf that cannot change while the program runs, with the value asked for and the words that refuse it.
pub(super) struct Fixed {
    pub(super) index: usize,
    pub(super) value: Erased,
    pub(super) error: ConfigError,
}

/// Leaves named by path with their values as text, as far as they are understood.
#[derive(Default)]
pub(super) struct Named {
    /// Those that may change.
    pub(super) edit: Vec<(usize, Erased)>,
    pub(super) fixed: Vec<Fixed>,
    pub(super) errors: Vec<ConfigError>,
    /// Leaves with a text that is no value of them.
    pub(super) unknown: Vec<usize>,
    /// What refuses the whole, in the order of the names.
    pub(super) refused: Errors,
}

impl Named {
    pub(super) fn parse(table: &Table, why: &str, values: &[(&str, &str)]) -> Self {
        let mut named = Self::default();
        let mut seen = Vec::new();
        for (path, text) in values {
            let fault = match leaf(table, path) {
                Err(error) => Err((None, error)),
                Ok(index) if seen.contains(&index) => {
                    Err((Some(index), ConfigError::new("given twice; which one counts?").leaf(*path)))
                }
                Ok(index) => {
                    seen.push(index);
                    table.entries[index]
                        .parse_text(text)
                        .map(|value| (index, value))
                        .map_err(|error| (Some(index), error))
                }
            };
            let allowed = hot_leaf(table, path);
            // That it cannot change at all is said first.
            if let Err(error) = allowed.as_ref().map(drop).and(fault.as_ref().map(drop).map_err(|(_, error)| error)) {
                named.refused.push(error.clone().at(why));
            }
            match (fault, allowed) {
                (Ok(set), Ok(_)) => named.edit.push(set),
                (Ok((index, value)), Err(error)) => named.fixed.push(Fixed { index, value, error: error.at(why) }),
                (Err((index, error)), _) => {
                    named.unknown.extend(index);
                    named.errors.push(error.at(why));
                }
            }
        }
        named
    }
}

/// The leaf with this path, if anybody may set it.
fn leaf(table: &Table, path: &str) -> Result<usize, ConfigError> {
    match table.index(path) {
        Some(index) if table.entries[index].is_derived() => hot_leaf(table, path),
        Some(index) => Ok(index),
        None => Err(unknown(table, path, |entry| !entry.is_derived())),
    }
}

/// The leaf with this path, if it may change.
fn hot_leaf(table: &Table, path: &str) -> Result<usize, ConfigError> {
    let index = table.index(path).map_or_else(|| leaf(table, path), Ok)?;
    match table.entries[index].info.class {
        Class::Hot => Ok(index),
        Class::Derived => Err(ConfigError::new("this value is derived from others and cannot be set").leaf(path)),
        class => Err(ConfigError::new(format!("cannot change while the program runs: it is `{class}`")).leaf(path)),
    }
}

/// The leaves with these paths.
pub(super) fn hot_leaves(table: &Table, why: &str, paths: &[&str]) -> Result<Vec<usize>, Errors> {
    let mut errors = Errors::default();
    let mut leaves = Vec::new();
    for path in paths {
        match hot_leaf(table, path) {
            Ok(index) => leaves.push(index),
            Err(error) => errors.push(error.at(why)),
        }
    }
    errors.check(leaves)
}

impl<S: ConfigNamespaces> Context<S> {
    /// What the loader's sources say now.
    pub(super) fn read_again(&self, loader: &Loader<S>) -> Result<Request, Errors> {
        let before = self.0.shared.sources();
        let resolved = loader.clone().facts(before.facts.clone()).resolve()?;
        let Resolved { record, facts, values, declared, .. } = resolved.with_declared(before.declared.clone())?;
        let gone = record.absent.iter().filter(|file| before.files.contains(file));
        let mut errors = Errors::default();
        errors.extend(gone.map(|file| {
            let hint = "a file that is to set nothing holds a comment or `{}`".to_owned();
            ConfigError::new("this file was read before and is gone").at(file.display()).hint(Some(hint))
        }));
        errors.check(Request::Reload { values, sources: Arc::new(Sources::of(record, facts, declared)) })
    }
}

impl Request {
    /// Leaves of the base that this request changes and that need a restart. Those of names were told when parsed.
    pub(super) fn fixed(&self, table: &Table, base: &[Erased]) -> Vec<Fixed> {
        let Self::Reload { values, .. } = self else { return Vec::new() };
        let changed = table.changed(base, values).into_iter();
        let fixed = changed.filter_map(|index| match table.entries[index].info.class {
            Class::Derived | Class::Hot => None,
            class @ (Class::Launch | Class::LoadTime) => {
                let (old, new) = (base[index].to_value(), values[index].to_value());
                let problem = format!("changed from {old} to {new}, which needs a restart (it is `{class}`)");
                let error = ConfigError::new(problem).at("reload").leaf(table.entries[index].info.path);
                Some(Fixed { index, value: Arc::clone(&values[index]), error })
            }
        });
        fixed.collect()
    }

    /// What may change of it, put into a draft. The leaves whose input changes; an empty error says that there are none
    /// and nothing is to be done.
    pub(super) fn draft<S: ConfigNamespaces>(
        &self,
        inner: &Inner<S>,
        draft: &mut Draft,
    ) -> Result<(Vec<usize>, Terms), Errors> {
        let table = &inner.shared.table;
        let (mode, past) = (Mode::Refuse, Past::Lasting { trial: None });
        match self {
            Self::Reload { values, sources } => {
                let is_hot = |index: &usize| table.entries[*index].info.class == Class::Hot;
                let changed: Vec<_> = table.changed(&draft.base, values).into_iter().filter(is_hot).collect();
                if changed.is_empty() {
                    return Err(Errors::default());
                }
                let mut base = draft.base.to_vec();
                for index in &changed {
                    base[*index] = Arc::clone(&values[*index]);
                }
                draft.base = base.into();
                draft.sources = Some(Arc::clone(sources));
                Ok((changed, Terms { mode, what: "reload".to_owned(), persist: false, past }))
            }
            Self::Set { origin, edit, term } => {
                if edit.is_empty() {
                    return Err(Errors::default());
                }
                check_ranges(table, edit, origin)?;
                let id = draft.number();
                let mut origin = origin.clone();
                if let Origin::Trial { id: numbered, .. } = &mut origin {
                    *numbered = id;
                }
                let leaves = edit.iter().map(|(index, _)| *index).collect::<Vec<_>>();
                if term.is_none() {
                    remove_permanent(&mut draft.layers, |_| true, |index| leaves.contains(&index));
                }
                let what = origin.to_string();
                let trial = term.as_ref().map(|_| id);
                let layer = Layer { trial: term.clone(), ..Layer::new(id, Kind::Permanent, origin, edit.clone()) };
                insert(&mut draft.layers, layer);
                Ok((leaves, Terms { mode, what, persist: term.is_none(), past: Past::Lasting { trial } }))
            }
            Self::End { why, leaves } => {
                let set = |layer: &Layer| layer.kind == Kind::Permanent && leaves.iter().any(|leaf| layer.sets(*leaf));
                if !draft.layers.iter().any(set) {
                    return Err(Errors::default());
                }
                remove_permanent(&mut draft.layers, |_| true, |index| leaves.contains(&index));
                let what = format!("end of permanent overrides {why:?}");
                Ok((leaves.clone(), Terms { mode, what, persist: true, past }))
            }
            Self::Rollback { why, changes } => {
                let what = lock(&inner.state).roll_back(draft, *changes)?;
                let what = format!("rollback of {changes} {why:?}, to before {what}");
                Ok((Vec::new(), Terms { mode, what, persist: true, past }))
            }
        }
    }
}

impl State {
    /// Puts the lasting values of before the latest `changes` into a draft. Says what came next then.
    fn roll_back(&self, draft: &mut Draft, changes: usize) -> Result<String, Errors> {
        let Some(before) = self.undo.len().checked_sub(changes).and_then(|position| self.undo.get(position)) else {
            let problem = match changes {
                0 => "there is nothing to roll back in 0 changes".to_owned(),
                _ => format!("cannot go back over {changes} changes: {} can be rolled back", self.undo.len()),
            };
            let hint = "`lasting_changes` lists them: the latest since the context was published or republished";
            return Err(ConfigError::new(problem).hint(Some(hint.to_owned())).into());
        };
        draft.layers.retain(|layer| layer.kind != Kind::Permanent);
        for layer in &before.permanent {
            insert(&mut draft.layers, layer.clone());
        }
        // A child's base is what its parent has now.
        if !draft.layers.iter().any(|layer| layer.kind == Kind::Child) {
            draft.base = Arc::clone(&before.base);
            draft.sources = Some(Arc::clone(&before.sources));
        }
        Ok(format!("epoch {}, {}", before.change.epoch(), before.change.what()))
    }
}

/// Takes the leaves for which `ended` holds out of those permanent layers.
pub(super) fn remove_permanent(layers: &mut Vec<Layer>, from: impl Fn(&Layer) -> bool, ended: impl Fn(usize) -> bool) {
    for layer in layers.iter_mut().filter(|layer| layer.kind == Kind::Permanent && from(layer)) {
        layer.edit.retain(|(index, _)| !ended(*index));
    }
    layers.retain(|layer| layer.kind != Kind::Permanent || !layer.edit.is_empty());
}
