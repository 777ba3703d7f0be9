//! From a file's value to a type, through serde. A fault knows where in the value it is.

use std::collections::btree_map;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::suggest::did_you_mean;
use crate::value::Value;

pub(super) fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Fault> {
    T::deserialize(Reader { value, fields: &[] })
}

/// What is said of a key that the type does not know.
const NO_SUCH_FIELD: &str = "no such field";

/// A fault as serde hands it on.
#[derive(Debug)]
pub(super) struct Fault(super::Fault);

impl Fault {
    fn in_entry(self, index: usize) -> Self {
        Self(self.0.in_entry(index))
    }

    fn in_key(self, key: &str) -> Self {
        Self(self.0.in_key(key))
    }
}

impl From<Fault> for super::Fault {
    fn from(Fault(fault): Fault) -> Self {
        fault
    }
}

impl Error for Fault {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self(super::Fault::new(problem.to_string()))
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text())
    }
}

/// Reads one value.
struct Reader<'a> {
    value: &'a Value,
    /// Fields of the struct that the value is in, for hints.
    fields: &'static [&'static str],
}

impl Reader<'_> {
    fn fields(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value {
            Value::Unset => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (_, Ok(value)) => visitor.visit_u64(value),
                (Ok(value), _) => visitor.visit_i64(value),
                _ => visitor.visit_i128(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(values) => {
                let mut entries = Entries { values: values.iter().enumerate() };
                let list = visitor.visit_seq(&mut entries)?;
                match entries.values.next() {
                    None => Ok(list),
                    Some((length, _)) => {
                        Err(Fault::custom(format!("only {length} entries are expected, found {}", values.len())))
                    }
                }
            }
            Value::Table(entries) => {
                visitor.visit_map(Pairs { entries: entries.iter(), value: None, fields: self.fields })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value {
            Value::Unset => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.fields(fields).deserialize_any(visitor)
    }

    /// Integers beyond 64 bits may be text.
    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value {
            Value::Text(text) if let Ok(value) = text.parse() => visitor.visit_u128(value),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value {
            Value::Text(text) if let Ok(value) = text.parse() => visitor.visit_i128(value),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.value {
            Value::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Table(entries) if entries.len() == 1 => match entries.iter().next() {
                Some((name, value)) => visitor.visit_enum(Tagged { name, value }),
                None => visitor.visit_unit(),
            },
            other => Err(Fault::custom(format!(
                "expected the name of a variant, or a table with one as its only key, found {}",
                other.describe()
            ))),
        }
    }

    /// A key that the type does not know: it would be dropped.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault::custom(NO_SUCH_FIELD))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

/// The entries of a list.
struct Entries<'a> {
    values: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
}

impl<'de> SeqAccess<'de> for &mut Entries<'_> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some((index, value)) = self.values.next() else { return Ok(None) };
        let read = seed.deserialize(Reader { value, fields: &[] });
        read.map(Some).map_err(|fault| fault.in_entry(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

/// The entries of a table.
struct Pairs<'a> {
    entries: btree_map::Iter<'a, String, Value>,
    value: Option<(&'a str, &'a Value)>,
    fields: &'static [&'static str],
}

impl<'de> MapAccess<'de> for Pairs<'_> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(Key(key)).map(Some).map_err(|fault| self.at_key(fault))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let Some((_, value)) = self.value else { return Err(Fault::custom("a value without its key")) };
        seed.deserialize(Reader { value, fields: &[] }).map_err(|fault| self.at_key(fault))
    }
}

impl Pairs<'_> {
    fn at_key(&self, mut fault: Fault) -> Fault {
        let Some((key, _)) = self.value else { return fault };
        if fault.0.is_here() && fault.0.problem() == NO_SUCH_FIELD {
            let hint = did_you_mean(key, self.fields.iter().copied());
            fault.0.append(&hint.map(|hint| format!("; {hint}")).unwrap_or_default());
        }
        fault.in_key(key)
    }
}

/// A key of a table, which is text; a map's keys may be numbers.
struct Key<'a>(&'a str);

macro_rules! parsed_keys {
    ($($method:ident => $visit:ident),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.0.parse() {
                Ok(key) => visitor.$visit(key),
                Err(_) => Err(Fault::invalid_type(Unexpected::Str(self.0), &visitor)),
            }
        }
    )+};
}

impl<'de> Deserializer<'de> for Key<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.0)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    parsed_keys! {
        deserialize_bool => visit_bool,
        deserialize_i8 => visit_i8,
        deserialize_i16 => visit_i16,
        deserialize_i32 => visit_i32,
        deserialize_i64 => visit_i64,
        deserialize_i128 => visit_i128,
        deserialize_u8 => visit_u8,
        deserialize_u16 => visit_u16,
        deserialize_u32 => visit_u32,
        deserialize_u64 => visit_u64,
        deserialize_u128 => visit_u128,
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

/// A variant with data: `{ name = data }`.
struct Tagged<'a> {
    name: &'a str,
    value: &'a Value,
}

impl<'a, 'de> EnumAccess<'de> for Tagged<'a> {
    type Error = Fault;
    type Variant = Variant<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Variant<'a>), Fault> {
        let variant = seed.deserialize(Key(self.name))?;
        Ok((variant, Variant(self)))
    }
}

struct Variant<'a>(Tagged<'a>);

impl Variant<'_> {
    /// Reads the data; a fault is inside the variant.
    fn data<V>(&self, read: impl FnOnce(Reader<'_>) -> Result<V, Fault>) -> Result<V, Fault> {
        let Tagged { name, value } = self.0;
        read(Reader { value, fields: &[] }).map_err(|fault| fault.in_key(name))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        self.data(|reader| match reader.value {
            Value::Unset => Ok(()),
            other => Err(Fault::custom(format!("this variant has no data, found {}", other.describe()))),
        })
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        self.data(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.data(|reader| reader.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.data(|reader| reader.fields(fields).deserialize_any(visitor))
    }
}
