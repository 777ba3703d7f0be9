//! `engine config probe`: do known launches still come out as they did, in settings and in what is built from them?
//!
//! A *shape* is a command line with what is declared of machine and model. Its *document* is what the settings resolve
//! to, or the refusal. Nothing is loaded and neither environment nor machine is looked at, so a document has the same
//! bytes anywhere. A refusal names everything at fault, as [`kitbag::Loader`] words it; a command of clap stops at the
//! first unknown flag. The documents of all shapes are committed in `engine/probe/baseline`; a change of a rule or
//! default shows there in review.
//!
//! With `--built` the same is done for what small models are built into ([`built`]), in `engine/probe/built`.

mod baseline;
mod built;
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

use self::baseline::{Entry, Report};
use self::document::{document, provenance};
use self::shapes::{Shape, Shapes};
use crate::cli::Failure;

pub(crate) const NAME: &str = "probe";

/// Where the source tree keeps the documents, seen from its root.
const SETTINGS_BASELINE: &str = "engine/probe/baseline";
const BUILT_BASELINE: &str = "engine/probe/built";

pub(crate) fn command() -> Command {
    let switch = |name: &'static str, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let check = switch("check", "Compare all shapes with the baseline, byte for byte");
    let bless = switch("bless", "Write the baseline anew, and beside it who decided each setting");
    let diff = Arg::new("diff").long("diff").num_args(2).value_names(["A", "B"]);
    let built =
        switch("built", "Build small models with made-up weights, and look at sizes and choices, not at settings");
    let baseline = Arg::new("baseline").long("baseline").value_name("DIR").value_parser(value_parser!(PathBuf));
    let folders =
        format!("The folder of the baseline [default: {SETTINGS_BASELINE}, or {BUILT_BASELINE} with --built]");
    Command::new(NAME)
        .about("Resolve the settings of known launches, or build them, and compare with what they were")
        .arg(check)
        .arg(bless)
        .arg(diff.help("What differs between two shapes; a shape is called by number or name"))
        .arg(built)
        .arg(baseline.help(folders))
        .group(ArgGroup::new("what").args(["check", "bless", "diff"]).required(true))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let is_built = matches.get_flag("built");
    let entries = if is_built {
        built::entries()?
    } else {
        let shapes = Shapes::embedded().map_err(Failure::run)?;
        shapes.all().iter().map(Entry::of_settings).collect()
    };
    if let Some(names) = matches.get_many::<String>("diff") {
        let names: Vec<_> = names.collect();
        let [one, two] = names[..] else { unreachable!("clap requires two shapes") };
        return diff(&entries, one, two);
    }
    let (usual, switch) = if is_built { (BUILT_BASELINE, " --built") } else { (SETTINGS_BASELINE, "") };
    let folder = matches.get_one::<PathBuf>("baseline").map_or(usual.as_ref(), PathBuf::as_path);
    if matches.get_flag("bless") {
        let changed = baseline::bless(&entries, folder).map_err(Failure::run)?;
        return Ok(format!("{} shapes, {changed} files written to {}\n", entries.len(), folder.display()));
    }
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(Failure::Usage(format!(
            "there is no folder {folder}: run this in the root of the source tree, or say where it is with --baseline"
        )));
    }
    let Report { faults, accepted, refused } = baseline::check(&entries, folder);
    let what = if is_built { "are built" } else { "resolve" };
    if faults.is_empty() {
        let total = accepted + refused;
        return Ok(format!("{total} shapes as in {}: {accepted} {what}, {refused} are refused\n", folder.display()));
    }
    let mut text = format!("known launches have changed against {}\n", folder.display());
    for fault in faults {
        // Writing to a string does not fail.
        let _ = write!(text, "{fault}");
    }
    let _ = write!(text, "if that is meant: engine config probe{switch} --bless, and have the changed files reviewed");
    Err(Failure::Run(text))
}

impl Entry {
    fn of_settings(shape: &Shape) -> Self {
        Self { id: shape.id(), document: document::<Settings>(shape), provenance: provenance(shape) }
    }
}

fn diff(entries: &[Entry], one: &str, two: &str) -> Result<String, Failure> {
    let named = |name: &str| {
        let entry = entries.iter().find(|entry| entry.is_called(name));
        entry.ok_or_else(|| Failure::Usage(format!("no shape is called `{name}`")))
    };
    let changes = named(one)?.document.changes(&named(two)?.document);
    Ok(if changes.is_empty() { "no differences\n".to_owned() } else { changes.join("\n") + "\n" })
}
