//! The list of shapes: which launches are probed.

use std::collections::BTreeMap;

use kitbag::Facts;
use serde::Deserialize;

/// The 62 shapes that stay as they are.
const FROZEN: &str = include_str!("../../probe/shapes.toml");
/// Those that were added, from number 63 on.
const EXTRA: &str = include_str!("../../probe/extra.toml");

/// A command line, and what is declared of the machine and the model.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) number: usize,
    pub(crate) name: String,
    /// Without the name of the program.
    pub(crate) argv: Vec<String>,
    /// What rules may know of the machine.
    pub(crate) facts: Facts,
    /// Names of the profiles, for who reads the provenance.
    pub(crate) hardware: String,
    pub(crate) model: String,
}

impl Shape {
    /// `07-141gb-one`: what its files are called.
    pub(crate) fn id(&self) -> String {
        format!("{:02}-{}", self.number, self.name)
    }
}

/// All shapes, in order of their numbers.
pub(crate) struct Shapes(Vec<Shape>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    hardware: BTreeMap<String, Hardware>,
    #[serde(default)]
    model: BTreeMap<String, toml::Table>,
    shape: Vec<Entry>,
}

/// What rules read of a profile; the rest is declared for rules that come.
#[derive(Deserialize)]
struct Hardware {
    cpus: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    number: usize,
    name: String,
    hardware: String,
    model: String,
    argv: Vec<String>,
}

impl Shapes {
    /// The shapes of this build.
    pub(crate) fn embedded() -> Result<Self, String> {
        Self::parse(&[("shapes.toml", FROZEN), ("extra.toml", EXTRA)])
    }

    /// Profiles are those of all files together.
    fn parse(texts: &[(&str, &str)]) -> Result<Self, String> {
        let (mut hardware, mut models, mut entries) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (name, text) in texts {
            let file: File = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
            hardware.extend(file.hardware);
            models.extend(file.model);
            entries.extend(file.shape);
        }
        let shape = |(index, entry): (usize, Entry)| {
            let fault = |problem: String| format!("shape {} ({}): {problem}", entry.number, entry.name);
            if entry.number != index + 1 {
                return Err(fault(format!("expected number {}", index + 1)));
            }
            let unknown = |what, name| fault(format!("no profile of a {what} is called `{name}`"));
            let machine = hardware.get(&entry.hardware).ok_or_else(|| unknown("machine", &entry.hardware))?;
            models.get(&entry.model).ok_or_else(|| unknown("model", &entry.model))?;
            let Entry { number, name, hardware, model, argv } = entry;
            Ok(Shape { number, name, argv, facts: Facts::for_test().with_cpus(machine.cpus), hardware, model })
        };
        Ok(Self(entries.into_iter().enumerate().map(shape).collect::<Result<_, _>>()?))
    }

    pub(crate) fn all(&self) -> &[Shape] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_list_are_named() {
        let profiles = "[hardware.h]\ncpus = 1\n[model.m]\n";
        let shape = |number: usize, hardware, model| {
            format!(
                "[[shape]]\nnumber = {number}\nname = \"n\"\nhardware = \"{hardware}\"\nmodel = \"{model}\"\nargv = []\n"
            )
        };
        let fault = |text: String| Shapes::parse(&[("a.toml", &text)]).err();
        assert_eq!(fault(format!("{profiles}{}", shape(1, "h", "m"))), None);
        let expect = |text, words| {
            let fault = fault(text).expect("a fault");
            assert!(fault.contains(words), "{fault}");
        };
        expect(format!("{profiles}{}", shape(2, "h", "m")), "shape 2 (n): expected number 1");
        expect(format!("{profiles}{}", shape(1, "x", "m")), "no profile of a machine is called `x`");
        expect(format!("{profiles}{}", shape(1, "h", "x")), "no profile of a model is called `x`");
        expect("shapes = 1".to_owned(), "a.toml: ");
    }
}
