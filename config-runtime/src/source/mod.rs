//! The sources of values: each turns what it holds into candidates with an origin, and reports all that is wrong.

pub(crate) mod cli;
pub(crate) mod env;
pub(crate) mod file;

use crate::error::Errors;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::table::Table;

/// What the sources said: for each leaf the values given, lowest precedence first.
pub(crate) struct Candidates {
    pub(crate) of_leaf: Vec<Vec<(Origin, Erased)>>,
    /// Leaves for which some source gave a value that was refused; they are not "missing" as well.
    pub(crate) refused: Vec<bool>,
    pub(crate) errors: Errors,
}

impl Candidates {
    pub(crate) fn new(table: &Table) -> Self {
        let leaves = table.entries.len();
        Self { of_leaf: vec![Vec::new(); leaves], refused: vec![false; leaves], errors: Errors::default() }
    }

    /// Notes what a source gave for a leaf, or why it is refused.
    pub(crate) fn add(&mut self, index: usize, origin: Origin, value: Result<Erased, crate::error::ConfigError>) {
        match value {
            Ok(value) => self.of_leaf[index].push((origin, value)),
            Err(error) => {
                self.refused[index] = true;
                self.errors.push(error.given_by(&origin));
            }
        }
    }
}
