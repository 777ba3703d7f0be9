//! Enums as settings.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use super::leaf_type::Choices;
use super::{AnyLeaf, Erased, Leaf, LeafType};
use crate::value::Value;

/// An enum whose variants are the choices of a setting. Write `#[derive(ConfigChoice)]`.
///
/// Spellings are the variants' names in kebab case:
///
/// ```
/// use kitbag::{Choice, ConfigChoice, Leaf};
///
/// #[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
/// enum Device {
///     Cpu,
///     CudaGraph,
/// }
/// assert_eq!(Device::NAMES, ["cpu", "cuda-graph"]);
/// assert_eq!(Device::from_text("cuda-graph"), Some(Device::CudaGraph));
/// assert_eq!(Device::Cpu.name(), "cpu");
/// ```
// The advice of `Leaf`: every enum that is a `Choice` is one, so the compiler asks for this where that is missing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the type of a setting",
    label = "not a `kitbag::Leaf`",
    note = "use a scalar, `String`, `PathBuf`, `Duration`, `ByteSize`, an address, or `Option`, `Vec`, a set, a map with `String` keys of these",
    note = "for a type of your own write `kitbag::Serde<..>` around it; it needs serde's `Serialize` and `Deserialize`, `Clone`, `Debug` and `PartialEq`",
    note = "for an enum write `#[derive(Clone, Copy, Debug, PartialEq, kitbag::ConfigChoice)]` on it"
)]
pub trait Choice: Copy + PartialEq + fmt::Debug + Send + Sync + Sized + 'static {
    /// The spellings, in order of declaration.
    const NAMES: &'static [&'static str];
    /// The variants, in the same order.
    const VARIANTS: &'static [Self];
    #[doc(hidden)]
    const OPTIONAL_VARIANTS: &'static [Option<Self>];

    /// This variant's position in both lists.
    fn position(self) -> usize;

    /// This variant's spelling.
    fn name(self) -> &'static str {
        Self::NAMES[self.position()]
    }
}

impl<T: Choice> Leaf for T {
    type Read<'a> = Self;

    const TYPE: &'static LeafType = &LeafType::choice::<T>(T::NAMES, false);
    const OPTIONAL: &'static LeafType = &LeafType::choice::<T>(T::NAMES, true);

    #[inline]
    fn read(&self) -> Self {
        *self
    }

    fn expected() -> String {
        expected(T::NAMES)
    }

    fn from_text(text: &str) -> Option<Self> {
        let position = T::NAMES.iter().position(|name| *name == text)?;
        Some(T::VARIANTS[position])
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.name().to_owned())
    }

    fn choices() -> Option<&'static [&'static str]> {
        Some(T::NAMES)
    }

    fn erase(value: Self) -> Erased {
        choices::<T>().value(value.position())
    }

    fn reveal(value: &dyn AnyLeaf) -> Option<&Self> {
        match choices::<T>().position(value) {
            Some(position) => T::VARIANTS.get(position),
            None => None,
        }
    }

    fn take(values: &[Erased], index: usize) -> Self {
        T::VARIANTS[taken(T::TYPE, values, index)]
    }

    fn take_optional(values: &[Erased], index: usize) -> Option<Self> {
        T::OPTIONAL_VARIANTS[taken(T::OPTIONAL, values, index)]
    }

    fn erase_optional(value: Option<Self>) -> Erased {
        choices::<T>().optional_value(value.map(T::position))
    }

    fn reveal_optional(value: &dyn AnyLeaf) -> Option<&Option<Self>> {
        match choices::<T>().optional_position(value) {
            Some(position) => T::OPTIONAL_VARIANTS.get(position),
            None => None,
        }
    }
}

const fn choices<T: Choice>() -> Choices {
    Choices { id: TypeId::of::<T>(), names: T::NAMES }
}

/// Where in the variants of its type a leaf's value stands. Not generic, so that a schema's crate does not compile it.
fn taken(ty: &LeafType, values: &[Erased], index: usize) -> usize {
    let value = &values[index];
    match ty.position(&**value) {
        Some(position) => position,
        None => super::mistaken(value, &ty.expected()),
    }
}

pub(super) fn expected(names: &[&str]) -> String {
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() == 1 { list } else { format!("one of {list}") }
}

impl Choices {
    /// The variant at this position.
    pub(super) fn value(self, position: usize) -> Erased {
        Arc::new(Chosen { choices: self, position })
    }

    /// The variant at this position, or unset.
    pub(super) fn optional_value(self, position: Option<usize>) -> Erased {
        Arc::new(ChosenOrUnset { choices: self, position })
    }

    /// Where in [`Choice::VARIANTS`] the value stands, if it is one of this enum.
    pub(super) fn position(self, value: &dyn AnyLeaf) -> Option<usize> {
        let chosen: &Chosen = (value as &dyn Any).downcast_ref()?;
        (chosen.choices.id == self.id).then_some(chosen.position)
    }

    /// Where in [`Choice::OPTIONAL_VARIANTS`] the value stands; unset is the first.
    pub(super) fn optional_position(self, value: &dyn AnyLeaf) -> Option<usize> {
        let chosen: &ChosenOrUnset = (value as &dyn Any).downcast_ref()?;
        (chosen.choices.id == self.id).then(|| chosen.position.map_or(0, |position| position + 1))
    }

    fn spelling(self, position: usize) -> Value {
        Value::Text(self.names[position].to_owned())
    }
}

/// A variant of some enum. One type for all, so that a schema's crate compiles nothing for the values of its enums.
struct Chosen {
    choices: Choices,
    position: usize,
}

/// A variant of some enum, or none.
struct ChosenOrUnset {
    choices: Choices,
    position: Option<usize>,
}

impl AnyLeaf for Chosen {
    fn to_value(&self) -> Value {
        self.choices.spelling(self.position)
    }

    fn to_raw_value(&self) -> Value {
        self.to_value()
    }

    fn is_valid(&self) -> bool {
        true
    }

    fn same(&self, other: &dyn AnyLeaf) -> bool {
        self.choices.position(other) == Some(self.position)
    }
}

impl AnyLeaf for ChosenOrUnset {
    fn to_value(&self) -> Value {
        self.position.map_or(Value::Unset, |position| self.choices.spelling(position))
    }

    fn to_raw_value(&self) -> Value {
        self.to_value()
    }

    fn is_valid(&self) -> bool {
        true
    }

    fn same(&self, other: &dyn AnyLeaf) -> bool {
        self.choices.optional_position(other) == Some(self.position.map_or(0, |position| position + 1))
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.choices.names[self.position])
    }
}

impl fmt::Debug for ChosenOrUnset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => f.write_str(self.choices.names[position]),
            None => f.write_str("unset"),
        }
    }
}
