//! How many crates there are, under which licences, and where they come from.
//!
//! `deny.toml` is the list of what is allowed; `cargo deny check` reads the same file and knows advisories too.

use std::collections::{BTreeSet, HashSet};
use std::fs;

use serde_json::Value;
use toml::Table;

use crate::licence::permits;
use crate::workspace::{Outcome, cargo, no_faults, output, root};

/// The engine may depend on this many crates, itself included.
const MOST_CRATES: usize = 220;

/// Checks all three.
pub(crate) fn check() -> Outcome {
    let crates = engine_crates()?;
    println!("the engine consists of {crates} crates (at most {MOST_CRATES})");
    let mut faults = Vec::new();
    if crates > MOST_CRATES {
        faults.push(format!("{crates} crates are more than {MOST_CRATES}"));
    }
    let policy = Policy::read()?;
    let metadata = output(&mut cargo("metadata --format-version 1 --locked"))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    faults.extend(policy.faults(packages));
    no_faults(&faults)?;
    println!("licences and sources of {} packages are allowed by deny.toml", packages.len());
    Ok(())
}

/// The number of different lines of the engine's dependency tree.
pub(crate) fn engine_crates() -> Outcome<usize> {
    let tree = output(&mut cargo("tree -p engine -e normal --prefix none --locked"))?;
    Ok(tree.lines().filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len())
}

/// What `deny.toml` allows.
struct Policy {
    licences: HashSet<String>,
    /// Crates with a licence of their own that is allowed for them only.
    exceptions: Vec<(String, HashSet<String>)>,
}

impl Policy {
    fn read() -> Outcome<Self> {
        let table: Table = toml::from_str(&fs::read_to_string(root().join("deny.toml"))?)?;
        let exceptions = table["licenses"].get("exceptions").and_then(toml::Value::as_array);
        let exceptions = exceptions.into_iter().flatten().map(|exception| {
            let name = exception["crate"].as_str().unwrap_or_default().to_owned();
            (name, strings(&exception["allow"]))
        });
        Ok(Self { licences: strings(&table["licenses"]["allow"]), exceptions: exceptions.collect() })
    }

    fn faults(&self, packages: &[Value]) -> Vec<String> {
        let mut faults = Vec::new();
        // One registry, whichever cargo is set up with.
        let registry = packages.iter().find_map(|package| package["source"].as_str()?.strip_prefix("registry+"));
        for package in packages {
            let text = |key: &str| package[key].as_str().unwrap_or_default();
            let (name, licence) = (text("name"), text("license"));
            let excepted = self.exceptions.iter().find(|(excepted, _)| excepted == name);
            let accepted =
                |id: &str| self.licences.contains(id) || excepted.is_some_and(|(_, licences)| licences.contains(id));
            if !permits(licence, &accepted) {
                faults.push(format!("{name} {}: licence `{licence}` is not allowed", text("version")));
            }
            // A package of this workspace has no source.
            if let Some(source) = package["source"].as_str()
                && source.strip_prefix("registry+").is_none_or(|source| Some(source) != registry)
            {
                faults.push(format!("{name} {}: source `{source}` is not allowed", text("version")));
            }
        }
        for (name, _) in &self.exceptions {
            if !packages.iter().any(|package| package["name"] == **name) {
                faults.push(format!("deny.toml has an exception for {name}, which nothing uses"));
            }
        }
        faults
    }
}

fn strings(list: &toml::Value) -> HashSet<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn licences_sources_and_idle_exceptions_are_found() {
        let set = |words: &[&str]| words.iter().map(ToString::to_string).collect::<HashSet<_>>();
        let policy = Policy {
            licences: set(&["MIT"]),
            exceptions: vec![("odd".to_owned(), set(&["MPL-2.0"])), ("gone".to_owned(), set(&["MPL-2.0"]))],
        };
        let package = |name: &str, licence: &str, source: Option<&str>| json!({"name": name, "version": "1.0.0", "license": licence, "source": source});
        let faults = policy.faults(&[
            package("own", "MIT", None),
            package("good", "MIT OR GPL-3.0", Some("registry+https://index")),
            package("odd", "MPL-2.0", Some("registry+https://index")),
            package("weak", "MPL-2.0", Some("registry+https://index")),
            package("unlicensed", "", None),
            package("forked", "MIT", Some("git+https://somewhere")),
            package("elsewhere", "MIT", Some("registry+https://other")),
        ]);
        let about: Vec<_> = faults.iter().map(|fault| fault.split([' ', ':']).next().unwrap()).collect();
        assert_eq!(about, ["weak", "unlicensed", "forked", "elsewhere", "deny.toml"]);
    }
}
