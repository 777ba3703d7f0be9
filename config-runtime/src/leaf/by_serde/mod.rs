//! Types with serde as leaves.

mod read;
mod write;

use std::any::type_name;
use std::fmt;
use std::ops::Deref;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Fault, Leaf, Shape};
use crate::source::json_value;
use crate::value::Value;

/// A leaf of any type that has serde's `Serialize` and `Deserialize`.
///
/// In a file it is what serde makes of it: a struct is a table, an enum its variant. In a variable or flag it is JSON,
/// or the text itself where the type is read from text. Accessors and rules give the value inside, setters take it. A
/// key that the type does not know is an error, as everywhere, except below `#[serde(flatten)]` and in enums that are
/// `untagged` or have an inner `tag`, where serde hides it.
///
/// A later source replaces the whole value. A list of such values is `Serde<Vec<_>>` where variables and flags should
/// give it, as a JSON list.
///
/// ```
/// use kitbag::{ConfigNamespaces, Serde};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// struct Server {
///     host: String,
///     #[serde(default)]
///     weight: u32,
/// }
///
/// #[derive(ConfigNamespaces)]
/// #[config(env = "PROXY")]
/// struct Args {
///     /// Where requests go.
///     #[config(ns = "pool")]
///     server: Serde<Server>,
///     /// Where requests go if that fails.
///     #[config(ns = "pool", default = "[]")]
///     spares: Serde<Vec<Server>>,
/// }
/// let loader = Args::loader().text("proxy.toml", "[pool]\nserver = { host = 'a', weight = 2 }");
/// let cfg = loader.clone().env([("PROXY_POOL_SPARES", r#"[{"host": "b"}]"#)]).load()?;
/// assert_eq!(cfg.pin().pool().server(), &Server { host: "a".into(), weight: 2 });
/// assert_eq!(cfg.pin().pool().spares()[0].host, "b");
///
/// let errors = loader.env([("PROXY_POOL_SPARES", r#"[{"host": "b", "wieght": 3}]"#)]).load().unwrap_err();
/// let text = "PROXY_POOL_SPARES: pool.spares: entry 1: `wieght`: no such field; did you mean `weight`?";
/// assert_eq!(errors.iter().next().expect("one").to_string(), text);
/// # Ok::<(), kitbag::Errors>(())
/// ```
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Serde<T>(
    /// The value.
    pub T,
);

impl<T> Deref for Serde<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Serde<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: fmt::Debug> fmt::Debug for Serde<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Leaf for Serde<T>
where
    T: Serialize + DeserializeOwned + Clone + PartialEq + fmt::Debug + Send + Sync + 'static,
{
    type Read<'a> = &'a T;

    fn read(&self) -> &T {
        &self.0
    }

    fn expected() -> String {
        format!("JSON of `{}`", short(type_name::<T>()))
    }

    fn from_text(text: &str) -> Option<Self> {
        let as_json = json_value(text).ok().and_then(|value| Self::from_value(&value));
        as_json.or_else(|| Self::from_value(&Value::Text(text.to_owned())))
    }

    fn from_value(value: &Value) -> Option<Self> {
        read::from_value(value).ok().map(Self)
    }

    fn faults(value: &Value) -> Vec<Fault> {
        let Err(as_it_is) = read::from_value::<T>(value) else { return Vec::new() };
        // Text may have been meant as JSON.
        let meant = match value {
            Value::Text(text) if text.trim_start().starts_with(['{', '[']) => match json_value(text) {
                Ok(value) => read::from_value::<T>(&value).err(),
                Err(problem) => return vec![Fault::new(format!("not JSON: {problem}"))],
            },
            _ => None,
        };
        vec![meant.unwrap_or(as_it_is).into()]
    }

    fn is_valid(&self) -> bool {
        // What sources give has no numbers such as NaN, and everything in it can be written.
        write::to_value(&self.0).is_ok_and(|value| is_finite(&value))
    }

    fn to_value(&self) -> Value {
        write::to_value(&self.0).unwrap_or_else(|_| Value::Text(format!("{:?}", self.0)))
    }

    /// That of a type which reads nothing as a value: `None` of an `Option`.
    fn when_absent() -> Option<Self> {
        Self::from_value(&Value::Unset)
    }

    fn shape() -> Shape {
        Shape::Any
    }
}

fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float(value) => value.is_finite(),
        Value::List(values) => values.iter().all(is_finite),
        Value::Table(entries) => entries.values().all(is_finite),
        _ => true,
    }
}

/// `alloc::vec::Vec<program::Server>` as `Vec<Server>`.
fn short(name: &str) -> String {
    let mut text = String::new();
    for part in name.split_inclusive(|c: char| "<>,()[]&; ".contains(c)) {
        text.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Plain,
        Wrapped(u8),
        Pair(u8, char),
        Fields { a: Option<bool> },
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Inner {
        list: Vec<(u8, f32)>,
        by_number: BTreeMap<i16, Kind>,
        by_kind: BTreeMap<Kind, u8>,
        by_switch: BTreeMap<bool, String>,
        wide: u128,
        bytes: Vec<u8>,
        maybe: Option<String>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Meters(f64);

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Name(String);

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Nothing;

    #[track_caller]
    fn comes_back<T>(value: T)
    where
        Serde<T>: Leaf,
    {
        let value = Serde(value);
        let shown = value.to_value();
        assert_eq!(Serde::from_value(&shown).as_ref(), Some(&value), "{shown}");
        assert!(value.is_valid());
        let json = serde_json::to_string(&shown).expect("plain data");
        assert_eq!(Serde::from_text(&json).as_ref(), Some(&value), "{json}");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for kind in [Kind::Plain, Kind::Wrapped(1), Kind::Pair(2, 'x'), Kind::Fields { a: None }] {
            comes_back(kind);
        }
        comes_back(Inner {
            list: vec![(1, 0.1), (2, 3.0)],
            by_number: [(-5, Kind::Plain), (7, Kind::Wrapped(9))].into(),
            by_kind: [(Kind::Plain, 1)].into(),
            by_switch: [(true, String::new())].into(),
            wide: u128::MAX,
            bytes: vec![0, 255],
            maybe: None,
        });
        comes_back((1_i64, "text".to_owned(), Some(Some(5))));
        comes_back(Meters(1.5));
        comes_back(Name("true".to_owned()));
        comes_back(Nothing);
    }

    #[test]
    fn text_is_json_or_what_the_type_reads_from_text() {
        assert_eq!(Serde::from_text("plain"), Some(Serde(Kind::Plain)));
        assert_eq!(Serde::from_text("\"plain\""), Some(Serde(Kind::Plain)));
        assert_eq!(Serde::from_text(r#"{"wrapped": 3}"#), Some(Serde(Kind::Wrapped(3))));
        assert_eq!(Serde::from_text("12"), Some(Serde(Name("12".to_owned()))));
        assert_eq!(Serde::from_text("2"), Some(Serde(Meters(2.0))));
        assert_eq!(Serde::<Kind>::from_text("{"), None);
    }

    #[test]
    fn faults_name_their_place() {
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        struct Tls {
            port: u16,
            hosts: Vec<String>,
        }
        let fault = |text: &str| Serde::<BTreeMap<String, Tls>>::faults(&Value::Text(text.to_owned()))[0].text();
        assert_eq!(
            fault(r#"{"a": {"port": 70000, "hosts": []}}"#),
            "`a.port`: invalid value: integer `70000`, expected u16"
        );
        assert_eq!(
            fault(r#"{"a": {"port": 7, "hosts": ["x", 5]}}"#),
            "`a.hosts[1]`: invalid type: integer `5`, expected a string"
        );
        assert_eq!(fault(r#"{"a": {"hosts": []}}"#), "`a`: missing field `port`");
        assert_eq!(fault(r#"{"a": {"prot": 7, "hosts": []}}"#), "`a.prot`: no such field; did you mean `port`?");
        assert_eq!(fault("[1,"), "not JSON: column 4: expected a value, found the end of the text");
        assert_eq!(fault("x"), "invalid type: string \"x\", expected a map");
    }

    #[test]
    fn what_no_source_could_give_is_not_valid() {
        assert!(!Serde(vec![f32::NAN]).is_valid());
        assert!(Serde(vec![1.0_f32]).is_valid());
    }

    #[test]
    fn names_of_types_are_short() {
        assert_eq!(Serde::<Vec<Option<Kind>>>::expected(), "JSON of `Vec<Option<Kind>>`");
        assert_eq!(Serde::<(Kind, [u8; 2])>::expected(), "JSON of `(Kind, [u8; 2])`");
    }
}
