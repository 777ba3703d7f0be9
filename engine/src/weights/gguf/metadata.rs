//! The key-value pairs of a GGUF file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::reader::Reader;
use crate::error::{Error, Result};

/// An empty key, a type and a one-byte value.
pub(super) const MIN_PAIR_BYTES: usize = 8 + 4 + 1;

/// The largest vocabularies and merge lists have about a million entries.
const ARRAY_LIMIT: usize = 1 << 22;

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// A signed integer of any width.
    Signed(i64),
    /// A number of either floating width.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// Values of one type.
    Array(Vec<Value>),
}

/// The metadata of a GGUF file by key.
#[derive(Debug)]
pub struct Metadata {
    path: PathBuf,
    pairs: BTreeMap<String, Value>,
}

impl Metadata {
    pub(super) fn read(reader: &mut Reader<'_>, count: usize) -> Result<Self> {
        let mut pairs = BTreeMap::new();
        for _ in 0..count {
            let at = reader.offset();
            let key = reader.string()?.to_owned();
            let kind = reader.u32()?;
            let value = read_value(reader, kind)?;
            if pairs.insert(key.clone(), value).is_some() {
                return Err(reader.damaged(at, format!("metadata key `{key}` is there twice")));
            }
        }
        Ok(Self { path: reader.path().to_owned(), pairs })
    }

    /// The file the metadata came from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.pairs.keys().map(String::as_str)
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.pairs.get(key)
    }

    /// The value of `key` as a size, when there is one.
    pub fn optional_usize(&self, key: &str) -> Result<Option<usize>> {
        self.optional(key, "a size", |value| match value {
            Value::Unsigned(n) => usize::try_from(*n).ok(),
            Value::Signed(n) => usize::try_from(*n).ok(),
            _ => None,
        })
    }

    /// The value of `key` as a size.
    pub fn usize(&self, key: &str) -> Result<usize> {
        self.required(key, self.optional_usize(key)?)
    }

    /// The value of `key` as a number, when there is one.
    pub fn optional_float(&self, key: &str) -> Result<Option<f64>> {
        self.optional(key, "a number", |value| match value {
            Value::Float(x) => Some(*x),
            _ => None,
        })
    }

    /// The value of `key` as a truth value, when there is one.
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>> {
        self.optional(key, "true or false", |value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// The value of `key` as text, when there is one.
    pub fn optional_text(&self, key: &str) -> Result<Option<&str>> {
        self.optional(key, "text", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The value of `key` as text.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.required(key, self.optional_text(key)?)
    }

    /// The value of `key` as a list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>> {
        let list = self.optional(key, "a list of texts", |value| {
            let Value::Array(values) = value else {
                return None;
            };
            values.iter().map(|value| if let Value::Text(text) = value { Some(text.as_str()) } else { None }).collect()
        })?;
        self.required(key, list)
    }

    /// The value of `key` as a list of integers.
    pub fn integers(&self, key: &str) -> Result<Vec<i64>> {
        let list = self.optional(key, "a list of integers", |value| {
            let Value::Array(values) = value else {
                return None;
            };
            values
                .iter()
                .map(|value| match value {
                    Value::Unsigned(n) => i64::try_from(*n).ok(),
                    Value::Signed(n) => Some(*n),
                    _ => None,
                })
                .collect()
        })?;
        self.required(key, list)
    }

    /// The value of `key` as a list of numbers.
    pub fn floats(&self, key: &str) -> Result<Vec<f64>> {
        let list = self.optional(key, "a list of numbers", |value| {
            let Value::Array(values) = value else {
                return None;
            };
            values.iter().map(|value| if let Value::Float(number) = value { Some(*number) } else { None }).collect()
        })?;
        self.required(key, list)
    }

    fn optional<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.pairs.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::damaged(&self.path, format!("metadata key `{key}` is not {wanted}"))),
        }
    }

    fn required<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| Error::damaged(&self.path, format!("metadata key `{key}` is missing")))
    }
}

fn read_value(reader: &mut Reader<'_>, kind: u32) -> Result<Value> {
    let at = reader.offset();
    Ok(match kind {
        0 => Value::Unsigned(u8::from_le_bytes(reader.array()?).into()),
        1 => Value::Signed(i8::from_le_bytes(reader.array()?).into()),
        2 => Value::Unsigned(u16::from_le_bytes(reader.array()?).into()),
        3 => Value::Signed(i16::from_le_bytes(reader.array()?).into()),
        4 => Value::Unsigned(reader.u32()?.into()),
        5 => Value::Signed(i32::from_le_bytes(reader.array()?).into()),
        6 => Value::Float(f32::from_le_bytes(reader.array()?).into()),
        7 => match reader.array::<1>()? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            [other] => return Err(reader.damaged(at, format!("truth value {other}"))),
        },
        8 => Value::Text(reader.string()?.to_owned()),
        9 => {
            let kind = reader.u32()?;
            let smallest =
                smallest_bytes(kind).ok_or_else(|| reader.damaged(at, format!("array of value type {kind}")))?;
            let count = reader.count("array elements", smallest)?;
            if count > ARRAY_LIMIT {
                return Err(reader.damaged(at, format!("array of {count} elements (limit: {ARRAY_LIMIT})")));
            }
            let values = (0..count).map(|_| read_value(reader, kind));
            Value::Array(values.collect::<Result<_>>()?)
        }
        10 => Value::Unsigned(reader.u64()?),
        11 => Value::Signed(i64::from_le_bytes(reader.array()?)),
        12 => Value::Float(f64::from_le_bytes(reader.array()?)),
        other => return Err(reader.damaged(at, format!("value type {other}"))),
    })
}

/// The fewest bytes a value of an array's element type takes. Arrays are none: one within another has no use, and no depth would end it.
fn smallest_bytes(kind: u32) -> Option<usize> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        8 | 10..=12 => Some(8),
        _ => None,
    }
}
