//! `Option`, lists, sets and maps of leaves.
//!
//! A later layer replaces a whole list, set or map; entries are not merged, so that what a layer sets is what is read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use super::{AnyLeaf, Erased, Fault, Leaf, LeafType, Shape};
use crate::suggest::did_you_mean;
use crate::value::Value;

/// Of a list that is wrong all over, the first faults say enough.
const MOST_FAULTS: usize = 20;

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

    fn faults(value: &Value) -> Vec<Fault> {
        T::faults(value)
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

    const TYPE: &'static LeafType = T::OPTIONAL;

    fn erase(value: Self) -> Erased {
        T::erase_optional(value)
    }

    fn reveal(value: &dyn AnyLeaf) -> Option<&Self> {
        T::reveal_optional(value)
    }

    fn take(values: &[Erased], index: usize) -> Self {
        T::take_optional(values, index)
    }
}

pub(super) fn or_none(expected: &str) -> String {
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

// What can be done through the type of the entries is done there, without generics: a schema with lists of ten types
// compiles little more than one with lists of one.

/// The entries of a text, split at commas.
fn entries_of_text(entry: &LeafType, text: &str) -> Option<Vec<Erased>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|text| entry.parse_text(text.trim())).collect()
}

/// The entries of a file's list.
fn entries_of_value(entry: &LeafType, value: &Value) -> Option<Vec<Erased>> {
    match value {
        Value::List(values) => values.iter().map(|value| entry.parse_value(value)).collect(),
        _ => None,
    }
}

/// Which entries of a file's list are at fault.
fn faults_in_list(entry: &LeafType, value: &Value) -> Vec<Fault> {
    let Value::List(values) = value else { return Vec::new() };
    let faulty = values.iter().enumerate().filter(|(_, value)| entry.parse_value(value).is_none()).take(MOST_FAULTS);
    faulty
        .flat_map(|(index, value)| faults_of(entry, value).into_iter().map(move |fault| fault.in_entry(index)))
        .collect()
}

/// The same of a file's table.
fn faults_in_table(entry: &LeafType, value: &Value) -> Vec<Fault> {
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

fn faults_of(entry: &LeafType, value: &Value) -> Vec<Fault> {
    let faults = entry.faults(value);
    if faults.is_empty() { vec![not_as_expected(&entry.expected(), entry.choices(), value)] } else { faults }
}

fn not_as_expected(expected: &str, choices: Option<&[&str]>, entry: &Value) -> Fault {
    let mut problem = format!("expected {expected}, found {}", entry.describe());
    let hint = match (choices, entry) {
        (Some(names), Value::Text(text)) => did_you_mean(text, names.iter().copied()),
        _ => None,
    };
    problem.extend(hint.map(|hint| format!("; {hint}")));
    Fault::new(problem)
}

/// The collection of these entries. A loop, and below, too: what iterators and `collect` bring along is much code for
/// each type.
fn taken<T: Leaf, C: Default>(entries: &[Erased], add: impl Fn(&mut C, T)) -> C {
    let mut taken = C::default();
    for index in 0..entries.len() {
        add(&mut taken, T::take(entries, index));
    }
    taken
}

fn values<'a, T: Leaf>(entries: impl Iterator<Item = &'a T>, value: fn(&T) -> Value) -> Vec<Value> {
    let mut values = Vec::new();
    for entry in entries {
        values.push(value(entry));
    }
    values
}

fn samples_of_list(entry: &LeafType) -> Vec<String> {
    let values = entry.samples();
    vec![String::new(), values.first().cloned().unwrap_or_default(), values.join(",")]
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
        entries_of_text(T::TYPE, text).map(|entries| taken(&entries, Self::push))
    }

    fn from_value(value: &Value) -> Option<Self> {
        entries_of_value(T::TYPE, value).map(|entries| taken(&entries, Self::push))
    }

    fn faults(value: &Value) -> Vec<Fault> {
        faults_in_list(T::TYPE, value)
    }

    fn is_valid(&self) -> bool {
        self.iter().all(T::is_valid)
    }

    fn to_value(&self) -> Value {
        Value::List(values(self.iter(), T::to_value))
    }

    fn to_raw_value(&self) -> Value {
        Value::List(values(self.iter(), T::to_raw_value))
    }

    fn is_secret() -> bool {
        T::is_secret()
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn samples() -> Vec<String> {
        samples_of_list(T::TYPE)
    }
}

/// The order in which a hash set is shown: the same in every run, numbers by size.
fn in_order(mut values: Vec<Value>) -> Value {
    values.sort_by(|one, other| match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => one.cmp(other),
        _ => one.to_string().cmp(&other.to_string()),
    });
    Value::List(values)
}

