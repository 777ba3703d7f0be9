//! What a leaf's value looks like in a file, for the documents that are generated from a schema.

use std::fmt;

/// The form of a leaf's value in a file.
///
/// JSON Schema, reference and shell completion are made from it; values are read by [`Leaf`](crate::Leaf) alone. So a
/// shape may accept more than the type does, never less.
///
/// ```
/// use kitbag::export::Shape;
/// use kitbag::{ByteSize, Leaf};
///
/// assert_eq!(u8::shape(), Shape::Integer { min: 0, max: 255 });
/// assert_eq!(Vec::<bool>::shape(), Shape::List(Box::new(Shape::Bool)));
/// assert_eq!(Option::<ByteSize>::shape().to_string(), "integer or size, or unset");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Shape {
    /// Only the type knows. What a leaf has that does not say its shape.
    Any,
    /// `true` or `false`.
    Bool,
    /// An integer of a type with these limits.
    Integer {
        /// The least value of the type.
        min: i128,
        /// The greatest.
        max: i128,
    },
    /// A finite number, with or without a fraction.
    Number,
    /// Text.
    Text {
        /// What the text stands for, in a word: `text`, `path`, `duration`.
        what: &'static str,
        /// A regular expression that matches all accepted text, in the syntax that ECMA-262 and Rust share.
        pattern: Option<&'static str>,
    },
    /// One of these spellings.
    Choice(&'static [&'static str]),
    /// Any of several forms.
    AnyOf(Vec<Self>),
    /// The form, or nothing: empty text, and `null` where the format has one.
    Optional(Box<Self>),
    /// A list of values of this form.
    List(Box<Self>),
    /// Text keys with values of this form.
    Map(Box<Self>),
}

/// In the words of somebody who writes a file.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("value"),
            Self::Bool => f.write_str("boolean"),
            Self::Integer { .. } => f.write_str("integer"),
            Self::Number => f.write_str("number"),
            Self::Text { what, .. } => f.write_str(what),
            Self::Choice(_) => f.write_str("choice"),
            Self::AnyOf(shapes) => {
                for (index, shape) in shapes.iter().enumerate() {
                    write!(f, "{}{shape}", if index > 0 { " or " } else { "" })?;
                }
                Ok(())
            }
            Self::Optional(shape) => write!(f, "{shape}, or unset"),
            Self::List(shape) => write!(f, "list ({shape})"),
            Self::Map(shape) => write!(f, "table ({shape})"),
        }
    }
}
