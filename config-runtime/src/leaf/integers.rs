//! Integers as leaves: all widths, and those that are never zero.

use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8, NonZeroU16, NonZeroU32,
    NonZeroU64, NonZeroU128, NonZeroUsize,
};
use std::str::FromStr;

use super::{Leaf, Shape};
use crate::value::Value;

/// Values worth trying in the emitted tests.
const SAMPLES: [&str; 9] = ["0", "1", "2", "3", "5", "16", "50", "64", "100"];

/// `1_000_000` reads as in Rust and TOML.
fn parse<T: FromStr>(text: &str) -> Option<T> {
    if text.starts_with('_') || text.ends_with('_') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

macro_rules! integers {
    ($($type:ty: $expected:literal),+ $(,)?) => {$(
        impl Leaf for $type {
            super::compiled_here!($type);
            super::copied!($expected);

            fn from_text(text: &str) -> Option<Self> {
                parse(text)
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(value) => Self::try_from(*value).ok(),
                    _ => None,
                }
            }

            fn to_value(&self) -> Value {
                // None of these is wider than 64 bits, so every value fits.
                Value::Integer(i128::try_from(*self).unwrap_or(i128::MAX))
            }

            fn shape() -> Shape {
                let limit = |end| i128::try_from(end).unwrap_or(i128::MAX);
                Shape::Integer { min: limit(Self::MIN), max: limit(Self::MAX) }
            }

            fn samples() -> Vec<String> {
                super::texts(&SAMPLES)
            }
        }
    )+};
}

integers! {
    u8: "an integer from 0 to 255",
    u16: "an integer from 0 to 65535",
    u32: "an integer from 0 to 4294967295",
    u64: "an integer, 0 or more",
    usize: "an integer, 0 or more",
    i8: "an integer from -128 to 127",
    i16: "an integer from -32768 to 32767",
    i32: "an integer of 32 bits",
    i64: "an integer",
    isize: "an integer",
}

/// Integers that not every format can write as such: JSON readers make floats of those beyond 64 bits. So a larger one
/// is text in dumps, and may be text in a file.
macro_rules! wide_integers {
    ($($type:ty: $expected:literal, $pattern:literal),+ $(,)?) => {$(
        impl Leaf for $type {
            super::copied!($expected);

            fn from_text(text: &str) -> Option<Self> {
                parse(text)
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(value) => Self::try_from(*value).ok(),
                    Value::Text(text) => Self::from_text(text),
                    _ => None,
                }
            }

            fn to_value(&self) -> Value {
                let small = i64::try_from(*self).map(i128::from).or_else(|_| u64::try_from(*self).map(i128::from));
                small.map_or_else(|_| Value::Text(self.to_string()), Value::Integer)
            }

            fn shape() -> Shape {
                let limit = |end| i128::try_from(end).unwrap_or(i128::MAX);
                let integer = Shape::Integer { min: limit(Self::MIN), max: limit(Self::MAX) };
                Shape::AnyOf(vec![integer, Shape::Text { what: "digits as text", pattern: Some($pattern) }])
            }

            fn samples() -> Vec<String> {
                super::texts(&SAMPLES)
            }
        }
    )+};
}

wide_integers! {
    u128: "an integer, 0 or more; as text if it has more than 64 bits", r"^(\+_*)?[0-9]([0-9_]*[0-9])?$",
    i128: "an integer; as text if it has more than 64 bits", r"^([+-]_*)?[0-9]([0-9_]*[0-9])?$",
}

macro_rules! non_zero_integers {
    ($($type:ty: $plain:ty, $expected:literal, $least:expr),+ $(,)?) => {$(
        impl Leaf for $type {
            super::copied!($expected);

            fn from_text(text: &str) -> Option<Self> {
                <$plain>::from_text(text).and_then(Self::new)
            }

            fn from_value(value: &Value) -> Option<Self> {
                <$plain>::from_value(value).and_then(Self::new)
            }

            fn to_value(&self) -> Value {
                self.get().to_value()
            }

            fn shape() -> Shape {
                // That zero itself is refused cannot be said of a signed one.
                from_least(<$plain>::shape(), $least)
            }

            fn samples() -> Vec<String> {
                super::texts(&SAMPLES[1..])
            }
        }
    )+};
}

/// The shape with another lower end.
fn from_least(shape: Shape, least: Option<i128>) -> Shape {
    match shape {
        Shape::Integer { min, max } => Shape::Integer { min: least.unwrap_or(min), max },
        Shape::AnyOf(shapes) => Shape::AnyOf(shapes.into_iter().map(|shape| from_least(shape, least)).collect()),
        shape => shape,
    }
}

non_zero_integers! {
    NonZeroU8: u8, "an integer from 1 to 255", Some(1),
    NonZeroU16: u16, "an integer from 1 to 65535", Some(1),
    NonZeroU32: u32, "an integer from 1 to 4294967295", Some(1),
    NonZeroU64: u64, "an integer, 1 or more", Some(1),
    NonZeroUsize: usize, "an integer, 1 or more", Some(1),
    NonZeroU128: u128, "an integer, 1 or more; as text if it has more than 64 bits", Some(1),
    NonZeroI8: i8, "an integer from -128 to 127, not 0", None,
    NonZeroI16: i16, "an integer from -32768 to 32767, not 0", None,
    NonZeroI32: i32, "an integer of 32 bits, not 0", None,
    NonZeroI64: i64, "an integer, not 0", None,
    NonZeroIsize: isize, "an integer, not 0", None,
    NonZeroI128: i128, "an integer, not 0; as text if it has more than 64 bits", None,
}
