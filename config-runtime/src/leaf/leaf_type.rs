//! A leaf's type as a value: what can be done with its values where the type itself is not known.

use std::any::TypeId;

use super::choice;
use super::{AnyLeaf, Erased, Fault, Leaf, Shape};
use crate::value::Value;

/// What can be done with the values of one leaf type.
///
/// Enums are data here, not functions, and the types of this crate are statics of it: a schema of hundreds of leaves
/// with a hundred enums compiles hardly any code for them.
pub struct LeafType(Kind);

enum Kind {
    /// The type's own functions.
    Functions(Functions),
    /// An enum, or an `Option` of one: `None` is then among the values.
    Choice { choices: Choices, optional: bool },
}

/// The enum's identity and spellings.
#[derive(Clone, Copy)]
pub(super) struct Choices {
    pub(super) id: TypeId,
    pub(super) names: &'static [&'static str],
}

struct Functions {
    expected: fn() -> String,
    from_text: fn(&str) -> Option<Erased>,
    from_value: fn(&Value) -> Option<Erased>,
    when_absent: fn() -> Option<Erased>,
    choices: fn() -> Option<&'static [&'static str]>,
    is_switch: fn() -> bool,
    shape: fn() -> Shape,
    samples: fn() -> Vec<String>,
    faults: fn(&Value) -> Vec<Fault>,
}

impl LeafType {
    /// A type with functions of its own.
    #[must_use]
    pub const fn of<T: Leaf>() -> Self {
        Self(Kind::Functions(Functions {
            expected: T::expected,
            from_text: from_text::<T>,
            from_value: from_value::<T>,
            when_absent: when_absent::<T>,
            choices: T::choices,
            is_switch: T::is_switch,
            shape: T::shape,
            samples: T::samples,
            faults: T::faults,
        }))
    }

    /// An enum with these spellings, or an `Option` of it.
    #[must_use]
    pub const fn choice<T: 'static>(names: &'static [&'static str], optional: bool) -> Self {
        Self(Kind::Choice { choices: Choices { id: TypeId::of::<T>(), names }, optional })
    }

    pub(crate) fn expected(&self) -> String {
        match &self.0 {
            Kind::Functions(functions) => (functions.expected)(),
            Kind::Choice { choices, optional: false } => choice::expected(choices.names),
            Kind::Choice { choices, optional: true } => super::or_none(&choice::expected(choices.names)),
        }
    }

    /// The value that a text from the environment or a flag stands for.
    #[must_use]
    pub fn parse_text(&self, text: &str) -> Option<Erased> {
        match &self.0 {
            Kind::Functions(functions) => (functions.from_text)(text),
            Kind::Choice { choices, optional: true } if text.is_empty() => Some(choices.optional_value(None)),
            Kind::Choice { choices, optional } => {
                let position = choices.names.iter().position(|name| *name == text)?;
                Some(if *optional { choices.optional_value(Some(position)) } else { choices.value(position) })
            }
        }
    }

    /// The value that a file's value stands for.
    pub(crate) fn parse_value(&self, value: &Value) -> Option<Erased> {
        match (&self.0, value) {
            (Kind::Functions(functions), _) => (functions.from_value)(value),
            (Kind::Choice { .. }, Value::Text(text)) => self.parse_text(text),
            (Kind::Choice { choices, optional: true }, Value::Unset) => Some(choices.optional_value(None)),
            (Kind::Choice { .. }, _) => None,
        }
    }

    /// The value of a leaf that has no default and that nobody set; `None`: the leaf is required.
    pub(crate) fn when_absent(&self) -> Option<Erased> {
        match &self.0 {
            Kind::Functions(functions) => (functions.when_absent)(),
            Kind::Choice { choices, optional } => optional.then(|| choices.optional_value(None)),
        }
    }

    /// The closed set of spellings, if there is one.
    #[must_use]
    pub fn choices(&self) -> Option<&'static [&'static str]> {
        match &self.0 {
            Kind::Functions(functions) => (functions.choices)(),
            Kind::Choice { choices, .. } => Some(choices.names),
        }
    }

    /// Where in its enum's list of variants the value stands.
    pub(super) fn position(&self, value: &dyn AnyLeaf) -> Option<usize> {
        match &self.0 {
            Kind::Functions(_) => None,
            Kind::Choice { choices, optional: false } => choices.position(value),
            Kind::Choice { choices, optional: true } => choices.optional_position(value),
        }
    }

    pub(crate) fn is_switch(&self) -> bool {
        match &self.0 {
            Kind::Functions(functions) => (functions.is_switch)(),
            Kind::Choice { .. } => false,
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match &self.0 {
            Kind::Functions(functions) => (functions.shape)(),
            Kind::Choice { choices, optional: false } => Shape::Choice(choices.names),
            Kind::Choice { choices, optional: true } => Shape::Optional(Box::new(Shape::Choice(choices.names))),
        }
    }

    pub(crate) fn samples(&self) -> Vec<String> {
        match &self.0 {
            Kind::Functions(functions) => (functions.samples)(),
            Kind::Choice { choices, optional } => {
                let unset = optional.then(String::new);
                unset.into_iter().chain(super::texts(choices.names)).collect()
            }
        }
    }

    /// What is wrong inside a file's value that was refused.
    pub(crate) fn faults(&self, value: &Value) -> Vec<Fault> {
        match &self.0 {
            Kind::Functions(functions) => (functions.faults)(value),
            Kind::Choice { .. } => Vec::new(),
        }
    }
}

// Functions by name, not closures, and no combinators: each would be compiled once more for every type of a schema.

fn from_text<T: Leaf>(text: &str) -> Option<Erased> {
    erased(T::from_text(text))
}

fn from_value<T: Leaf>(value: &Value) -> Option<Erased> {
    erased(T::from_value(value))
}

fn when_absent<T: Leaf>() -> Option<Erased> {
    erased(T::when_absent())
}

fn erased<T: Leaf>(value: Option<T>) -> Option<Erased> {
    match value {
        Some(value) => Some(T::erase(value)),
        None => None,
    }
}
