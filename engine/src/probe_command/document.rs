//! What a shape comes to: its document, and who decided each setting.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine_config::Settings;
use kitbag::{ConfigNamespaces, Errors, Explanation, Loader, Resolved, Value};
use serde::{Deserialize, Serialize};

use super::shapes::Shape;

/// What a shape comes to, or why it is refused. Written as JSON it is the same on every machine: paths are sorted, and
/// floats have the fewest digits that give them back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Document {
    /// Every setting by its path, derived ones too.
    Resolved(BTreeMap<String, Value>),
    /// Sizes and choices of the runner that was built.
    Built(BTreeMap<String, Value>),
    /// Everything that is wrong with the command line, in its order.
    Refused(Vec<String>),
}

/// Resolves a shape by schema `S`. Files and environment are no sources of it, and its facts are declared.
pub(crate) fn document<S: ConfigNamespaces>(shape: &Shape) -> Document {
    Document::of(resolve::<S>(shape))
}

fn resolve<S: ConfigNamespaces>(shape: &Shape) -> Result<Resolved<S>, Errors> {
    loader::<S>(shape).resolve()
}

pub(crate) fn loader<S: ConfigNamespaces>(shape: &Shape) -> Loader<S> {
    let program = std::iter::once("engine");
    S::loader().args(program.chain(shape.argv.iter().map(String::as_str))).facts(shape.facts.clone())
}

impl Document {
    pub(crate) fn of<S: ConfigNamespaces>(resolved: Result<Resolved<S>, Errors>) -> Self {
        match resolved {
            Ok(resolved) => {
                let settings = resolved.values().into_iter().map(|(path, value)| (path.to_owned(), value));
                Self::Resolved(settings.collect())
            }
            Err(errors) => Self::Refused(errors.iter().map(ToString::to_string).collect()),
        }
    }

    /// Its canonical bytes.
    pub(crate) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.unwrap_or_else(|error| unreachable!("texts, numbers and lists are JSON: {error}")) + "\n"
    }

    /// One line for each setting or message in which the other one differs, the old first.
    pub(crate) fn changes(&self, now: &Self) -> Vec<String> {
        match (self, now) {
            (Self::Resolved(old), Self::Resolved(new)) | (Self::Built(old), Self::Built(new)) => {
                changed_values(old, new)
            }
            (Self::Refused(old), Self::Refused(new)) => changed_messages(old, new),
            (old, new) => {
                let messages = changed_messages(old.messages(), new.messages());
                std::iter::once(format!("{} -> {}", old.kind(), new.kind())).chain(messages).collect()
            }
        }
    }

    fn messages(&self) -> &[String] {
        match self {
            Self::Refused(messages) => messages,
            Self::Resolved(_) | Self::Built(_) => &[],
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Resolved(_) => "resolved",
            Self::Built(_) => "built",
            Self::Refused(_) => "refused",
        }
    }
}

fn changed_values(old: &BTreeMap<String, Value>, new: &BTreeMap<String, Value>) -> Vec<String> {
    let mut paths: Vec<_> = old.keys().chain(new.keys()).collect();
    paths.sort();
    paths.dedup();
    let text = |value: Option<&Value>| value.map_or("not there".to_owned(), ToString::to_string);
    let changed = paths.into_iter().map(|path| (path, old.get(path), new.get(path)));
    changed
        .filter(|(_, old, new)| old != new)
        .map(|(path, old, new)| format!("{path}: {} -> {}", text(old), text(new)))
        .collect()
}

fn changed_messages(old: &[String], new: &[String]) -> Vec<String> {
    let gone = old.iter().filter(|message| !new.contains(message)).map(|message| format!("- {message}"));
    let come = new.iter().filter(|message| !old.contains(message)).map(|message| format!("+ {message}"));
    let changed: Vec<_> = gone.chain(come).collect();
    let is_other_order = changed.is_empty() && old != new;
    if is_other_order { vec!["the same messages, in another order or number".to_owned()] } else { changed }
}

/// For each setting which default, rule or flag decided it; for review, not for comparison. None for what is refused.
pub(crate) fn provenance(shape: &Shape) -> Option<String> {
    let context = resolve::<Settings>(shape).ok()?.publish();
    let mut paths: Vec<_> = context.values().into_iter().map(|(path, _)| path).collect();
    paths.sort_unstable();
    let mut text = format!("hardware {}, model {}\n", shape.hardware, shape.model);
    for path in paths {
        let Ok(explanation) = context.explain(path) else { continue };
        let inputs: Vec<_> = explanation.inputs().iter().map(Explanation::path).collect();
        let from = if inputs.is_empty() { String::new() } else { format!(" from {}", inputs.join(", ")) };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{path}: {}{from}", explanation.origin());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, Value)]) -> Document {
        Document::Resolved(values.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect())
    }

    fn refused(messages: &[&str]) -> Document {
        Document::Refused(messages.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn json_is_sorted_and_floats_are_short() {
        let document = settings(&[("b", Value::Float(0.1)), ("a", Value::Unset), ("c", Value::Float(2.0))]);
        let text = "{\n  \"resolved\": {\n    \"a\": null,\n    \"b\": 0.1,\n    \"c\": 2.0\n  }\n}\n";
        assert_eq!(document.json(), text);
        assert_eq!(serde_json::from_str::<Document>(text).expect("JSON"), document);
    }

    #[test]
    fn changes_say_what_and_from_what_to_what() {
        let old = settings(&[("a", Value::Integer(1)), ("b", Value::Unset), ("same", Value::Bool(true))]);
        let new = settings(&[("a", Value::Integer(2)), ("c", Value::Unset), ("same", Value::Bool(true))]);
        assert_eq!(old.changes(&new), ["a: 1 -> 2", "b: unset -> not there", "c: not there -> unset"]);
        assert!(old.changes(&old).is_empty() && refused(&["x"]).changes(&refused(&["x"])).is_empty());
        let (one, two) = (refused(&["x", "y"]), refused(&["y", "z"]));
        assert_eq!(one.changes(&two), ["- x", "+ z"]);
        assert_eq!(old.changes(&one), ["resolved -> refused", "+ x", "+ y"]);
        assert_eq!(one.changes(&old), ["refused -> resolved", "- x", "- y"]);
        assert_eq!(one.changes(&refused(&["y", "x"])), ["the same messages, in another order or number"]);
    }
}
