//! Command-line flags, as arguments of a clap command built from the schema.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::file::Chosen;
use super::{Candidates, Given};
use crate::error::{ConfigError, Errors};
use crate::origin::Origin;
use crate::schema::{ConfigNamespaces, Start};
use crate::table::{Entry, Former, Name, Now, Table};

/// Id and name of the flag that names the configuration file.
const CONFIG: &str = "config";
/// Id and name of the flag that chooses a profile.
const PROFILE: &str = "profile";
/// Prefix of the ids of `--no-…` arguments, so that they never meet a leaf's path.
const NEGATED: &str = "no:";
/// The same for former names.
const FORMER: &str = "former:";

/// Adds one argument per leaf, `--config` and `--profile`.
pub(crate) fn augment<S: ConfigNamespaces>(command: Command) -> Command {
    let table = Table::of::<S>();
    let file = Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .help(bootstrap_help("Read settings from this file (TOML, YAML or JSON)", super::env::config_variable(&table)))
        .value_parser(clap::value_parser!(PathBuf));
    let profile = Arg::new(PROFILE)
        .long(PROFILE)
        .value_name("NAME")
        .help(bootstrap_help("Use this profile of the files", super::env::profile_variable(&table)));
    let leaves = table.entries.iter().filter(|entry| !entry.is_derived());
    command.arg(file).arg(profile).args(leaves.flat_map(arguments)).args(table.former.iter().filter_map(|former| {
        let taken = |entry: &Entry| !entry.is_derived() && entry.info.flag == former.flag;
        // An alias may have the flag that its leaf still has.
        (!table.entries.iter().any(taken)).then(|| former_argument(former))
    }))
}

fn bootstrap_help(text: &str, variable: Option<String>) -> String {
    variable.map_or_else(|| text.to_owned(), |variable| format!("{text} [env: {variable}]"))
}

/// A former flag: read, or refused with advice, but not shown.
fn former_argument(former: &Former) -> Arg {
    let argument = Arg::new(former_id(former)).long(former.flag.clone()).hide(true).action(ArgAction::Set);
    match former.now {
        // Whether it had a value is not known any more.
        Now::Retired(_) => argument.num_args(0..=1).default_missing_value(""),
        Now::Alias(_) | Now::Replaced(_) => argument.allow_negative_numbers(true),
    }
}

fn former_id(former: &Former) -> String {
    format!("{FORMER}{}", former.path)
}

fn arguments(entry: &Entry) -> Vec<Arg> {
    let info = entry.info;
    let heading = info.path.strip_suffix(info.name).unwrap_or_default().trim_end_matches('.');
    let value = Arg::new(info.path)
        .long(info.flag)
        .value_name(info.name.to_uppercase())
        .help(help(entry))
        .help_heading(heading.to_owned())
        .action(ArgAction::Set)
        .allow_negative_numbers(true);
    if !(info.ops.is_switch)() {
        return vec![value];
    }
    // `--flag`, `--flag=false` and `--no-flag`; a separate word after `--flag` is not its value.
    let value = value.num_args(0..=1).require_equals(true).default_missing_value("true");
    let negated = Arg::new(format!("{NEGATED}{}", info.path))
        .long(format!("no-{}", info.flag))
        .hide(true)
        .conflicts_with(info.path)
        .action(ArgAction::SetTrue);
    vec![value, negated]
}

fn help(entry: &Entry) -> String {
    let info = entry.info;
    let summary = info.doc.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let mut notes = Vec::new();
    match info.start {
        // The value as a user would write it, not as the schema does.
        Start::Default { text, .. } => notes.push(match info.default_value() {
            Some(Ok(value)) => format!("default: {}", value.to_value().plain()),
            _ => format!("default: {text}"),
        }),
        Start::Computed(computation) => notes.push(format!("default: by rule `{}`", computation.function)),
        Start::Required if (info.ops.when_absent)().is_none() => notes.push("required".to_owned()),
        Start::Required => {}
    }
    if let Some(names) = (info.ops.choices)() {
        notes.push(format!("one of: {}", names.join(", ")));
    }
    notes.extend(info.range.map(|range| format!("range: {range}")));
    notes.extend(entry.env.as_ref().map(|variable| format!("env: {variable}")));
    let mut help = summary.trim_end_matches('.').to_owned();
    for note in notes {
        help.extend([" [", &note, "]"]);
    }
    help
}

