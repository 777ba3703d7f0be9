//! Why a leaf has the value it has.

use std::fmt;

use crate::leaf::Erased;
use crate::origin::Origin;
use crate::schema::{LeafInfo, Start};

/// The chain of values behind one leaf, lowest precedence first. Written with `{}` it is whole lines, as a
/// [`Plan`](crate::Plan) is: print it with `print!`.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    path: &'static str,
    value: String,
    steps: Vec<Step>,
    inputs: Vec<Explanation>,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    origin: String,
    value: String,
    suspended: bool,
    is_chosen: bool,
}

impl Explanation {
    pub(crate) fn new(info: &LeafInfo, value: &Erased) -> Self {
        Self { path: info.path, value: value.to_value().to_string(), steps: Vec::new(), inputs: Vec::new() }
    }

    pub(crate) fn step(&mut self, origin: &Origin, value: &Erased, suspended: bool) {
        let value = value.to_value().to_string();
        self.steps.push(Step { origin: origin.to_string(), value, suspended, is_chosen: origin.is_chosen() });
    }

    pub(crate) fn inherited(&mut self, value: &Erased) {
        let value = value.to_value().to_string();
        self.steps.push(Step { origin: "parent context".to_owned(), value, suspended: false, is_chosen: true });
    }

    pub(crate) fn computed(&mut self, start: &Start, inputs: Vec<Self>) {
        if let Start::Computed(computation) = start {
            let origin = format!("derived by `{}`", computation.function);
            self.steps.push(Step { origin, value: self.value.clone(), suspended: false, is_chosen: false });
        }
        self.inputs = inputs;
    }

    /// Dotted path of the leaf.
    #[must_use]
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The effective value as text.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Where the effective value came from.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.in_force().map_or("", |step| step.origin.as_str())
    }

    /// Whether somebody chose the effective value, whatever it is: [`Origin::is_chosen`]. In a child context, what came
    /// from the parent and differs from what the sources say counts as chosen; a derived value never does.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        self.in_force().is_some_and(|step| step.is_chosen)
    }

    fn in_force(&self) -> Option<&Step> {
        self.steps.iter().rfind(|step| !step.suspended)
    }

    /// Origins and values in order of precedence, the effective one last unless a later one is suspended.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.steps.iter().map(|step| (step.origin.as_str(), step.value.as_str()))
    }

    /// For a derived value: the explanations of its inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Self] {
        &self.inputs
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        writeln!(f, "{indent}{} = {}", self.path, self.value)?;
        let effective = self.steps.iter().rposition(|step| !step.suspended);
        for (index, step) in self.steps.iter().enumerate() {
            let mark = if Some(index) == effective { ">" } else { " " };
            let note = if step.suspended { " (suspended: not valid at present)" } else { "" };
            writeln!(f, "{indent}{mark} {}: {}{note}", step.origin, step.value)?;
        }
        self.inputs.iter().try_for_each(|input| input.write(f, depth + 1))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
