//! Everything that is wrong with a configuration, at once.

use std::fmt;

use crate::origin::Origin;

/// One fault: where, what, and what to write instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct ConfigError {
    place: Option<String>,
    leaf: Option<String>,
    problem: String,
    hint: Option<String>,
}

impl ConfigError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { place: None, leaf: None, problem: problem.into(), hint: None }
    }

    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.place = Some(place.to_string());
        self
    }

    pub(crate) fn given_by(self, origin: &Origin) -> Self {
        self.at(origin)
    }

    pub(crate) fn leaf(mut self, path: impl Into<String>) -> Self {
        self.leaf = Some(path.into());
        self
    }

    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// Where: `thumb.toml:3:9`, an environment variable, a flag, or the call that set the value.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The dotted path of the leaf concerned.
    #[must_use]
    pub fn leaf_path(&self) -> Option<&str> {
        self.leaf.as_deref()
    }

    /// What is wrong.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What to write instead, if something suggests itself.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if let Some(leaf) = &self.leaf {
            write!(f, "{leaf}: ")?;
        }
        f.write_str(&self.problem)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// All faults found, in the order of the sources.
///
/// `Debug` prints the same text as `Display`, because `fn main() -> Result<(), Errors>` prints with `Debug`.
#[derive(Clone, Default, PartialEq, thiserror::Error)]
pub struct Errors {
    errors: Vec<ConfigError>,
    /// `--help` was given; this is its text.
    help: Option<String>,
}

impl Errors {
    pub(crate) fn push(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = ConfigError>) {
        self.errors.extend(errors);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.errors.append(&mut other.errors);
        self.help = self.help.take().or(other.help);
    }

    pub(crate) fn help(text: String) -> Self {
        Self { errors: Vec::new(), help: Some(text) }
    }

    /// `value`, unless something is wrong.
    pub(crate) fn check<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// `--help` was asked for: the text is the help, and nothing is wrong.
    #[must_use]
    pub fn is_help(&self) -> bool {
        self.help.is_some()
    }

    /// Nothing is wrong and no help was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.help.is_none()
    }

    /// The faults one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.errors.iter()
    }
}

impl From<ConfigError> for Errors {
    fn from(error: ConfigError) -> Self {
        Self { errors: vec![error], help: None }
    }
}

impl<'a> IntoIterator for &'a Errors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(help) = &self.help {
            return f.write_str(help);
        }
        match self.errors.as_slice() {
            [only] => write!(f, "configuration error: {only}"),
            errors => {
                write!(f, "{} configuration errors:", errors.len())?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl fmt::Debug for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
