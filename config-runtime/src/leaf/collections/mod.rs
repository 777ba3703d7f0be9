//! `Option`, lists, sets and maps of leaves.
//!
//! A later layer replaces a whole list, set or map; entries are not merged, so that what a layer sets is what is read.

mod list;
mod pairs;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::convert::identity;
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

    const SECRET: bool = T::SECRET;

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

/// The order in which a hash set is shown: the same in every run, numbers by size.
fn in_order(list: Value) -> Value {
    let Value::List(mut values) = list else { return list };
    values.sort_by(|one, other| match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => one.cmp(other),
        _ => one.to_string().cmp(&other.to_string()),
    });
    Value::List(values)
}

/// Collections are alike but for how an entry is added and in which order they are shown.
macro_rules! collections {
    ($($type:ty, [$($generics:tt)*], read as $read:ty, $kind:ident of $entries:ident, $add:expr, $order:path;)+) => {$(
        impl<$($generics)*> Leaf for $type {
            type Read<'a> = &'a $read;

            fn read(&self) -> &$read {
                self
            }

            fn expected() -> String {
                $kind::expected(&T::expected())
            }

            fn from_text(text: &str) -> Option<Self> {
                $kind::taken($kind::of_text(T::TYPE, text), $add)
            }

            fn from_value(value: &Value) -> Option<Self> {
                $kind::taken($kind::of_value(T::TYPE, value), $add)
            }

            fn faults(value: &Value) -> Vec<Fault> {
                $kind::faults(T::TYPE, value)
            }

            fn is_valid(&self) -> bool {
                self.$entries().all(T::is_valid)
            }

            fn to_value(&self) -> Value {
                $order($kind::shown(self.iter(), T::to_value))
            }

            fn to_raw_value(&self) -> Value {
                $order($kind::shown(self.iter(), T::to_raw_value))
            }

            const SECRET: bool = T::SECRET;

            fn shape() -> Shape {
                $kind::shape(T::shape())
            }

            fn samples() -> Vec<String> {
                $kind::samples(T::TYPE)
            }
        }
    )+};
}

// Text is split at commas; an entry that holds a comma itself needs a file. Sets are lists, as far as sources can tell:
// an entry given twice is there once. Maps are `key=value` pairs.
collections! {
    Vec<T>, [T: Leaf], read as [T], list of iter, Self::push, identity;
    BTreeSet<T>, [T: Leaf + Ord], read as Self, list of iter, |set: &mut Self, entry| {
        set.insert(entry);
    }, identity;
    HashSet<T, H>, [T: Leaf + Eq + Hash, H: BuildHasher + Default + Clone + Send + Sync + 'static], read as Self,
        list of iter, |set: &mut Self, entry| {
        set.insert(entry);
    }, in_order;
    BTreeMap<String, T>, [T: Leaf], read as Self, pairs of values, |map: &mut Self, (key, value)| {
        map.insert(key, value);
    }, identity;
    HashMap<String, T, H>, [T: Leaf, H: BuildHasher + Default + Clone + Send + Sync + 'static], read as Self,
        pairs of values, |map: &mut Self, (key, value)| {
            map.insert(key, value);
        }, identity;
}
