//! JSON with keys in the order in which they were put.

use super::literal::quoted;
use crate::value::Value;

/// A JSON document.
pub(super) enum Json {
    /// A number, text, boolean or null as written.
    Scalar(String),
    List(Vec<Self>),
    Object(Object),
}

/// Members in order.
pub(super) type Object = Vec<(String, Json)>;

impl Json {
    pub(super) fn text(text: &str) -> Self {
        Self::Scalar(quoted(text))
    }

    pub(super) fn texts(texts: &[&str]) -> Self {
        Self::List(texts.iter().map(|text| Self::text(text)).collect())
    }

    pub(super) fn bool(value: bool) -> Self {
        Self::Scalar(value.to_string())
    }

    pub(super) fn null() -> Self {
        Self::Scalar("null".to_owned())
    }

    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Unset => Self::null(),
            Value::Text(text) => Self::text(text),
            Value::List(values) => Self::List(values.iter().map(Self::of).collect()),
            Value::Table(entries) => {
                Self::Object(entries.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect())
            }
            // JSON has no other spelling for a number that is none.
            Value::Float(float) if !float.is_finite() => Self::null(),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => Self::Scalar(value.to_string()),
        }
    }

    /// Indented, lists of scalars on one line.
    pub(super) fn pretty(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text.push('\n');
        text
    }

    fn write(&self, out: &mut String, depth: usize) {
        let line = |out: &mut String, depth: usize| {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        };
        match self {
            Self::Scalar(text) => out.push_str(text),
            Self::List(values) if values.iter().all(|value| matches!(value, Self::Scalar(_))) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    value.write(out, depth);
                }
                out.push(']');
            }
            Self::List(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    line(out, depth + 1);
                    value.write(out, depth + 1);
                }
                line(out, depth);
                out.push(']');
            }
            Self::Object(members) if members.is_empty() => out.push_str("{}"),
            Self::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    line(out, depth + 1);
                    out.push_str(&quoted(key));
                    out.push_str(": ");
                    value.write(out, depth + 1);
                }
                line(out, depth);
                out.push('}');
            }
        }
    }
}
