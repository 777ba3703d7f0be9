//! `engine config`: what the settings are, where they come from, and what may be set.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use engine_config::Settings;
use kitbag::clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use kitbag::{Class, ConfigNamespaces, Context, Loader, Value, export};
use serde::Serialize;

use crate::cli::{Failure, loader, settings};
use crate::terminal::Paint;
use crate::{launch, probe_command};

pub(crate) const NAME: &str = "config";

pub(crate) fn command() -> Command {
    let leaf = Arg::new("LEAF").required(true).help("Path of a setting, such as schedule.page_size");
    let view = Arg::new("view")
        .long("view")
        .value_parser(["record", "resolved", "effective", "loaded"])
        .default_value("effective");
    let format = Arg::new("format").long("format").value_parser(["toml", "json"]).default_value("toml");
    let files = Arg::new("FILE").required(true).action(ArgAction::Append).value_parser(value_parser!(PathBuf));
    let two = Arg::new("FILE").required(true).value_parser(value_parser!(PathBuf));
    let two = two.num_args(2).value_names(["A", "B"]).help("Two configuration files");
    let plain = |name, about| Command::new(name).about(about);
    let loaded = Arg::new("loaded").long("loaded").action(ArgAction::SetTrue);
    let loaded = loaded.help("With what the model decides, which is opened for that");
    Command::new(NAME)
        .about("Show and check settings")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Settings::augment(
            plain("explain", "Every value given for a setting, by whom, and which one counts").arg(leaf).arg(loaded),
        ))
        .subcommand(Settings::augment(
            plain("dump", "All settings: as given (record), settled (resolved), in effect (effective), also by the model (loaded)")
                .arg(view.help("Which stage of a setting's life to show"))
                .arg(format.help("How to write it")),
        ))
        .subcommand(
            plain("check", "Check files as they are, without environment and flags")
                .arg(files.help("Configuration files")),
        )
        .subcommand(plain("diff", "Settings in which two files differ").arg(two))
        .subcommand(plan_command())
        .subcommand(plain("schema", "JSON Schema of configuration files"))
        .subcommand(plain("docs", "Reference of all settings, as Markdown"))
        .subcommand(plain("template", "A configuration file with every setting at its default"))
        .subcommand(plain("fields", "One line per setting: path, type, default, class"))
        .subcommand(probe_command::command())
}

fn plan_command() -> Command {
    let files = |name| Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf));
    Command::new("plan")
        .about("What a change of settings would do to a running engine, and what stands against it")
        .arg(
            files("config")
                .action(ArgAction::Append)
                .help("Files that are in force, in order [default: the file that ENGINE_CONFIG names]"),
        )
        .arg(files("to").action(ArgAction::Append).help("Files to be read instead of those, in order"))
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("LEAF=VALUE")
                .action(ArgAction::Append)
                .value_parser(|text: &str| match text.split_once('=') {
                    Some((leaf, value)) => Ok((leaf.to_owned(), value.to_owned())),
                    None => Err("expected LEAF=VALUE, such as sampling.temperature=0.5"),
                })
                .help("A setting to be overridden while the engine runs"),
        )
        .group(ArgGroup::new("change").args(["to", "set"]).required(true))
        .after_help("Files and the environment are looked at; flags of an engine that runs are not known here.")
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let text = match matches.subcommand() {
        Some(("explain", matches)) => explain(matches)?,
        Some(("dump", matches)) => dump(matches)?,
        Some(("check", matches)) => check(&files(matches))?,
        Some(("diff", matches)) => diff(&files(matches))?,
        Some(("plan", matches)) => return plan(matches),
        Some(("schema", _)) => export::json_schema::<Settings>(),
        Some(("docs", _)) => export::markdown::<Settings>(),
        Some(("template", _)) => export::toml_template::<Settings>(),
        Some(("fields", _)) => export::listing::<Settings>(),
        Some((probe_command::NAME, matches)) => probe_command::run(matches)?,
        _ => unreachable!("clap requires one of the commands above"),
    };
    print(&text)
}

/// Text of whole lines, as all documents are.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn json(document: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(document).map(|text| text + "\n").map_err(Failure::run)
}

fn files(matches: &ArgMatches) -> Vec<PathBuf> {
    matches.get_many::<PathBuf>("FILE").into_iter().flatten().cloned().collect()
}

fn explain(matches: &ArgMatches) -> Result<String, Failure> {
    let path = matches.get_one::<String>("LEAF").map(String::as_str).unwrap_or_default();
    let context = if matches.get_flag("loaded") { opened(matches)? } else { settings(matches)? };
    let explanation = context.explain(path).map_err(|error| Failure::Usage(error.to_string()))?;
    let paint = Paint::for_stdout();
    // The value that counts stands out.
    let line = |line: &str| if line.trim_start().starts_with('>') { paint.bold(line) } else { line.to_owned() };
    Ok(explanation.to_string().lines().map(|text| line(text) + "\n").collect())
}

