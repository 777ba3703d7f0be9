//! What is wrong inside a value of a file, and where.

use std::fmt::Write;

/// One fault inside a list or table that was refused.
///
/// A leaf of a type of your own that is a table says with it which of its keys is at fault; the error then has the
/// place of that key's value:
///
/// ```
/// use kitbag::{ConfigNamespaces, Fault, Leaf, Value};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Limits {
///     jobs: u32,
/// }
///
/// impl Leaf for Limits {
///     type Read<'a> = &'a Self;
///     fn read(&self) -> &Self {
///         self
///     }
///     fn expected() -> String {
///         "limits: `{ jobs = 3 }`".to_owned()
///     }
///     fn from_text(text: &str) -> Option<Self> {
///         Some(Self { jobs: text.parse().ok()? })
///     }
///     fn from_value(value: &Value) -> Option<Self> {
///         let Value::Table(entries) = value else { return None };
///         Some(Self { jobs: u32::from_value(entries.get("jobs")?)? })
///     }
///     fn faults(value: &Value) -> Vec<Fault> {
///         let Value::Table(entries) = value else { return Vec::new() };
///         let jobs = entries.get("jobs").filter(|jobs| u32::from_value(jobs).is_none());
///         jobs.map(|_| Fault::new(format!("expected {}", u32::expected())).in_key("jobs")).into_iter().collect()
///     }
///     fn to_value(&self) -> Value {
///         Value::Table([("jobs".to_owned(), self.jobs.to_value())].into())
///     }
/// }
///
/// #[derive(ConfigNamespaces)]
/// struct Args {
///     /// Limits of each pool.
///     #[config(ns = "pool", default = "3")]
///     limits: Vec<Limits>,
/// }
///
/// let file = "[pool]\nlimits = [\n  { jobs = 2 },\n  { jobs = -1 },\n]";
/// let errors = Args::loader().text("app.toml", file).load().unwrap_err();
/// let text = "app.toml:4:12: pool.limits: entry 2: `jobs`: expected an integer from 0 to 4294967295";
/// assert_eq!(errors.iter().next().expect("one").to_string(), text);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    problem: String,
    /// The way to it, innermost step first.
    steps: Vec<Step>,
}

/// From a list or table to one of its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Position in a list, from 0.
    Entry(usize),
    Key(String),
}

impl Fault {
    /// Of the value as a whole.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), steps: Vec::new() }
    }

    pub(crate) fn problem(&self) -> &str {
        &self.problem
    }

    /// Says more of a fault.
    pub(crate) fn append(&mut self, text: &str) {
        self.problem.push_str(text);
    }

    pub(crate) fn is_here(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same of an entry of a list, counted from 0.
    #[must_use]
    pub fn in_entry(mut self, index: usize) -> Self {
        self.steps.push(Step::Entry(index));
        self
    }

    /// The same of the value of a key.
    #[must_use]
    pub fn in_key(mut self, key: impl Into<String>) -> Self {
        self.steps.push(Step::Key(key.into()));
        self
    }

    /// The way from the whole value to the fault.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().rev()
    }

    /// With the way to it: words that count from 1 for entries of the whole, a path such as `a.hosts[1]` below.
    pub(crate) fn text(&self) -> String {
        let (mut words, mut path) = (String::new(), String::new());
        for step in self.steps() {
            // Writing to a string does not fail.
            let _ = match step {
                Step::Entry(index) if path.is_empty() => write!(words, "entry {}: ", index + 1),
                Step::Entry(index) => write!(path, "[{index}]"),
                Step::Key(key) if path.is_empty() => write!(path, "{key}"),
                Step::Key(key) => write!(path, ".{key}"),
            };
        }
        if !path.is_empty() {
            path = format!("`{path}`: ");
        }
        words + &path + &self.problem
    }
}
