//! Which types may be settings, and how each is read from text and files.

mod by_serde;
mod choice;
mod collections;
mod fault;
mod integers;
mod leaf_type;
mod scalars;
mod secret;
mod shape;
mod units;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub use by_serde::Serde;
pub use choice::Choice;
pub use fault::Fault;
pub(crate) use fault::Step;
pub use leaf_type::LeafType;
pub use secret::Secret;
pub use shape::Shape;
pub use units::ByteSize;

use collections::or_none;

use crate::value::Value;

/// A type whose values may be settings.
///
/// Implemented here for booleans, integers of all widths and their `NonZero` forms, floats, [`String`], `char`,
/// [`PathBuf`](std::path::PathBuf), socket and IP addresses, [`Duration`](std::time::Duration), [`ByteSize`], and
/// `Option`, `Vec`, sets, and maps with text keys of these. Enums get it from `#[derive(ConfigChoice)]`, and
/// [`Serde`](crate::Serde) brings any type with serde. A new type needs the four conversions:
///
/// ```
/// use kitbag::{Leaf, Value};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Percent(u8);
///
/// impl Leaf for Percent {
///     type Read<'a> = &'a Percent;
///     fn read(&self) -> &Percent {
///         self
///     }
///     fn expected() -> String {
///         "a percentage such as `40%`".to_owned()
///     }
///     fn from_text(text: &str) -> Option<Self> {
///         text.strip_suffix('%')?.parse().ok().filter(|p| *p <= 100).map(Percent)
///     }
///     fn from_value(value: &Value) -> Option<Self> {
///         match value {
///             Value::Text(text) => Self::from_text(text),
///             _ => None,
///         }
///     }
///     fn to_value(&self) -> Value {
///         Value::Text(format!("{}%", self.0))
///     }
/// }
/// assert_eq!(Percent::from_text("40%"), Some(Percent(40)));
/// assert_eq!(Percent::from_text("400%"), None);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the type of a setting",
    label = "not a `kitbag::Leaf`",
    note = "use a scalar, `String`, `PathBuf`, `Duration`, `ByteSize`, an address, or `Option`, `Vec`, a set, a map with `String` keys of these",
    note = "for a type of your own write `kitbag::Serde<..>` around it; it needs serde's `Serialize` and `Deserialize`, `Clone`, `Debug` and `PartialEq`",
    note = "for an enum write `#[derive(Clone, Copy, Debug, PartialEq, kitbag::ConfigChoice)]` on it"
)]
pub trait Leaf: Clone + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// What a generated accessor returns: the value itself for `Copy` types, a borrow otherwise.
    type Read<'a>;

    /// This value as accessors and rule functions see it.
    fn read(&self) -> Self::Read<'_>;

    /// What is accepted, after "expected": `an integer`, `one of …`.
    fn expected() -> String;

    /// From an environment variable or a flag's value.
    fn from_text(text: &str) -> Option<Self>;

    /// From a file's value.
    fn from_value(value: &Value) -> Option<Self>;

    /// For dumps and messages.
    fn to_value(&self) -> Value;

    /// For a child process: a secret's value itself, otherwise the same as [`to_value`](Self::to_value).
    fn to_raw_value(&self) -> Value {
        self.to_value()
    }

    /// No output may show its values.
    const SECRET: bool = false;

    /// Whether a value made by the program is one that sources could give: a float must be finite.
    #[must_use]
    fn is_valid(&self) -> bool {
        true
    }

    /// What is wrong inside a value that was refused, for messages: a list names the entries at fault. What a variable or
    /// flag gave is asked about as [`Value::Text`].
    ///
    /// None: the value as a whole is not what was [expected](Self::expected).
    #[must_use]
    fn faults(_: &Value) -> Vec<Fault> {
        Vec::new()
    }

    /// The value of a leaf that has no `default` and that nobody set; `None`: the leaf is required.
    #[must_use]
    fn when_absent() -> Option<Self> {
        None
    }

    /// The closed set of spellings, if there is one.
    #[must_use]
    fn choices() -> Option<&'static [&'static str]> {
        None
    }

    /// A boolean may be given as a flag without a value.
    #[must_use]
    fn is_switch() -> bool {
        false
    }

    /// What the value looks like in a file, for generated documents.
    ///
    /// Unless said otherwise: a choice if there are [`choices`](Self::choices), a boolean if this
    /// [is a switch](Self::is_switch), else [any value](Shape::Any).
    #[must_use]
    fn shape() -> Shape {
        match Self::choices() {
            Some(names) => Shape::Choice(names),
            None if Self::is_switch() => Shape::Bool,
            None => Shape::Any,
        }
    }

    /// Values worth trying in the emitted equivalence tests, written as in a flag; those out of range are left out.
    #[must_use]
    fn samples() -> Vec<String> {
        texts(Self::choices().unwrap_or_default())
    }

    // What follows is how values are kept without their type. Types of this crate say it for themselves, so that it is
    // compiled here once, and not in every crate with a schema.

    #[doc(hidden)]
    const TYPE: &'static LeafType = &LeafType::of::<Self>();

    #[doc(hidden)]
    const OPTIONAL: &'static LeafType = &LeafType::of::<Option<Self>>();

    #[doc(hidden)]
    #[must_use]
    fn erase(value: Self) -> Erased {
        Arc::new(value)
    }

    #[doc(hidden)]
    #[must_use]
    fn reveal(value: &dyn AnyLeaf) -> Option<&Self> {
        (value as &dyn Any).downcast_ref()
    }

    #[doc(hidden)]
    #[must_use]
    fn take(values: &[Erased], index: usize) -> Self {
        reveal::<Self>(&values[index]).clone()
    }

    #[doc(hidden)]
    #[must_use]
    fn erase_optional(value: Option<Self>) -> Erased {
        Arc::new(value)
    }

    #[doc(hidden)]
    #[must_use]
    fn reveal_optional(value: &dyn AnyLeaf) -> Option<&Option<Self>> {
        (value as &dyn Any).downcast_ref()
    }

    #[doc(hidden)]
    #[must_use]
    fn take_optional(values: &[Erased], index: usize) -> Option<Self> {
        reveal::<Option<Self>>(&values[index]).clone()
    }
}