/// Sets are lists, as far as sources can tell. An entry given twice is there once.
macro_rules! sets {
    ($($set:ty, [$($generics:tt)*], $list:path;)+) => {$(
        impl<$($generics)*> Leaf for $set {
            type Read<'a> = &'a Self;

            fn read(&self) -> &Self {
                self
            }

            fn expected() -> String {
                format!("a list, each entry {}", T::expected())
            }

            fn from_text(text: &str) -> Option<Self> {
                entries_of_text(T::TYPE, text).map(|entries| taken(&entries, |set: &mut Self, entry| {
                    set.insert(entry);
                }))
            }

            fn from_value(value: &Value) -> Option<Self> {
                entries_of_value(T::TYPE, value).map(|entries| taken(&entries, |set: &mut Self, entry| {
                    set.insert(entry);
                }))
            }

            fn faults(value: &Value) -> Vec<Fault> {
                faults_in_list(T::TYPE, value)
            }

            fn is_valid(&self) -> bool {
                self.iter().all(T::is_valid)
            }

            fn to_value(&self) -> Value {
                $list(values(self.iter(), T::to_value))
            }

            fn to_raw_value(&self) -> Value {
                $list(values(self.iter(), T::to_raw_value))
            }

            fn is_secret() -> bool {
                T::is_secret()
            }

            fn shape() -> Shape {
                Shape::List(Box::new(T::shape()))
            }

            fn samples() -> Vec<String> {
                samples_of_list(T::TYPE)
            }
        }
    )+};
}

sets! {
    BTreeSet<T>, [T: Leaf + Ord], Value::List;
    HashSet<T, H>, [T: Leaf + Eq + Hash, H: BuildHasher + Default + Clone + Send + Sync + 'static], in_order;
}

/// The pairs of a text. A key given twice would lose one of the two, so it is refused.
fn pairs_of_text(entry: &LeafType, text: &str) -> Option<(Vec<String>, Vec<Erased>)> {
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

fn pairs_of_value(entry: &LeafType, value: &Value) -> Option<(Vec<String>, Vec<Erased>)> {
    match value {
        Value::Table(entries) => {
            entries.iter().map(|(key, value)| Some((key.clone(), entry.parse_value(value)?))).collect()
        }
        _ => None,
    }
}

fn taken_pairs<T: Leaf, C: Default>((keys, values): (Vec<String>, Vec<Erased>), add: impl Fn(&mut C, String, T)) -> C {
    let mut taken = C::default();
    for (index, key) in keys.into_iter().enumerate() {
        add(&mut taken, key, T::take(&values, index));
    }
    taken
}

fn table<'a, T: Leaf>(pairs: impl Iterator<Item = (&'a String, &'a T)>, value: fn(&T) -> Value) -> Value {
    let mut table = BTreeMap::new();
    for (key, entry) in pairs {
        table.insert(key.clone(), value(entry));
    }
    Value::Table(table)
}

fn samples_of_map(entry: &LeafType) -> Vec<String> {
    let one = entry.samples().into_iter().take(1).map(|value| format!("key={value}"));
    std::iter::once(String::new()).chain(one).collect()
}

/// Maps with text keys. Text is `key=value` pairs split at commas.
macro_rules! maps {
    ($($map:ty, [$($generics:tt)*];)+) => {$(
        impl<$($generics)*> Leaf for $map {
            type Read<'a> = &'a Self;

            fn read(&self) -> &Self {
                self
            }

            fn expected() -> String {
                format!("`key=value` pairs, each value {}", T::expected())
            }

            fn from_text(text: &str) -> Option<Self> {
                pairs_of_text(T::TYPE, text).map(|pairs| taken_pairs(pairs, |map: &mut Self, key, value| {
                    map.insert(key, value);
                }))
            }

            fn from_value(value: &Value) -> Option<Self> {
                pairs_of_value(T::TYPE, value).map(|pairs| taken_pairs(pairs, |map: &mut Self, key, value| {
                    map.insert(key, value);
                }))
            }

            fn faults(value: &Value) -> Vec<Fault> {
                faults_in_table(T::TYPE, value)
            }

            fn is_valid(&self) -> bool {
                self.values().all(T::is_valid)
            }

            fn to_value(&self) -> Value {
                table(self.iter(), T::to_value)
            }

            fn to_raw_value(&self) -> Value {
                table(self.iter(), T::to_raw_value)
            }

            fn is_secret() -> bool {
                T::is_secret()
            }

            fn shape() -> Shape {
                Shape::Map(Box::new(T::shape()))
            }

            fn samples() -> Vec<String> {
                samples_of_map(T::TYPE)
            }
        }
    )+};
}

maps! {
    BTreeMap<String, T>, [T: Leaf];
    HashMap<String, T, H>, [T: Leaf, H: BuildHasher + Default + Clone + Send + Sync + 'static];
}
