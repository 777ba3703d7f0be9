//! `Option`, lists, sets and maps of leaves.
//!
//! A later layer replaces a whole list, set or map; entries are not merged, so that what a layer sets is what is read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use super::{Fault, Leaf, Shape};
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

/// The entries of a text, split at commas.
fn entries_of_text<T: Leaf, C: FromIterator<T>>(text: &str) -> Option<C> {
    if text.is_empty() {
        return Some(C::from_iter([]));
    }
    text.split(',').map(|entry| T::from_text(entry.trim())).collect()
}

/// The entries of a file's list.
fn entries_of_value<T: Leaf, C: FromIterator<T>>(value: &Value) -> Option<C> {
    match value {
        Value::List(values) => values.iter().map(T::from_value).collect(),
        _ => None,
    }
}

/// Which entries of a file's list are at fault.
fn faults_in_list<T: Leaf>(value: &Value) -> Vec<Fault> {
    let Value::List(values) = value else { return Vec::new() };
    let faulty = values.iter().enumerate().filter(|(_, entry)| T::from_value(entry).is_none()).take(MOST_FAULTS);
    faulty
        .flat_map(|(index, entry)| faults_of::<T>(entry).into_iter().map(move |fault| fault.in_entry(index)))
        .collect()
}

/// The same of a file's table.
fn faults_in_table<T: Leaf>(value: &Value) -> Vec<Fault> {
    let Value::Table(entries) = value else { return Vec::new() };
    let faulty = entries.iter().filter(|(_, entry)| T::from_value(entry).is_none()).take(MOST_FAULTS);
    faulty.flat_map(|(key, entry)| faults_of::<T>(entry).into_iter().map(move |fault| fault.in_key(key))).collect()
}

fn faults_of<T: Leaf>(entry: &Value) -> Vec<Fault> {
    let faults = T::faults(entry);
    if faults.is_empty() { vec![not_as_expected(&T::expected(), T::choices(), entry)] } else { faults }
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

fn samples_of_list<T: Leaf>() -> Vec<String> {
    let values = T::samples();
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
        entries_of_text(text)
    }

    fn from_value(value: &Value) -> Option<Self> {
        entries_of_value(value)
    }

    fn faults(value: &Value) -> Vec<Fault> {
        faults_in_list::<T>(value)
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
        samples_of_list::<T>()
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
                entries_of_text(text)
            }

            fn from_value(value: &Value) -> Option<Self> {
                entries_of_value(value)
            }

            fn faults(value: &Value) -> Vec<Fault> {
                faults_in_list::<T>(value)
            }

            fn is_valid(&self) -> bool {
                self.iter().all(T::is_valid)
            }

            fn to_value(&self) -> Value {
                $list(self.iter().map(T::to_value).collect())
            }

            fn to_raw_value(&self) -> Value {
                $list(self.iter().map(T::to_raw_value).collect())
            }

            fn is_secret() -> bool {
                T::is_secret()
            }

            fn shape() -> Shape {
                Shape::List(Box::new(T::shape()))
            }

            fn samples() -> Vec<String> {
                samples_of_list::<T>()
            }
        }
    )+};
}

sets! {
    BTreeSet<T>, [T: Leaf + Ord], Value::List;
    HashSet<T, H>, [T: Leaf + Eq + Hash, H: BuildHasher + Default + Clone + Send + Sync + 'static], in_order;
}

/// The pairs of a text. A key given twice would lose one of the two, so it is refused.
fn pairs_of_text<T: Leaf, C: FromIterator<(String, T)>>(text: &str) -> Option<C> {
    if text.is_empty() {
        return Some(C::from_iter([]));
    }
    let mut keys = BTreeSet::new();
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (key.trim().to_owned(), T::from_text(value.trim())?);
        keys.insert(key.clone()).then_some((key, value))
    };
    text.split(',').map(pair).collect()
}

fn pairs_of_value<T: Leaf, C: FromIterator<(String, T)>>(value: &Value) -> Option<C> {
    match value {
        Value::Table(entries) => {
            entries.iter().map(|(key, value)| Some((key.clone(), T::from_value(value)?))).collect()
        }
        _ => None,
    }
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
                pairs_of_text(text)
            }

            fn from_value(value: &Value) -> Option<Self> {
                pairs_of_value(value)
            }

            fn faults(value: &Value) -> Vec<Fault> {
                faults_in_table::<T>(value)
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
    )+};
}

maps! {
    BTreeMap<String, T>, [T: Leaf];
    HashMap<String, T, H>, [T: Leaf, H: BuildHasher + Default + Clone + Send + Sync + 'static];
}
