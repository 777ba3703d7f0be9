//! The sources of values: each turns what it holds into candidates with an origin, and reports all that is wrong.

pub(crate) mod cli;
pub(crate) mod env;
pub(crate) mod file;

use std::sync::Arc;

pub(crate) use self::file::json_value;

use crate::error::{ConfigError, Errors};
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::schema::Replaced;
use crate::table::{Name, Now, Table};
use crate::value::Value;

/// What the sources said: for each leaf the values given, lowest precedence first.
pub(crate) struct Candidates {
    pub(crate) of_leaf: Vec<Vec<(Origin, Erased)>>,
    /// Leaves for which some source gave a value that was refused; they are not "missing" as well.
    pub(crate) refused: Vec<bool>,
    pub(crate) errors: Errors,
    /// Some file could not be read, so what it sets is not known.
    pub(crate) damaged: bool,
    /// Deprecated names in use.
    pub(crate) warnings: Vec<ConfigError>,
}

/// A value as a source holds it.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// From the environment or a flag.
    Text(&'a str),
    /// From a file.
    Value(&'a Value),
    /// Refused before its leaf was known.
    Unreadable(&'a str),
}

impl Candidates {
    pub(crate) fn new(table: &Table) -> Self {
        let leaves = table.entries.len();
        Self {
            of_leaf: vec![Vec::new(); leaves],
            refused: vec![false; leaves],
            errors: Errors::default(),
            warnings: Vec::new(),
            damaged: false,
        }
    }

    /// If a file could not be read, leaves that nothing sets may be set there: they are not missing.
    pub(crate) fn excuse_missing(&mut self) {
        if self.damaged {
            for (refused, given) in self.refused.iter_mut().zip(&self.of_leaf) {
                *refused |= given.is_empty();
            }
        }
    }

    /// Notes what a source gave under a name, or why it is refused.
    pub(crate) fn give(&mut self, table: &Table, name: &Name<'_>, origin: Origin, given: Given<'_>) {
        match name {
            Name::Leaf(index) => self.give_leaf(table, *index, origin, given),
            Name::Former(former) => match &former.now {
                Now::Alias(index) => self.give_leaf(table, *index, origin, given),
                Now::Replaced(replaced) => self.give_replaced(table, replaced, origin, given),
                Now::Retired(note) => {
                    let error = ConfigError::new(format!("this setting is gone: {note}")).leaf(former.path);
                    self.errors.push(error.given_by(&origin));
                }
            },
        }
    }

    fn give_leaf(&mut self, table: &Table, index: usize, origin: Origin, given: Given<'_>) {
        let entry = &table.entries[index];
        if let Some(deprecated) = entry.info.deprecated {
            let text = format!("deprecated {deprecated}");
            self.warnings.push(ConfigError::new(text).given_by(&origin).leaf(entry.info.path));
        }
        let value = match given {
            Given::Text(text) => entry.parse_text(text),
            Given::Value(value) => entry.parse_value(value),
            Given::Unreadable(problem) => Err(ConfigError::new(problem).leaf(entry.info.path)),
        };
        self.add(index, origin, value);
    }

    /// A former leaf: read as what it was, then converted for the leaf that took its place.
    fn give_replaced(&mut self, table: &Table, replaced: &Replaced, origin: Origin, given: Given<'_>) {
        let text = format!("deprecated {}; use `{}`", replaced.deprecated, replaced.target);
        self.warnings.push(ConfigError::new(text).given_by(&origin).leaf(replaced.path));
        let Some(target) = table.index(replaced.target) else {
            let problem = format!("its replacement `{}` is no setting", replaced.target);
            self.errors.push(ConfigError::new(problem).at("the schema").leaf(replaced.path));
            return;
        };
        let old = match given {
            Given::Text(text) => (replaced.ops.from_text)(text),
            Given::Value(value) => (replaced.ops.from_value)(value),
            Given::Unreadable(_) => None,
        };
        let value = match old {
            Some(old) => crate::guard::catch(|| (replaced.convert)(&old))
                .and_then(|new| table.entries[target].check_range(&new).map(|()| new)),
            None => Err(format!("expected {}", (replaced.ops.expected)())),
        };
        self.add(target, origin, value.map_err(|problem| ConfigError::new(problem).leaf(replaced.path)));
    }

    /// Notes a leaf's value. Two in one source, under different names, are a mistake: one of them would be lost.
    pub(crate) fn add(&mut self, index: usize, origin: Origin, value: Result<Erased, ConfigError>) {
        let value = value.and_then(|value| match self.of_leaf[index].last() {
            Some((before, _)) if before.is_same_source(&origin) => {
                Err(ConfigError::new(format!("given twice; the other name is at {before}")))
            }
            _ => Ok(value),
        });
        match value {
            Ok(value) => self.of_leaf[index].push((origin, Arc::clone(&value))),
            Err(error) => {
                self.refused[index] = true;
                self.errors.push(error.given_by(&origin));
            }
        }
    }
}
