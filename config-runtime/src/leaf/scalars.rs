//! Booleans, floats, text, characters, paths and addresses as leaves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::{Path, PathBuf};

use super::{Leaf, Shape};
use crate::value::Value;

impl Leaf for bool {
    super::compiled_here!(bool);
    super::copied!("`true` or `false`");

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn is_switch() -> bool {
        true
    }

    fn samples() -> Vec<String> {
        super::texts(&["false", "true"])
    }
}

macro_rules! floats {
    ($($type:ty),+) => {$(
        impl Leaf for $type {
            super::compiled_here!($type);
            super::copied!("a number");

            fn from_text(text: &str) -> Option<Self> {
                text.parse::<$type>().ok().filter(|value| value.is_finite())
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Float(value) => Some(*value as $type).filter(|value| value.is_finite()),
                    // `temperature = 1` in a file means 1.0.
                    Value::Integer(value) => Some(*value as $type),
                    _ => None,
                }
            }

            fn is_valid(&self) -> bool {
                self.is_finite()
            }

            fn to_value(&self) -> Value {
                // Through the shortest text, so that an `f32` of 0.1 shows as 0.1 and not as 0.10000000149.
                Value::Float(self.to_string().parse().unwrap_or_else(|_| f64::from(*self)))
            }

            fn shape() -> Shape {
                Shape::Number
            }

            fn samples() -> Vec<String> {
                super::texts(&["0.0", "0.25", "0.5", "1.0", "1.5", "8.0"])
            }
        }
    )+};
}

floats!(f32, f64);

impl Leaf for String {
    super::compiled_here!(String);

    type Read<'a> = &'a str;

    fn read(&self) -> &str {
        self
    }

    fn expected() -> String {
        "text".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn shape() -> Shape {
        Shape::Text { what: "text", pattern: None }
    }

    fn samples() -> Vec<String> {
        super::texts(&["", "a", "sample text"])
    }
}

impl Leaf for char {
    super::compiled_here!(char);
    super::copied!("one character");

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn shape() -> Shape {
        Shape::Text { what: "character", pattern: Some(r"^[\s\S]$") }
    }

    fn samples() -> Vec<String> {
        super::texts(&["a", "Z", ","])
    }
}

impl Leaf for PathBuf {
    super::compiled_here!(PathBuf);

    type Read<'a> = &'a Path;

    fn read(&self) -> &Path {
        self
    }

    fn expected() -> String {
        "a path".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::from(text))
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.to_string_lossy().into_owned())
    }

    fn shape() -> Shape {
        Shape::Text { what: "path", pattern: Some("^.+$") }
    }

    fn samples() -> Vec<String> {
        super::texts(&["a", "folder/file.txt"])
    }
}

macro_rules! addresses {
    ($($type:ty: $expected:literal, $what:literal, $pattern:literal, $samples:expr),+ $(,)?) => {$(
        impl Leaf for $type {
            super::compiled_here!($type);
            super::copied!($expected);

            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Text(text) => text.parse().ok(),
                    _ => None,
                }
            }

            fn to_value(&self) -> Value {
                Value::Text(self.to_string())
            }

            fn shape() -> Shape {
                Shape::Text { what: $what, pattern: Some($pattern) }
            }

            fn samples() -> Vec<String> {
                super::texts(&$samples)
            }
        }
    )+};
}

addresses! {
    SocketAddr: "an address and port such as `127.0.0.1:8080` or `[::1]:8080`", "address and port",
        r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9a-fA-F:.]+(%[0-9]+)?\]):[0-9]{1,5}$", ["127.0.0.1:80", "[::1]:8080"],
    SocketAddrV4: "an IPv4 address and port such as `127.0.0.1:8080`", "IPv4 address and port",
        r"^[0-9]{1,3}(\.[0-9]{1,3}){3}:[0-9]{1,5}$", ["127.0.0.1:80", "10.0.0.1:8080"],
    SocketAddrV6: "an IPv6 address and port such as `[::1]:8080`", "IPv6 address and port",
        r"^\[[0-9a-fA-F:.]+(%[0-9]+)?\]:[0-9]{1,5}$", ["[::1]:80", "[fe80::1]:8080"],
    IpAddr: "an IP address such as `127.0.0.1` or `::1`", "IP address",
        r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*)$", ["127.0.0.1", "::1"],
    Ipv4Addr: "an IPv4 address such as `127.0.0.1`", "IPv4 address",
        r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$", ["127.0.0.1", "10.0.0.1"],
    Ipv6Addr: "an IPv6 address such as `::1`", "IPv6 address",
        r"^[0-9a-fA-F:]*:[0-9a-fA-F:.]*$", ["::1", "fe80::1"],
}
