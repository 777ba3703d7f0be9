//! What all collections of entries without names have in common.
//!
//! What can be done through the type of the entries is done there, without generics: a schema with lists of ten types
//! compiles little more than one with lists of one.

use super::{Erased, Fault, Leaf, LeafType, MOST_FAULTS, Shape, faults_of};
use crate::value::Value;

pub(super) fn expected(entry: &str) -> String {
    format!("a list, each entry {entry}")
}

/// The entries of a text, split at commas.
pub(super) fn of_text(entry: &LeafType, text: &str) -> Option<Vec<Erased>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|text| entry.parse_text(text.trim())).collect()
}

/// The entries of a file's list.
pub(super) fn of_value(entry: &LeafType, value: &Value) -> Option<Vec<Erased>> {
    match value {
        Value::List(values) => values.iter().map(|value| entry.parse_value(value)).collect(),
        _ => None,
    }
}

/// Which entries of a file's list are at fault.
pub(super) fn faults(entry: &LeafType, value: &Value) -> Vec<Fault> {
    let Value::List(values) = value else { return Vec::new() };
    let faulty = values.iter().enumerate().filter(|(_, value)| entry.parse_value(value).is_none()).take(MOST_FAULTS);
    faulty
        .flat_map(|(index, value)| faults_of(entry, value).into_iter().map(move |fault| fault.in_entry(index)))
        .collect()
}

/// The collection of these entries. A loop, and below, too: what iterators and `collect` bring along is much code for
/// each type.
pub(super) fn taken<T: Leaf, C: Default>(entries: Option<Vec<Erased>>, add: impl Fn(&mut C, T)) -> Option<C> {
    let entries = entries?;
    let mut taken = C::default();
    for index in 0..entries.len() {
        add(&mut taken, T::take(&entries, index));
    }
    Some(taken)
}

pub(super) fn shown<'a, T: Leaf>(entries: impl Iterator<Item = &'a T>, value: fn(&T) -> Value) -> Value {
    let mut values = Vec::new();
    for entry in entries {
        values.push(value(entry));
    }
    Value::List(values)
}

pub(super) fn shape(entry: Shape) -> Shape {
    Shape::List(Box::new(entry))
}

pub(super) fn samples(entry: &LeafType) -> Vec<String> {
    let values = entry.samples();
    vec![String::new(), values.first().cloned().unwrap_or_default(), values.join(",")]
}
