//! Environment variables under the schema's prefix.

use std::ffi::OsString;

use super::{Candidates, Given};
use crate::error::ConfigError;
use crate::origin::Origin;
use crate::suggest::did_you_mean;
use crate::table::Table;

/// The variable that names the configuration file.
pub(crate) fn config_variable(table: &Table) -> Option<String> {
    table.env_prefix.map(|prefix| format!("{prefix}_CONFIG"))
}

/// The variable that names the profile.
pub(crate) fn profile_variable(table: &Table) -> Option<String> {
    table.env_prefix.map(|prefix| format!("{prefix}_PROFILE"))
}

fn unknown(table: &Table, name: &str) -> ConfigError {
    let is_its = |path: &str| table.env_name(path).as_deref() == Some(name);
    if table.entries.iter().any(|entry| entry.is_derived() && is_its(entry.info.path)) {
        return ConfigError::new("this value is derived from others and cannot be set").at(name);
    }
    // A leaf with a variable of its own name is often looked for under the one that it would have.
    let own = table.entries.iter().find(|entry| is_its(entry.info.path));
    let hint = match own.and_then(|entry| Some((entry.info.path, entry.env.as_deref()?))) {
        Some((path, variable)) => Some(format!("the variable of `{path}` is `{variable}`")),
        None => meant(table, name),
    };
    ConfigError::new("no setting has this environment variable").at(name).hint(hint)
}

/// The variable that is meant by the name of its setting alone, or else the nearest.
fn meant(table: &Table, name: &str) -> Option<String> {
    let variables = || table.entries.iter().filter_map(|entry| entry.env.as_deref());
    let end = table.env_prefix.and_then(|prefix| name.strip_prefix(prefix)).filter(|end| *end != "_");
    match end.and_then(|end| variables().find(|variable| variable.ends_with(end))) {
        Some(variable) => Some(format!("did you mean `{variable}`?")),
        None => did_you_mean(name, variables()),
    }
}

/// Reads every variable under the prefix. The names are computed from the schema, so an unknown one is an error.
pub(crate) fn read(table: &Table, variables: &[(OsString, OsString)], candidates: &mut Candidates) {
    let prefix = table.env_prefix.map(|prefix| format!("{prefix}_"));
    for (name, value) in variables {
        let Some(name) = name.to_str() else {
            let shown = name.to_string_lossy();
            if prefix.as_ref().is_some_and(|prefix| shown.starts_with(prefix.as_str())) {
                candidates.errors.push(ConfigError::new("no setting has this environment variable").at(shown));
            }
            continue;
        };
        // A leaf may have a variable of its own name, outside the prefix.
        let under_prefix = prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix.as_str()));
        if !under_prefix && table.name_of_variable(name).is_none() {
            continue;
        }
        if [config_variable(table), profile_variable(table)].iter().flatten().any(|known| known == name) {
            continue;
        }
        let Some(found) = table.name_of_variable(name) else {
            candidates.errors.push(unknown(table, name));
            continue;
        };
        candidates.give(table, &found, Origin::Env { variable: name.to_owned() }, Given::of_os(value));
    }
}
