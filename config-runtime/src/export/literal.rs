//! Values as they are written in files.

use std::fmt::Write;

use crate::value::Value;

/// Text in quotes, escaped so that both JSON and TOML read it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            // Writing to a string does not fail.
            control if control.is_control() => drop(write!(quoted, "\\u{:04X}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// One line of a TOML file that sets a leaf, as in dumps: `pool.queue = 32`.
///
/// ```
/// use kitbag::{Value, export};
/// assert_eq!(export::toml_line("pool.name", &Value::Text("a \"b\"".to_owned())), r#"pool.name = "a \"b\"""#);
/// ```
#[must_use]
pub fn toml_line(path: &str, value: &Value) -> String {
    format!("{path} = {}", toml(value))
}

/// A key of a TOML table.
pub(super) fn toml_key(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) }
}

/// A value on one line of TOML.
pub(super) fn toml(value: &Value) -> String {
    match value {
        // The spelling of "none" in formats that have no null.
        Value::Unset => quoted(""),
        Value::Text(text) => quoted(text),
        Value::List(values) => format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Table(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{} = {}", toml_key(key), toml(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => value.to_string(),
    }
}
