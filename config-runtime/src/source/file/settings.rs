//! Matches what a file says with the settings of the schema.

use std::path::Path;

use super::document::{Content, Entry, Fault, Node, Position};
use crate::error::ConfigError;
use crate::leaf;
use crate::origin::Origin;
use crate::source::{Candidates, Given};
use crate::suggest::did_you_mean;
use crate::table::{Name, Now, Table};
use crate::value::Value;

/// A tree of settings in one file: its top level or one of its profiles.
pub(super) struct Settings<'a> {
    pub(super) table: &'a Table,
    pub(super) path: &'a Path,
    pub(super) profile: Option<&'a str>,
    pub(super) candidates: &'a mut Candidates,
}

impl Settings<'_> {
    pub(super) fn read(&mut self, prefix: &str, entries: &[Entry]) {
        for Entry { key, at, value } in entries {
            if key.contains('.') {
                self.dotted(prefix, key, *at);
                continue;
            }
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match (self.table.name_of_path(&path), &value.content) {
                (Some(Name::Leaf(index)), _) if self.table.entries[index].is_derived() => {
                    let problem = "this value is derived from others and cannot be set";
                    self.error(*at, ConfigError::new(problem).leaf(path));
                }
                (Some(name), _) => self.give(&name, value),
                (None, Content::Table { entries, .. }) if self.table.is_namespace(&path) => self.read(&path, entries),
                (None, Content::Damaged) => {}
                (None, _) => self.unknown(&path, *at, value),
            }
        }
    }

    fn give(&mut self, name: &Name<'_>, node: &Node) {
        let leaf = match name {
            Name::Leaf(index) => Some(*index),
            Name::Former(former) => match &former.now {
                Now::Alias(index) => Some(*index),
                Now::Replaced(replaced) => self.table.index(replaced.target),
                Now::Retired(_) => None,
            },
        };
        if let Some(index) = leaf.filter(|index| self.table.entries[*index].info.bootstrap) {
            return self.too_late(index, node.at);
        }
        match node.value() {
            Ok(value) => {
                let (file, profile) = (self.path, self.profile);
                let places = |fault: &leaf::Fault| origin(file, profile, node.place(fault.steps()));
                let given = Given::Value(&value, &places);
                self.candidates.give(self.table, name, self.origin(node.at), given);
            }
            Err(Some(Fault { at, problem })) => {
                let is_secret = leaf.is_some_and(|index| self.is_secret(index));
                let problem = if is_secret { "no value can be made of what is given" } else { &problem };
                self.candidates.give(self.table, name, self.origin(at), Given::Unreadable(problem));
            }
            Err(None) => {
                if let Some(index) = leaf {
                    self.candidates.refused[index] = true;
                }
            }
        }
    }

    /// A setting that was needed before the file was read.
    fn too_late(&mut self, index: usize, at: Position) {
        let entry = &self.table.entries[index];
        let variable = entry.env.as_ref().map(|variable| format!(" or {variable}")).unwrap_or_default();
        let hint = format!("set --{}{variable}", entry.info.flag);
        let problem = "this setting is known before files are read, so no file sets it";
        self.candidates.refused[index] = true;
        self.error(at, ConfigError::new(problem).leaf(entry.info.path).hint(Some(hint)));
    }

    fn is_secret(&self, index: usize) -> bool {
        self.table.entries[index].info.is_secret()
    }

    fn unknown(&mut self, path: &str, at: Position, value: &Node) {
        if self.table.is_namespace(path) {
            let is_below = |leaf: &str| leaf.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
            let leaves = 0..self.table.entries.len();
            let has_secret =
                leaves.into_iter().any(|index| is_below(self.table.entries[index].info.path) && self.is_secret(index));
            // What was meant for a secret is not shown either.
            let found = match value.value() {
                Ok(value) if !has_secret => format!(", found {}", value.describe()),
                _ => String::new(),
            };
            let problem = format!("`{path}` is a namespace, so a table is expected{found}");
            // What is left of a table in YAML when its last line is commented out.
            let is_nothing = matches!(value.value(), Ok(Value::Unset));
            let hint = is_nothing.then(|| format!("write `{{}}` after it, or leave `{path}` out"));
            self.error(at, ConfigError::new(problem).hint(hint));
            return;
        }
        let known: Vec<_> = match &value.content {
            Content::Table { .. } => self.table.namespaces.iter().map(|(path, _)| *path).collect(),
            _ => self.table.settable_paths().collect(),
        };
        // A leaf in the wrong table is found by its last segment.
        let last = path.rsplit('.').next().unwrap_or(path);
        let elsewhere = known.iter().find(|known| known.rsplit('.').next() == Some(last));
        let hint = match elsewhere {
            Some(known) => Some(format!("did you mean `{known}`?")),
            None => did_you_mean(path, known.iter().copied()),
        };
        self.error(at, ConfigError::new(format!("no setting is called `{path}`")).hint(hint));
    }

    /// A quoted key with dots would be a second way to write a setting, which a repeated key could hide behind.
    fn dotted(&mut self, prefix: &str, key: &str, at: Position) {
        let place = if prefix.is_empty() { "at the top".to_owned() } else { format!("in `{prefix}`") };
        let hint = key.split_once('.').map(|(table, rest)| format!("write a table `{table}` that holds `{rest}`"));
        self.error(at, ConfigError::new(format!("no key has a dot, and `{key}` stands {place}")).hint(hint));
    }

    fn error(&mut self, at: Position, error: ConfigError) {
        let origin = self.origin(at);
        self.candidates.errors.push(error.given_by(&origin));
    }

    fn origin(&self, at: Position) -> Origin {
        origin(self.path, self.profile, at)
    }
}

fn origin(path: &Path, profile: Option<&str>, Position { line, column }: Position) -> Origin {
    Origin::File { path: path.to_owned(), line, column, profile: profile.map(str::to_owned) }
}
