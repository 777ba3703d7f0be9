//! Command-line flags, as arguments of a clap command built from the schema.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};

use super::arguments::{self, Sorted};
use super::file::Chosen;
use super::{Candidates, Given};
use crate::error::{ConfigError, Errors};
use crate::origin::Origin;
use crate::schema::{ConfigNamespaces, LeafInfo, Start};
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
        .action(ArgAction::Append)
        .help(bootstrap_help(
            "Read settings from this file (TOML, YAML or JSON); of several the later one wins",
            super::env::config_variable(&table),
        ))
        // An empty name is told of like every fault, not by clap.
        .value_parser(clap::value_parser!(OsString))
        .value_hint(ValueHint::FilePath);
    let profile = Arg::new(PROFILE)
        .long(PROFILE)
        .value_name("NAME")
        .help(bootstrap_help("Use this profile of the files", super::env::profile_variable(&table)))
        .value_parser(clap::value_parser!(OsString));
    let leaves = table.entries.iter().filter(|entry| !entry.is_derived());
    command.arg(file).arg(profile).args(leaves.flat_map(of_leaf)).args(table.former.iter().filter_map(|former| {
        let taken = |entry: &Entry| {
            let off = || former.flag.strip_prefix("no-") == Some(entry.info.flag) && entry.info.ops.ty.is_switch();
            !entry.is_derived() && (entry.info.flag == former.flag || off())
        };
        // An alias may have the flag that its leaf still has, or that switches it off.
        (!table.entries.iter().any(taken)).then(|| former_argument(former))
    }))
}

fn bootstrap_help(text: &str, variable: Option<String>) -> String {
    variable.map_or_else(|| text.to_owned(), |variable| format!("{text} [env: {variable}]"))
}

/// A former flag: read, or refused with advice, but not shown.
fn former_argument(former: &Former) -> Arg {
    let argument = Arg::new(former_id(former))
        .long(former.flag.clone())
        .hide(true)
        .action(ArgAction::Set)
        .value_parser(clap::value_parser!(OsString));
    match former.now {
        // Whether it had a value is not known any more.
        Now::Retired(_) => argument.num_args(0..=1).default_missing_value(""),
        Now::Alias(_) | Now::Replaced(_) => argument.allow_negative_numbers(true),
    }
}

fn former_id(former: &Former) -> String {
    format!("{FORMER}{}", former.path)
}

