//! From a type to a value, through serde.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{
    Error, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
    SerializeTupleVariant,
};
use serde::{Serialize, Serializer};

use crate::leaf::Leaf;
use crate::value::Value;

pub(super) fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, Fault> {
    value.serialize(Writer)
}

/// Why a value cannot be written: its type says so, or a key of a map is not text.
#[derive(Debug)]
pub(super) struct Fault(String);

impl Error for Fault {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self(problem.to_string())
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of a table.
fn to_key<T: Serialize + ?Sized>(key: &T) -> Result<String, Fault> {
    match to_value(key)? {
        Value::Text(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        other => Err(Fault(format!("{} cannot be a key", other.describe()))),
    }
}

/// A variant with data: `{ name = data }`.
fn tagged(variant: &'static str, data: Value) -> Value {
    Value::Table([(variant.to_owned(), data)].into())
}

struct Writer;

macro_rules! as_leaf {
    ($($method:ident: $type:ty),+ $(,)?) => {$(
        fn $method(self, value: $type) -> Result<Value, Fault> {
            Ok(value.to_value())
        }
    )+};
}

impl Serializer for Writer {
    type Ok = Value;
    type Error = Fault;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    type SerializeMap = Table;
    type SerializeStruct = Table;
    type SerializeStructVariant = Table;

    as_leaf! {
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_u128: u128,
        serialize_f32: f32,
        serialize_f64: f64,
        serialize_char: char,
    }

    fn serialize_str(self, text: &str) -> Result<Value, Fault> {
        Ok(Value::Text(text.to_owned()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value, Fault> {
        Ok(Value::List(bytes.iter().map(Leaf::to_value).collect()))
    }

    fn serialize_none(self) -> Result<Value, Fault> {
        Ok(Value::Unset)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Fault> {
        to_value(value)
    }

    fn serialize_unit(self) -> Result<Value, Fault> {
        Ok(Value::Unset)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Value, Fault> {
        Ok(Value::Unset)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, Fault> {
        Ok(Value::Text(variant.to_owned()))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Value, Fault> {
        to_value(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Fault> {
        Ok(tagged(variant, to_value(value)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List, Fault> {
        Ok(List::default())
    }

    fn serialize_tuple(self, _: usize) -> Result<List, Fault> {
        Ok(List::default())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List, Fault> {
        Ok(List::default())
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<List, Fault> {
        Ok(List { variant: Some(variant), ..List::default() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Table, Fault> {
        Ok(Table::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Table, Fault> {
        Ok(Table::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Table, Fault> {
        Ok(Table { variant: Some(variant), ..Table::default() })
    }
}

/// A list on the way.
#[derive(Default)]
struct List {
    variant: Option<&'static str>,
    values: Vec<Value>,
}

impl List {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.values.push(to_value(value)?);
        Ok(())
    }

    fn finish(self) -> Value {
        let list = Value::List(self.values);
        match self.variant {
            Some(variant) => tagged(variant, list),
            None => list,
        }
    }
}

macro_rules! lists {
    ($($trait:ident::$method:ident),+ $(,)?) => {$(
        impl $trait for List {
            type Ok = Value;
            type Error = Fault;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
                self.push(value)
            }

            fn end(self) -> Result<Value, Fault> {
                Ok(self.finish())
            }
        }
    )+};
}

lists! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

/// A table on the way.
#[derive(Default)]
struct Table {
    variant: Option<&'static str>,
    entries: BTreeMap<String, Value>,
    key: Option<String>,
}

impl Table {
    fn finish(self) -> Value {
        let table = Value::Table(self.entries);
        match self.variant {
            Some(variant) => tagged(variant, table),
            None => table,
        }
    }
}

impl SerializeMap for Table {
    type Ok = Value;
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        self.key = Some(to_key(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        let key = self.key.take().ok_or_else(|| Fault("a value without its key".to_owned()))?;
        self.entries.insert(key, to_value(value)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Fault> {
        Ok(self.finish())
    }
}

macro_rules! structs {
    ($($trait:ident),+) => {$(
        impl $trait for Table {
            type Ok = Value;
            type Error = Fault;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
                self.entries.insert(key.to_owned(), to_value(value)?);
                Ok(())
            }

            fn end(self) -> Result<Value, Fault> {
                Ok(self.finish())
            }
        }
    )+};
}

structs!(SerializeStruct, SerializeStructVariant);
