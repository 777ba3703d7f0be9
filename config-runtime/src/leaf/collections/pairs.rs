//! What all maps with text keys have in common; see `list`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Erased, Fault, Leaf, LeafType, MOST_FAULTS, Shape, faults_of};
use crate::value::Value;

pub(super) fn expected(entry: &str) -> String {
    format!("`key=value` pairs, each value {entry}")
}

/// The pairs of a text. A key given twice would lose one of the two, so it is refused.
pub(super) fn of_text(entry: &LeafType, text: &str) -> Option<(Vec<String>, Vec<Erased>)> {
    if text.is_empty() {
        return Some((Vec::new(), Vec::new()));
    }
    let mut keys = BTreeSet::new();
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (key.trim().to_owned(), entry.parse_text(value.trim())?);
        keys.insert(key.clone()).then_some((key, value))
    };
    text.split(',').map(pair).collect()
}

pub(super) fn of_value(entry: &LeafType, value: &Value) -> Option<(Vec<String>, Vec<Erased>)> {
    match value {
        Value::Table(entries) => {
            entries.iter().map(|(key, value)| Some((key.clone(), entry.parse_value(value)?))).collect()
        }
        _ => None,
    }
}

/// Which entries of a file's table are at fault.
pub(super) fn faults(entry: &LeafType, value: &Value) -> Vec<Fault> {
    let entries = match value {
        Value::Table(entries) => entries,
        Value::Text(text) => return key_given_twice(text).into_iter().collect(),
        _ => return Vec::new(),
    };
    let faulty = entries.iter().filter(|(_, value)| entry.parse_value(value).is_none()).take(MOST_FAULTS);
    faulty.flat_map(|(key, value)| faults_of(entry, value).into_iter().map(move |fault| fault.in_key(key))).collect()
}

/// Of a text that is key and value pairs, but for a key that is there twice.
fn key_given_twice(text: &str) -> Option<Fault> {
    let mut keys = BTreeSet::new();
    let twice = text.split(',').find_map(|pair| {
        let (key, _) = pair.split_once('=')?;
        (!keys.insert(key.trim())).then_some(key.trim())
    });
    twice.map(|key| Fault::new(format!("the key `{key}` is given twice")))
}

pub(super) fn taken<T: Leaf, C: Default>(
    pairs: Option<(Vec<String>, Vec<Erased>)>,
    add: impl Fn(&mut C, (String, T)),
) -> Option<C> {
    let (keys, values) = pairs?;
    let mut taken = C::default();
    for (index, key) in keys.into_iter().enumerate() {
        add(&mut taken, (key, T::take(&values, index)));
    }
    Some(taken)
}

pub(super) fn shown<'a, T: Leaf>(pairs: impl Iterator<Item = (&'a String, &'a T)>, value: fn(&T) -> Value) -> Value {
    let mut table = BTreeMap::new();
    for (key, entry) in pairs {
        table.insert(key.clone(), value(entry));
    }
    Value::Table(table)
}

pub(super) fn shape(entry: Shape) -> Shape {
    Shape::Map(Box::new(entry))
}

pub(super) fn samples(entry: &LeafType) -> Vec<String> {
    let one = entry.samples().into_iter().take(1).map(|value| format!("key={value}"));
    std::iter::once(String::new()).chain(one).collect()
}
