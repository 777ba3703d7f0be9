//! The sources of values: each turns what it holds into candidates with an origin, and reports all that is wrong.

mod arguments;
pub(crate) mod cli;
pub(crate) mod env;
pub(crate) mod file;

use std::ffi::OsStr;
use std::sync::Arc;

pub(crate) use self::file::json_value;

use crate::error::{ConfigError, Errors};
use crate::leaf::{Erased, Fault};
use crate::origin::Origin;
use crate::schema::Replaced;
use crate::table::{Name, Now, Refused, Table};
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
    Value(&'a Value, Places<'a>),
    /// Refused before its leaf was known.
    Unreadable(&'a str),
}

/// Where in a file a part of a value stands.
pub(crate) type Places<'a> = &'a dyn Fn(&Fault) -> Origin;

impl<'a> Given<'a> {
    /// Text that the system handed over, which may be no text.
    pub(crate) fn of_os(text: &'a OsStr) -> Self {
        text.to_str().map_or(Self::Unreadable("the value is not UTF-8"), Self::Text)
    }
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
            Given::Value(value, places) => match entry.parse_value(value) {
                Err(Refused::Within(faults)) => return self.refuse_within(index, entry.info.path, &faults, places),
                Err(Refused::Whole(error)) => Err(error),
                Ok(value) => Ok(value),
            },
            Given::Unreadable(problem) => Err(ConfigError::new(problem).leaf(entry.info.path)),
        };
        self.add(table, index, origin, value);
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
            Given::Text(text) => replaced.ops.ty.parse_text(text),
            Given::Value(value, places) => {
                let old = replaced.ops.ty.parse_value(value);
                if old.is_none() && !replaced.ops.secret {
                    let faults = replaced.ops.ty.faults(value);
                    if !faults.is_empty() {
                        return self.refuse_within(target, replaced.path, &faults, places);
                    }
                }
                old
            }
            Given::Unreadable(problem) => {
                return self.add(table, target, origin, Err(ConfigError::new(problem).leaf(replaced.path)));
            }
        };
        let value = match old {
            Some(old) => crate::guard::catch(|| (replaced.convert)(&old))
                .and_then(|new| table.entries[target].check_range(&new).map(|()| new)),
            None => Err(format!("expected {}", replaced.ops.ty.expected())),
        };
        self.add(table, target, origin, value.map_err(|problem| ConfigError::new(problem).leaf(replaced.path)));
    }

    /// Notes what is wrong inside a leaf's value, each fault at its own place.
    fn refuse_within(&mut self, index: usize, path: &str, faults: &[Fault], places: Places<'_>) {
        self.refused[index] = true;
        let errors = faults.iter().map(|fault| ConfigError::new(fault.text()).leaf(path).given_by(&places(fault)));
        self.errors.extend(errors);
    }

    /// Notes a leaf's value. Two in one source, under different names, are a mistake: one of them would be lost.
    pub(crate) fn add(&mut self, table: &Table, index: usize, origin: Origin, value: Result<Erased, ConfigError>) {
        let value = value.and_then(|value| match self.of_leaf[index].last() {
            Some((before, _)) if before.is_same_source(&origin) => {
                let other = if *before == origin { String::new() } else { format!("; the other name is at {before}") };
                Err(ConfigError::new(format!("given twice{other}")).leaf(table.entries[index].info.path))
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