/// The settings that hold once the model has been opened.
fn opened(matches: &ArgMatches) -> Result<Context<Settings>, Failure> {
    Ok(launch::open(&loader(matches), None)?.context)
}

fn dump(matches: &ArgMatches) -> Result<String, Failure> {
    let is_json = matches.get_one::<String>("format").is_some_and(|format| format == "json");
    let values = match matches.get_one::<String>("view").map(String::as_str) {
        Some("record") => return dump_record(matches, is_json),
        Some("resolved") => loader(matches).resolve()?.values(),
        Some("loaded") => opened(matches)?.values(),
        _ => settings(matches)?.values(),
    };
    if is_json {
        let values: BTreeMap<_, _> = values.into_iter().collect();
        return json(&values);
    }
    // The dump is itself a configuration file: what cannot be set is a comment in it.
    let paint = Paint::for_stdout();
    let line = |(path, value): (&str, Value)| {
        let derived = Settings::SCHEMA.leaf(path).is_some_and(|leaf| leaf.class == Class::Derived);
        let line = export::toml_line(path, &value);
        if derived { paint.dim(format!("# derived: {line}")) } else { line }
    };
    Ok(values.into_iter().map(|leaf| line(leaf) + "\n").collect())
}

fn dump_record(matches: &ArgMatches, is_json: bool) -> Result<String, Failure> {
    let record = loader(matches).record()?;
    if is_json {
        let entries: Vec<_> = record
            .entries()
            .map(
                |(path, origin, value)| serde_json::json!({"leaf": path, "origin": origin.to_string(), "value": value}),
            )
            .collect();
        return json(&entries);
    }
    let paint = Paint::for_stdout();
    let mut text = String::new();
    for (path, origin, value) in record.entries() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {}", export::toml_line(path, &value), paint.dim(format!("# {origin}")));
    }
    if text.is_empty() {
        text = paint.dim("# nothing is given: every setting has its default") + "\n";
    }
    Ok(text)
}

/// Each file on its own; all that is wrong in any of them.
fn check(files: &[PathBuf]) -> Result<String, Failure> {
    let paint = Paint::for_stdout();
    let mut good = String::new();
    let mut faults = Vec::new();
    for file in files {
        match Settings::loader().file(file).resolve() {
            Ok(resolved) => {
                let _ = writeln!(good, "{}: {}", file.display(), paint.green("ok"));
                for warning in resolved.warnings() {
                    let _ = writeln!(good, "{}: {} {warning}", file.display(), paint.yellow("warning:"));
                }
            }
            Err(errors) => faults.extend(errors.iter().map(ToString::to_string)),
        }
    }
    if faults.is_empty() { Ok(good) } else { Err(Failure::Run(faults.join("\n"))) }
}

fn diff(files: &[PathBuf]) -> Result<String, Failure> {
    let resolve = |file: &Path| Settings::loader().file(file).resolve();
    let [one, two] = files else { unreachable!("clap requires two files") };
    let (one, two) = match (resolve(one), resolve(two)) {
        (Ok(one), Ok(two)) => (one.values(), two.values()),
        // What is wrong in both files is told together.
        (one, two) => {
            let faults = one.err().into_iter().chain(two.err()).map(|errors| errors.to_string());
            return Err(Failure::Usage(faults.collect::<Vec<_>>().join("\n")));
        }
    };
    let paint = Paint::for_stdout();
    let changed = one.iter().zip(&two).filter(|((_, old), (_, new))| old != new);
    let lines = changed.map(|((path, old), (_, new))| format!("{path}: {} -> {}\n", paint.red(old), paint.green(new)));
    let lines: String = lines.collect();
    Ok(if lines.is_empty() { "no differences\n".to_owned() } else { lines })
}

/// The change as planned on standard output; a failure says that it would be refused.
fn plan(matches: &ArgMatches) -> Result<(), Failure> {
    let cfg = loader_of(matches, "config").load()?;
    let plan = if matches.contains_id("to") {
        cfg.plan_reload(&loader_of(matches, "to"))?
    } else {
        let set: Vec<_> = matches.get_many::<(String, String)>("set").into_iter().flatten().collect();
        let set: Vec<_> = set.iter().map(|(leaf, value)| (leaf.as_str(), value.as_str())).collect();
        cfg.plan_by_name("--set", &set)?
    };
    print(&plan.to_string())?;
    plan.check().map_err(|_| Failure::Run("a running engine would refuse this change".to_owned()))
}

/// Files of an argument and the environment. As a flag does, files given replace the one that a variable names.
fn loader_of(matches: &ArgMatches, argument: &str) -> Loader<Settings> {
    let files: Vec<_> = matches.get_many::<PathBuf>(argument).into_iter().flatten().collect();
    let replaced = |(name, _): &(OsString, OsString)| !files.is_empty() && name == "ENGINE_CONFIG";
    let variables = std::env::vars_os().filter(|variable| !replaced(variable));
    files.iter().fold(Settings::loader().env(variables), Loader::file)
}
