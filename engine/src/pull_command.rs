//! `engine pull`: fetch a model for later.

use std::io::Write;
use std::path::PathBuf;

use engine_config::Settings;
use kitbag::ConfigNamespaces;
use kitbag::clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;

use crate::cli::{Failure, loader};
use crate::launch;

pub(crate) const NAME: &str = "pull";
const MODEL: &str = "MODEL";

pub(crate) fn command() -> Command {
    let command = Command::new(NAME)
        .about("Fetch a model from a hub, check it and say where it is")
        .arg(
            Arg::new(MODEL)
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("model.model_path")
                .help("OWNER/NAME, OWNER/NAME:QUANTISATION or a short name; the model of the settings unless given"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object"));
    Settings::augment(command)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let name = matches.get_one::<PathBuf>(MODEL).map(PathBuf::as_path);
    let (path, record) = launch::pull(&loader(matches), name)?;
    let mut out = std::io::stdout();
    if matches.get_flag("json") {
        writeln!(out, "{}", json!({ "path": path.display().to_string(), "record": record }))?;
        return Ok(());
    }
    if let Some(record) = record {
        writeln!(out, "{} at commit {}", record.repository, record.commit)?;
        for file in record.files {
            writeln!(out, "{:>14} bytes  {}  {}", file.bytes, file.sha256, file.name)?;
        }
    }
    Ok(writeln!(out, "{}", path.display())?)
}