/// Written into the implementation of [`Leaf`] for a type of this crate: what is not generic is compiled here.
macro_rules! compiled_here {
    ($type:ty) => {
        const TYPE: &'static $crate::leaf::LeafType = {
            static TYPE: $crate::leaf::LeafType = $crate::leaf::LeafType::of::<$type>();
            &TYPE
        };

        const OPTIONAL: &'static $crate::leaf::LeafType = {
            static OPTIONAL: $crate::leaf::LeafType = $crate::leaf::LeafType::of::<Option<$type>>();
            &OPTIONAL
        };

        fn erase(value: Self) -> $crate::leaf::Erased {
            std::sync::Arc::new(value)
        }

        fn reveal(value: &dyn $crate::leaf::AnyLeaf) -> Option<&Self> {
            (value as &dyn std::any::Any).downcast_ref()
        }

        fn take(values: &[$crate::leaf::Erased], index: usize) -> Self {
            $crate::leaf::reveal::<Self>(&values[index]).clone()
        }

        fn erase_optional(value: Option<Self>) -> $crate::leaf::Erased {
            std::sync::Arc::new(value)
        }

        fn reveal_optional(value: &dyn $crate::leaf::AnyLeaf) -> Option<&Option<Self>> {
            (value as &dyn std::any::Any).downcast_ref()
        }

        fn take_optional(values: &[$crate::leaf::Erased], index: usize) -> Option<Self> {
            $crate::leaf::reveal::<Option<Self>>(&values[index]).clone()
        }
    };
}
use compiled_here;

/// The same for a type whose values are copied: how it is read, and what is expected.
macro_rules! copied {
    ($expected:expr) => {
        type Read<'a> = Self;

        fn read(&self) -> Self {
            *self
        }

        fn expected() -> String {
            $expected.to_owned()
        }
    };
}
use copied;

/// A leaf's value whose type is known only to its leaf.
pub trait AnyLeaf: Any + fmt::Debug + Send + Sync {
    /// For dumps and messages.
    fn to_value(&self) -> Value;
    /// For a child process.
    fn to_raw_value(&self) -> Value;
    /// Whether sources could give it.
    fn is_valid(&self) -> bool;
    /// Equal in type and value.
    fn same(&self, other: &dyn AnyLeaf) -> bool;
}

impl<T: Leaf> AnyLeaf for T {
    fn to_value(&self) -> Value {
        Leaf::to_value(self)
    }

    fn to_raw_value(&self) -> Value {
        Leaf::to_raw_value(self)
    }

    fn is_valid(&self) -> bool {
        Leaf::is_valid(self)
    }

    fn same(&self, other: &dyn AnyLeaf) -> bool {
        (other as &dyn Any).downcast_ref::<T>() == Some(self)
    }
}

/// A shared value of any leaf type.
pub type Erased = Arc<dyn AnyLeaf>;

/// Hides the type of a leaf's value.
pub fn erase<T: Leaf>(value: T) -> Erased {
    T::erase(value)
}

/// The typed value behind `erased`.
///
/// # Panics
/// If the type is another one. Tables, keys and bags come from one declaration, so that would be a fault of the
/// derive, not of its user.
#[must_use]
pub fn reveal<T: Leaf>(erased: &Erased) -> &T {
    match T::reveal(&**erased) {
        Some(value) => value,
        None => mistaken(erased, std::any::type_name::<T>()),
    }
}

/// Not generic, so that a schema's crate does not compile it for every type.
#[cold]
fn mistaken(erased: &Erased, expected: &str) -> ! {
    panic!("fault in kitbag: a leaf of type {expected} holds {erased:?}")
}

/// Texts that are samples.
pub(crate) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
