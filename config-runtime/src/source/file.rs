//! TOML files.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Candidates, Given};
use crate::error::ConfigError;
use crate::origin::Origin;
use crate::suggest::did_you_mean;
use crate::table::{Name, Table};
use crate::value::Value;

/// Reads the file at `path`.
pub(crate) fn read(table: &Table, path: &Path, candidates: &mut Candidates) {
    let format = path.extension().and_then(|extension| extension.to_str());
    if format != Some("toml") {
        let problem = "the format of a configuration file is told by its name, and only `.toml` is known";
        candidates.errors.push(ConfigError::new(problem).at(path.display()));
        return;
    }
    match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => read_text(table, path, &text, candidates),
        Ok(Err(_)) => candidates.errors.push(ConfigError::new("the file is not UTF-8").at(path.display())),
        Err(error) => candidates.errors.push(ConfigError::new(format!("cannot read: {error}")).at(path.display())),
    }
}

/// Reads TOML text; `path` is what origins and messages call it.
pub(crate) fn read_text(table: &Table, path: &Path, text: &str, candidates: &mut Candidates) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { table, path, text, candidates };
    for error in errors {
        let (line, column) = error.span().map_or((1, 1), |span| reader.position(span.start));
        let place = format!("{}:{line}:{column}", path.display());
        reader.candidates.errors.push(ConfigError::new(error.message()).at(place));
    }
    reader.table("", document.get_ref());
}

struct Reader<'a> {
    table: &'a Table,
    path: &'a Path,
    text: &'a str,
    candidates: &'a mut Candidates,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let path =
                if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
            let origin = self.origin(key.span().start);
            match (self.table.name_of_path(&path), value.get_ref()) {
                (Some(Name::Leaf(index)), _) if self.table.entries[index].is_derived() => {
                    let problem = "this value is derived from others and cannot be set";
                    let error = ConfigError::new(problem).leaf(path);
                    self.candidates.errors.push(error.given_by(&origin));
                }
                (Some(name), _) => {
                    let origin = self.origin(value.span().start);
                    match to_value(value) {
                        Ok(value) => self.candidates.give(self.table, &name, origin, Given::Value(&value)),
                        Err(problem) => self.candidates.give(self.table, &name, origin, Given::Unreadable(&problem)),
                    }
                }
                (None, DeValue::Table(inner)) if self.table.is_namespace(&path) => self.table(&path, inner),
                (None, _) => self.unknown(&path, value, &origin),
            }
        }
    }

    fn unknown(&mut self, path: &str, found: &Spanned<DeValue<'_>>, origin: &Origin) {
        let error = if self.table.is_namespace(path) {
            let found = to_value(found).map_or_else(|problem| problem, |value| value.describe());
            ConfigError::new(format!("`{path}` is a namespace, so a table is expected, found {found}"))
        } else {
            let known: Vec<_> = match found.get_ref() {
                DeValue::Table(_) => self.table.namespaces.iter().map(|(path, _)| *path).collect(),
                _ => self.table.settable_paths().collect(),
            };
            // A leaf in the wrong table is found by its last segment.
            let last = path.rsplit('.').next().unwrap_or(path);
            let elsewhere = known.iter().find(|known| known.rsplit('.').next() == Some(last));
            let hint = match elsewhere {
                Some(known) => Some(format!("did you mean `{known}`?")),
                None => did_you_mean(path, known.iter().copied()),
            };
            ConfigError::new(format!("no setting is called `{path}`")).hint(hint)
        };
        self.candidates.errors.push(error.given_by(origin));
    }

    fn origin(&self, offset: usize) -> Origin {
        let (line, column) = self.position(offset);
        Origin::File { path: self.path.to_owned(), line, column }
    }

    /// Line and column, both from 1, of a byte offset.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..offset.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Why a value does not fit is said by the caller; here only numbers can be out of any range.
fn to_value(value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(integer) => {
            let parsed = i128::from_str_radix(integer.as_str(), integer.radix());
            Value::Integer(parsed.map_err(|_| format!("the integer `{}` is too large", integer.as_str()))?)
        }
        DeValue::Float(float) => {
            let parsed = float.as_str().parse();
            Value::Float(parsed.map_err(|_| format!("the float `{}` cannot be read", float.as_str()))?)
        }
        DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
        DeValue::Array(values) => Value::List(values.iter().map(to_value).collect::<Result<_, _>>()?),
        DeValue::Table(entries) => Value::Table(
            entries
                .iter()
                .map(|(key, value)| Ok((key.get_ref().to_string(), to_value(value)?)))
                .collect::<Result<BTreeMap<_, _>, String>>()?,
        ),
    })
}
