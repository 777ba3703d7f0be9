//! Settings that no output shows.

use std::fmt;

use super::{Leaf, Shape};
use crate::value::Value;

/// What stands in every output instead of a secret.
const REDACTED: &str = "<redacted>";

/// A secret setting. `Debug`, errors, dumps, explain and the exported schema show `<redacted>`.
///
/// ```
/// use kitbag::{ConfigNamespaces, Secret};
///
/// #[derive(ConfigNamespaces)]
/// #[config(env = "APP")]
/// struct Args {
///     /// Token of the store.
///     #[config(ns = "store", secret)]
///     token: Secret<String>,
/// }
/// let cfg = Args::loader().env([("APP_STORE_TOKEN", "hunter2")]).load()?;
/// assert_eq!(cfg.pin().store().token().expose(), "hunter2");
/// assert!(!format!("{cfg:?} {}", cfg.explain("store.token").expect("a leaf")).contains("hunter2"));
/// # Ok::<(), kitbag::Errors>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. Whoever calls this is responsible for where it goes.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<T: Leaf> Leaf for Secret<T> {
    type Read<'a> = &'a Secret<T>;

    fn read(&self) -> &Self {
        self
    }

    fn expected() -> String {
        format!("a secret: {}", T::expected())
    }

    fn from_text(text: &str) -> Option<Self> {
        T::from_text(text).map(Self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        T::from_value(value).map(Self)
    }

    fn to_value(&self) -> Value {
        Value::Text(REDACTED.to_owned())
    }

    fn to_raw_value(&self) -> Value {
        self.0.to_raw_value()
    }

    const SECRET: bool = true;

    fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    fn shape() -> Shape {
        T::shape()
    }

    fn samples() -> Vec<String> {
        T::samples()
    }
}
