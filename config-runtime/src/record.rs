//! The operator's raw input.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{ConfigError, Errors};
use crate::facts::Facts;
use crate::leaf::Erased;
use crate::origin::Origin;
use crate::resolved::Resolved;
use crate::schema::ConfigNamespaces;
use crate::source::Candidates;
use crate::table::Table;
use crate::value::Value;

/// What the sources said, every value with its origin, before any rule ran.
///
/// There is no way to read a setting from it: an effective value exists only after [`resolve`](Self::resolve) and
/// publish.
pub struct Record<S> {
    pub(crate) table: Arc<Table>,
    /// For each leaf the values given, lowest precedence first.
    pub(crate) candidates: Vec<Vec<(Origin, Erased)>>,
    pub(crate) warnings: Vec<ConfigError>,
    pub(crate) files: Vec<PathBuf>,
    /// Files that need not be there and were not.
    pub(crate) absent: Vec<PathBuf>,
    schema: PhantomData<fn() -> S>,
}

impl<S: ConfigNamespaces> Record<S> {
    pub(crate) fn new(table: Arc<Table>, candidates: Vec<Vec<(Origin, Erased)>>) -> Self {
        Self { table, candidates, warnings: Vec::new(), files: Vec::new(), absent: Vec::new(), schema: PhantomData }
    }

    /// Deprecated names in use, each with what to use instead.
    pub fn warnings(&self) -> &[ConfigError] {
        &self.warnings
    }

    /// The files that were read, lowest precedence first: those given, `--config` and all that they include. A watcher
    /// watches these. Texts given by [`Loader::text`](crate::Loader::text) are not among them, nor are files of
    /// [`Loader::file_if_present`](crate::Loader::file_if_present) that were not there.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Every value given, for dumps: path, where it was given, and the value, lowest precedence first. Secrets are
    /// redacted.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &Origin, Value)> {
        let leaves = self.table.entries.iter().zip(&self.candidates);
        leaves.flat_map(|(entry, candidates)| {
            candidates.iter().map(|(origin, value)| (entry.info.path, origin, value.to_value()))
        })
    }

    /// Applies defaults, rules and checks. Pure: the same record and facts give the same values.
    ///
    /// # Errors
    /// Missing leaves, values out of range and broken cross-field rules, all together.
    pub fn resolve(self, facts: &Facts) -> Result<Resolved<S>, Errors> {
        let nothing_refused = Candidates::new(&self.table);
        Resolved::of(self, facts, &nothing_refused.refused, Errors::default())
    }
}

impl<S> fmt::Debug for Record<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (entry, candidates) in self.table.entries.iter().zip(&self.candidates) {
            for (origin, value) in candidates {
                map.entry(&format_args!("{} ({origin})", entry.info.path), &format_args!("{}", value.to_value()));
            }
        }
        map.finish()
    }
}
