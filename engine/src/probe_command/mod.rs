//! `engine config probe`: do the settings of known launches still come out as they did?
//!
//! A *shape* is a command line with what is declared of machine and model. Its *document* is what the settings resolve
//! to, or the refusal. Nothing is loaded and neither environment nor machine is looked at, so a document has the same
//! bytes anywhere. A refusal names everything at fault, as [`kitbag::Loader`] words it; a command of clap stops at the
//! first unknown flag. The documents of all shapes are committed in `engine/probe/baseline`; a change of a rule or
//! default shows there in review.

mod baseline;
mod document;
#[cfg(test)]
mod mutants;
mod shapes;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;

use engine_config::Settings;
use kitbag::clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};

use self::baseline::Report;
use self::document::{Document, document};
use self::shapes::Shapes;
use crate::cli::Failure;

pub(crate) const NAME: &str = "probe";

/// Where the source tree keeps the documents, seen from its root.
const BASELINE: &str = "engine/probe/baseline";

pub(crate) fn command() -> Command {
    let switch = |name: &'static str, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let check = switch("check", "Compare all shapes with the baseline, byte for byte");
    let bless = switch("bless", "Write the baseline anew, and beside it who decided each setting");
    let diff = Arg::new("diff").long("diff").num_args(2).value_names(["A", "B"]);
    let baseline = Arg::new("baseline").long("baseline").value_name("DIR").value_parser(value_parser!(PathBuf));
    Command::new(NAME)
        .about("Resolve the settings of known launches, and compare them with what they were")
        .arg(check)
        .arg(bless)
        .arg(diff.help("Settings in which two shapes differ; a shape is called by number or name"))
        .arg(baseline.default_value(BASELINE).help("The folder of the baseline"))
        .group(ArgGroup::new("what").args(["check", "bless", "diff"]).required(true))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let shapes = Shapes::embedded().map_err(Failure::run)?;
    if let Some(names) = matches.get_many::<String>("diff") {
        let names: Vec<_> = names.collect();
        let [one, two] = names[..] else { unreachable!("clap requires two shapes") };
        return diff(&shapes, one, two);
    }
    let folder = matches.get_one::<PathBuf>("baseline").map_or(BASELINE.as_ref(), PathBuf::as_path);
    if matches.get_flag("bless") {
        let changed = baseline::bless(&shapes, folder).map_err(Failure::run)?;
        return Ok(format!("{} shapes, {changed} files written to {}\n", shapes.all().len(), folder.display()));
    }
    let Report { faults, resolved, refused } = baseline::check::<Settings>(&shapes, folder);
    if faults.is_empty() {
        let total = resolved + refused;
        return Ok(format!("{total} shapes as in {}: {resolved} resolve, {refused} are refused\n", folder.display()));
    }
    let mut text = format!("the settings of known launches have changed against {}\n", folder.display());
    for fault in faults {
        // Writing to a string does not fail.
        let _ = write!(text, "{fault}");
    }
    text.push_str("if that is meant: engine config probe --bless, and have the changed files reviewed");
    Err(Failure::Run(text))
}

fn diff(shapes: &Shapes, one: &str, two: &str) -> Result<String, Failure> {
    let named = |name: &str| -> Result<Document, Failure> {
        let shape = shapes.find(name).ok_or_else(|| Failure::Usage(format!("no shape is called `{name}`")))?;
        Ok(document::<Settings>(shape))
    };
    let changes = named(one)?.changes(&named(two)?);
    Ok(if changes.is_empty() { "no differences\n".to_owned() } else { changes.join("\n") + "\n" })
}
