//! Amounts with a unit: durations and byte sizes.

use std::fmt;
use std::time::Duration;

use super::{Leaf, Shape};
use crate::value::Value;

/// Splits `1.5GiB` into its number and its unit.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..split].trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number, &text[split..]))
}

/// The length of a unit of time, in seconds.
fn seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    })
}

impl Leaf for Duration {
    super::compiled_here!(Duration);
    super::copied!("a duration such as `250ms`, `1.5s`, `1m30s` or `2h`");

    fn from_text(text: &str) -> Option<Self> {
        let (mut rest, mut longer, mut sum) = (text, f64::INFINITY, Self::ZERO);
        // `1m30s`: parts from long to short, so that none is there twice.
        while !rest.is_empty() {
            let (number, after) = number_and_unit(rest)?;
            let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let (unit, tail) = after.split_at(end);
            let length = seconds(unit).filter(|length| *length < longer)?;
            sum = sum.checked_add(Self::try_from_secs_f64(number * length).ok()?)?;
            (rest, longer) = (tail, length);
        }
        (!text.is_empty()).then_some(sum)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        let nanos = self.as_nanos();
        Value::Text(match nanos {
            0 => "0s".to_owned(),
            _ if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
            _ if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
            _ if nanos.is_multiple_of(1_000) => format!("{}us", nanos / 1_000),
            _ => format!("{nanos}ns"),
        })
    }

    fn shape() -> Shape {
        let pattern = r"^(\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ns|us|ms|s|m|h|d))+$";
        Shape::Text { what: "duration", pattern: Some(pattern) }
    }

    fn samples() -> Vec<String> {
        super::texts(&["0s", "1ms", "250ms", "60s"])
    }
}

/// A number of bytes, written `4096`, `64KiB`, `512MiB`, `1.5GiB` or with decimal units `KB`, `MB`, `GB`, `TB`.
///
/// ```
/// use kitbag::{ByteSize, Leaf};
/// assert_eq!(ByteSize::from_text("1.5GiB"), Some(ByteSize(1_610_612_736)));
/// assert_eq!(ByteSize(64 << 10).to_string(), "64KiB");
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ByteSize(
    /// Bytes.
    pub u64,
);

impl ByteSize {
    const UNITS: [(&'static str, u64); 9] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("KB", 1_000),
        ("B", 1),
    ];
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |(_, size): &&(&str, u64)| self.0 >= *size && self.0.is_multiple_of(*size);
        match Self::UNITS[..4].iter().find(exact) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Leaf for ByteSize {
    super::compiled_here!(ByteSize);
    super::copied!("a size such as `4096`, `512MiB` or `1.5GiB`");

    fn from_text(text: &str) -> Option<Self> {
        if let Ok(bytes) = text.parse() {
            return Some(Self(bytes));
        }
        let (number, unit) = number_and_unit(text)?;
        let (_, size) = Self::UNITS.iter().find(|(name, _)| *name == unit)?;
        let bytes = number * *size as f64;
        (bytes < u64::MAX as f64).then_some(Self(bytes as u64))
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok().map(Self),
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn shape() -> Shape {
        let bytes = Shape::Integer { min: 0, max: i128::from(u64::MAX) };
        let pattern = r"^(\+?[0-9]+|\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)\s*([KMGT]i?)?B)$";
        Shape::AnyOf(vec![bytes, Shape::Text { what: "size", pattern: Some(pattern) }])
    }

    fn samples() -> Vec<String> {
        super::texts(&["0", "1", "4096", "3MiB"])
    }
}