/// Parses the arguments (program name first). What is faulty is reported and left out, so that the rest can be
/// looked at too; there are no matches if clap can make nothing of the rest.
pub(crate) fn parse<S: ConfigNamespaces>(mut arguments: Vec<OsString>) -> (Option<ArgMatches>, Errors) {
    let mut errors = Errors::default();
    let about = S::SCHEMA.doc.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    loop {
        let command = augment::<S>(Command::new("program").about(about.clone()));
        let error = match command.try_get_matches_from(&arguments) {
            Ok(matches) => return (Some(matches), errors),
            Err(error) => error,
        };
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            return (None, Errors::help(error.to_string()));
        }
        errors.push(describe(&error));
        let Some(fault) = fault(&error, &arguments) else { return (None, errors) };
        arguments.drain(fault);
    }
}

/// Where in the arguments the one stands that clap does not know, with what looks like its value.
fn fault(error: &clap::Error, arguments: &[OsString]) -> Option<Range<usize>> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_fault = |argument: &OsString| {
        argument.to_str().is_some_and(|text| text == name || text.split_once('=').is_some_and(|(flag, _)| flag == name))
    };
    let start = 1 + arguments.iter().skip(1).position(is_fault)?;
    let takes_next = name.starts_with("--") && arguments[start].to_str() == Some(name);
    // A schema has no positional arguments, so a word after an unknown flag was meant as its value.
    let value = arguments.get(start + 1).filter(|next| !next.to_string_lossy().starts_with('-'));
    Some(start..start + 1 + usize::from(takes_next && value.is_some()))
}

/// clap's own text on one line, without its label and usage.
fn describe(error: &clap::Error) -> ConfigError {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(name))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        let hint = match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(known)) => Some(format!("did you mean `{known}`?")),
            _ => None,
        };
        let problem = if name.starts_with('-') { "no such flag" } else { "unexpected argument" };
        return ConfigError::new(problem).at(name).hint(hint);
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    ConfigError::new(message).at("command line")
}

/// The file named by `--config`.
pub(crate) fn config_file(matches: &ArgMatches) -> Option<PathBuf> {
    matches.get_one::<PathBuf>(CONFIG).cloned()
}

/// The profile named by `--profile`.
pub(crate) fn profile(matches: &ArgMatches) -> Option<Chosen> {
    matches.get_one::<String>(PROFILE).map(|name| Chosen { name: name.clone(), by: format!("--{PROFILE}") })
}

/// Takes the values given as flags; what was not given is not a candidate.
pub(crate) fn read(table: &Table, matches: &ArgMatches, candidates: &mut Candidates) {
    for (index, entry) in table.entries.iter().enumerate().filter(|(_, entry)| !entry.is_derived()) {
        let info = entry.info;
        let given = matches.get_one::<String>(info.path);
        let negated = (info.ops.is_switch)() && matches.get_flag(&format!("{NEGATED}{}", info.path));
        if let Some(text) = given {
            let origin = Origin::Flag { flag: format!("--{}", info.flag) };
            candidates.give(table, &Name::Leaf(index), origin, Given::Text(text));
        } else if negated {
            let origin = Origin::Flag { flag: format!("--no-{}", info.flag) };
            candidates.give(table, &Name::Leaf(index), origin, Given::Text("false"));
        }
    }
    for former in &table.former {
        // Not every former name has an argument of its own.
        if let Ok(Some(text)) = matches.try_get_one::<String>(&former_id(former)) {
            let origin = Origin::Flag { flag: format!("--{}", former.flag) };
            candidates.give(table, &Name::Former(former), origin, Given::Text(text));
        }
    }
}