fn of_leaf(entry: &Entry) -> Vec<Arg> {
    let info = entry.info;
    let heading = info.path.strip_suffix(info.name).unwrap_or_default().trim_end_matches('.');
    let value = Arg::new(info.path)
        .long(info.flag)
        .value_name(info.name.to_uppercase())
        .help(help(entry))
        .help_heading(heading.to_owned())
        .action(ArgAction::Set)
        // Whether it is UTF-8 is looked at where the value is read, with the flag's name at hand.
        .value_parser(clap::value_parser!(OsString));
    if !info.ops.ty.is_switch() {
        // `--patience -1s` is a value out of range, not a flag. Text might be a flag whose value was forgotten.
        return vec![if may_be_dashed(info) {
            value.allow_hyphen_values(true)
        } else {
            value.allow_negative_numbers(true)
        }];
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

/// Whether no value of the leaf looks like a flag, so that one is refused where it stands for a value.
fn may_be_dashed(info: &LeafInfo) -> bool {
    let refuses = |text: &&str| crate::guard::catch(|| info.ops.ty.parse_text(text).is_none()).unwrap_or(true);
    ["--x", "--x=1", "--x=a", "--x=true"].iter().all(refuses)
}

fn help(entry: &Entry) -> String {
    let info = entry.info;
    let summary = info.doc.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let mut notes = Vec::new();
    match info.start {
        Start::Default { .. } => notes.extend(info.default_in_a_flag().map(|default| format!("default: {default}"))),
        Start::Computed(computation) => notes.push(format!("default: by rule `{}`", computation.function)),
        Start::Required if info.ops.ty.when_absent().is_none() => notes.push("required".to_owned()),
        Start::Required => {}
    }
    if let Some(names) = info.ops.ty.choices() {
        notes.push(format!("one of: {}", names.join(", ")));
    }
    notes.extend(info.accepted_range().map(|range| format!("range: {range}")));
    notes.extend(info.bootstrap.then(|| "not in files".to_owned()));
    notes.extend(entry.env.as_ref().map(|variable| format!("env: {variable}")));
    let mut help = summary.trim_end_matches('.').to_owned();
    for note in notes {
        help.extend([" [", &note, "]"]);
    }
    help
}

/// What a command line says.
pub(crate) struct Parsed {
    /// None if help is asked for.
    pub(crate) matches: Option<ArgMatches>,
    pub(crate) errors: Errors,
    /// Leaves whose flag was given, but not well.
    pub(crate) refused: Vec<usize>,
}

/// Parses the arguments (program name first). What is faulty is reported and left out, so that the rest can be
/// looked at too.
pub(crate) fn parse<S: ConfigNamespaces>(table: &Table, arguments: Vec<OsString>) -> Parsed {
    let about = S::SCHEMA.doc.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let command = augment::<S>(Command::new("program").about(about));
    let Sorted { mut arguments, mut errors, refused, wants_help } = arguments::sort(&command, arguments);
    if wants_help {
        // The program's name stays, which the help shows.
        arguments.truncate(1);
        arguments.push("--help".into());
    }
    let matches = match command.try_get_matches_from(arguments) {
        Ok(matches) => Some(matches),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Parsed { matches: None, errors: Errors::help(error.to_string()), refused: Vec::new() };
        }
        Err(error) => {
            errors.push(describe(&error));
            None
        }
    };
    let leaf = |id: &String| table.index(id.strip_prefix(NEGATED).unwrap_or(id));
    Parsed { matches, errors, refused: refused.iter().filter_map(leaf).collect() }
}

/// clap's own text on one line, without its label and usage.
fn describe(error: &clap::Error) -> ConfigError {
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    ConfigError::new(message).at("command line")
}

/// The files named by `--config`, lowest precedence first.
pub(crate) fn config_files(matches: &ArgMatches) -> Vec<PathBuf> {
    matches.get_many::<OsString>(CONFIG).into_iter().flatten().map(PathBuf::from).collect()
}

/// The profile named by `--profile`.
pub(crate) fn profile(matches: &ArgMatches) -> Option<Chosen> {
    let name = matches.get_one::<OsString>(PROFILE)?.to_string_lossy().into_owned();
    Some(Chosen { name, by: format!("--{PROFILE}") })
}

/// Takes the values given as flags; what was not given is not a candidate.
pub(crate) fn read(table: &Table, matches: &ArgMatches, candidates: &mut Candidates) {
    for (index, entry) in table.entries.iter().enumerate().filter(|(_, entry)| !entry.is_derived()) {
        let info = entry.info;
        let given = matches.get_one::<OsString>(info.path);
        let negated = info.ops.ty.is_switch() && matches.get_flag(&format!("{NEGATED}{}", info.path));
        if let Some(text) = given {
            let origin = Origin::Flag { flag: format!("--{}", info.flag) };
            candidates.give(table, &Name::Leaf(index), origin, Given::of_os(text));
        } else if negated {
            let origin = Origin::Flag { flag: format!("--no-{}", info.flag) };
            candidates.give(table, &Name::Leaf(index), origin, Given::Text("false"));
        }
    }
    for former in &table.former {
        // Not every former name has an argument of its own.
        if let Ok(Some(text)) = matches.try_get_one::<OsString>(&former_id(former)) {
            let origin = Origin::Flag { flag: format!("--{}", former.flag) };
            candidates.give(table, &Name::Former(former), origin, Given::of_os(text));
        }
    }
}
