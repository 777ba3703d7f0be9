//! The log of commits, bounded.

use std::fmt;
use std::time::SystemTime;

use super::{Context, lock};
use crate::leaf::Erased;
use crate::schema::ConfigNamespaces;
use crate::table::Table;

/// Commits that are remembered, and lasting changes that can be rolled back; older ones are forgotten, so that memory is
/// flat.
pub(super) const HISTORY: usize = 64;

/// One commit: what changed, when, and by whom.
#[derive(Clone, Debug)]
pub struct Change {
    epoch: u64,
    time: SystemTime,
    what: String,
    leaves: Vec<(&'static str, String, String)>,
}

impl Change {
    pub(super) fn between(
        table: &Table,
        old: &[Erased],
        new: &[Erased],
        changed: &[usize],
        epoch: u64,
        what: &str,
    ) -> Self {
        let leaves = changed.iter().map(|&index| {
            (table.entries[index].info.path, old[index].to_value().to_string(), new[index].to_value().to_string())
        });
        Self { epoch, time: SystemTime::now(), what: what.to_owned(), leaves: leaves.collect() }
    }

    /// The epoch it made.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// When it was made.
    pub fn time(&self) -> SystemTime {
        self.time
    }

    /// Who made it and why: the origin of the layer that came or went.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Path, old value and new value of each leaf that changed; secrets are redacted.
    pub fn leaves(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.leaves.iter().map(|(path, old, new)| (*path, old.as_str(), new.as_str()))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}: {}", self.epoch, self.what)?;
        self.leaves.iter().try_for_each(|(path, old, new)| write!(f, "\n  {path}: {old} -> {new}"))
    }
}

impl<S: ConfigNamespaces> Context<S> {
    /// The latest commits, oldest first.
    #[must_use]
    pub fn history(&self) -> Vec<Change> {
        lock(&self.0.state).history.iter().cloned().collect()
    }
}
