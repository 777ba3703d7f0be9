//! A setting's value without its type: what files hold and dumps print.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

/// An untyped configuration value.
///
/// Files are parsed into it before the schema's types are known to fit, and every typed value can be
/// turned back into it for dumps and error messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An `Option` leaf that is not set.
    Unset,
    /// `true` or `false`.
    Bool(bool),
    /// Any integer.
    Integer(i128),
    /// Any float.
    Float(f64),
    /// Text, also paths, addresses, durations and choices.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Keys and values, sorted by key.
    Table(BTreeMap<String, Value>),
}

impl Value {
    /// The value as it is given in a flag: text without quotes, lists as `1,2`, tables as `a=1,b=2`.
    pub(crate) fn plain(&self) -> String {
        let joined = |parts: Vec<String>| parts.join(",");
        match self {
            Self::Unset => String::new(),
            Self::Text(text) => text.clone(),
            Self::List(values) => joined(values.iter().map(Self::plain).collect()),
            Self::Table(entries) => {
                joined(entries.iter().map(|(key, value)| format!("{key}={}", value.plain())).collect())
            }
            Self::Bool(_) | Self::Integer(_) | Self::Float(_) => self.to_string(),
        }
    }

    /// What this is, without what it says: where nothing tells whether it was meant for a secret.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unset => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// What this is in a user's words, for "expected …, found …".
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Unset => "nothing".to_owned(),
            Self::Bool(_) => format!("the boolean `{self}`"),
            Self::Integer(_) => format!("the integer `{self}`"),
            Self::Float(_) => format!("the float `{self}`"),
            Self::Text(_) => format!("the text {}", shortened(&self.to_string())),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// The beginning of a text too long for a message, and how long it is.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    const MOST: usize = 400;
    const SHOWN: usize = 300;
    // Bytes are counted first, which is enough for most texts.
    if text.len() <= MOST || text.chars().nth(MOST).is_none() {
        return text.into();
    }
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(index, _)| index);
    format!("{}… ({} bytes)", &text[..end], text.len()).into()
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("unset"),
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            // `Debug` keeps the point of a whole float, so that `2.0` does not read as an integer.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    value.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Table(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma} {key} = {value}")?;
                }
                f.write_str(if entries.is_empty() { "}" } else { " }" })
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unset => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            // Only integers that need 128 bits are written as such: not every format has them.
            Self::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(small), _) => serializer.serialize_i64(small),
                (_, Ok(large)) => serializer.serialize_u64(large),
                _ => serializer.serialize_i128(*value),
            },
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(values) => serializer.collect_seq(values),
            Self::Table(entries) => serializer.collect_map(entries),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a configuration value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Unset)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Unset)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = entries.next_element()? {
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            table.insert(key, value);
        }
        Ok(Value::Table(table))
    }
}
