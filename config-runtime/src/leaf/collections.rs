//! `Option`, lists and maps of leaves.
//!
//! A later layer replaces a whole list or map; entries are not merged, so that what a layer sets is what is read.

use std::collections::BTreeMap;

use super::{Leaf, Shape};
use crate::value::Value;

/// An optional leaf. Unset unless given; an empty environment variable or flag value unsets it again.
impl<T: Leaf> Leaf for Option<T> {
    type Read<'a> = Option<T::Read<'a>>;

    fn read(&self) -> Self::Read<'_> {
        self.as_ref().map(T::read)
    }

    fn expected() -> String {
        or_none(&T::expected())
    }

    fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(None);
        }
        T::from_text(text).map(Some)
    }

    fn from_value(value: &Value) -> Option<Self> {
        if is_none(value) {
            return Some(None);
        }
        T::from_value(value).map(Some)
    }

    fn fault(value: &Value) -> Option<String> {
        T::fault(value)
    }

    fn is_valid(&self) -> bool {
        self.as_ref().is_none_or(T::is_valid)
    }

    fn to_value(&self) -> Value {
        match self {
            Some(value) => value.to_value(),
            None => Value::Unset,
        }
    }

    fn to_raw_value(&self) -> Value {
        match self {
            Some(value) => value.to_raw_value(),
            None => Value::Unset,
        }
    }

    fn is_secret() -> bool {
        T::is_secret()
    }

    fn when_absent() -> Option<Self> {
        Some(None)
    }

    fn choices() -> Option<&'static [&'static str]> {
        T::choices()
    }

    fn shape() -> Shape {
        Shape::Optional(Box::new(T::shape()))
    }

    fn samples() -> Vec<String> {
        let mut samples = T::samples();
        samples.insert(0, String::new());
        samples
    }
}

fn or_none(expected: &str) -> String {
    format!("{expected} (or empty for none)")
}

/// `null`, or the file's spelling of "none", the same as the environment's.
fn is_none(value: &Value) -> bool {
    match value {
        Value::Unset => true,
        Value::Text(text) => text.is_empty(),
        _ => false,
    }
}

/// A list. Text is split at commas; an entry that holds a comma itself needs a file.
impl<T: Leaf> Leaf for Vec<T> {
    type Read<'a> = &'a [T];

    fn read(&self) -> &[T] {
        self
    }

    fn expected() -> String {
        format!("a list, each entry {}", T::expected())
    }

    fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::new());
        }
        text.split(',').map(|entry| T::from_text(entry.trim())).collect()
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(values) => values.iter().map(T::from_value).collect(),
            _ => None,
        }
    }

    fn fault(value: &Value) -> Option<String> {
        let Value::List(values) = value else { return None };
        let (position, entry) = values.iter().enumerate().find(|(_, entry)| T::from_value(entry).is_none())?;
        let inner =
            T::fault(entry).unwrap_or_else(|| format!("expected {}, found {}", T::expected(), entry.describe()));
        Some(format!("entry {}: {inner}", position + 1))
    }

    fn is_valid(&self) -> bool {
        self.iter().all(T::is_valid)
    }

    fn to_value(&self) -> Value {
        Value::List(self.iter().map(T::to_value).collect())
    }

    fn to_raw_value(&self) -> Value {
        Value::List(self.iter().map(T::to_raw_value).collect())
    }

    fn is_secret() -> bool {
        T::is_secret()
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn samples() -> Vec<String> {
        let values = T::samples();
        vec![String::new(), values.first().cloned().unwrap_or_default(), values.join(",")]
    }
}

/// A map with text keys. Text is `key=value` pairs split at commas.
impl<T: Leaf> Leaf for BTreeMap<String, T> {
    type Read<'a> = &'a BTreeMap<String, T>;

    fn read(&self) -> &Self {
        self
    }

    fn expected() -> String {
        format!("`key=value` pairs, each value {}", T::expected())
    }

    fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::new());
        }
        let mut entries = Self::new();
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=')?;
            // A key given twice would lose one of the two.
            if entries.insert(key.trim().to_owned(), T::from_text(value.trim())?).is_some() {
                return None;
            }
        }
        Some(entries)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Table(entries) => {
                entries.iter().map(|(key, value)| Some((key.clone(), T::from_value(value)?))).collect()
            }
            _ => None,
        }
    }

    fn fault(value: &Value) -> Option<String> {
        let Value::Table(entries) = value else { return None };
        let (key, entry) = entries.iter().find(|(_, entry)| T::from_value(entry).is_none())?;
        let inner =
            T::fault(entry).unwrap_or_else(|| format!("expected {}, found {}", T::expected(), entry.describe()));
        Some(format!("`{key}`: {inner}"))
    }

    fn is_valid(&self) -> bool {
        self.values().all(T::is_valid)
    }

    fn to_value(&self) -> Value {
        Value::Table(self.iter().map(|(key, value)| (key.clone(), value.to_value())).collect())
    }

    fn to_raw_value(&self) -> Value {
        Value::Table(self.iter().map(|(key, value)| (key.clone(), value.to_raw_value())).collect())
    }

    fn is_secret() -> bool {
        T::is_secret()
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }

    fn samples() -> Vec<String> {
        let one = T::samples().into_iter().take(1).map(|value| format!("key={value}"));
        std::iter::once(String::new()).chain(one).collect()
    }
}
