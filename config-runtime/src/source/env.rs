//! Environment variables under the schema's prefix.

use std::ffi::OsString;

use super::Candidates;
use crate::error::ConfigError;
use crate::origin::Origin;
use crate::suggest::did_you_mean;
use crate::table::Table;

/// The variable that names the configuration file.
pub(crate) fn config_variable(table: &Table) -> Option<String> {
    table.env_prefix.map(|prefix| format!("{prefix}_CONFIG"))
}

/// Reads every variable under the prefix. The names are computed from the schema, so an unknown one is an error.
pub(crate) fn read(table: &Table, variables: &[(OsString, OsString)], candidates: &mut Candidates) {
    let Some(prefix) = table.env_prefix.map(|prefix| format!("{prefix}_")) else { return };
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(&prefix)) else { continue };
        if Some(name) == config_variable(table).as_deref() {
            continue;
        }
        let Some(index) = table.entries.iter().position(|entry| entry.env.as_deref() == Some(name)) else {
            let known = table.entries.iter().filter_map(|entry| entry.env.as_deref());
            let hint = did_you_mean(name, known);
            candidates.errors.push(ConfigError::new("no setting has this environment variable").at(name).hint(hint));
            continue;
        };
        let entry = &table.entries[index];
        let parsed = match value.to_str() {
            Some(text) => entry.parse_text(text),
            None => Err(ConfigError::new("the value is not UTF-8").leaf(entry.info.path)),
        };
        candidates.add(index, Origin::Env { variable: name.to_owned() }, parsed);
    }
}
