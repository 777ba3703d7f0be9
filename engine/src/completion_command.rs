//! `engine completion`: a script with which a shell completes commands, flags and choices.

use std::io::Write;

use engine_config::Settings;
use kitbag::clap::{Arg, ArgMatches, Command, value_parser};
use kitbag::export::{self, Shell};

use crate::cli::{self, Failure};

pub(crate) const NAME: &str = "completion";

pub(crate) fn command() -> Command {
    let shell = Arg::new("SHELL").required(true).value_parser(value_parser!(Shell)).help("The shell to complete in");
    Command::new(NAME)
        .about("Print a completion script, such as for `engine completion bash > /etc/bash_completion.d/engine`")
        .arg(shell)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some(&shell) = matches.get_one::<Shell>("SHELL") else { unreachable!("clap requires a shell") };
    let script = export::completion_of::<Settings>(cli::command(), shell);
    Ok(std::io::stdout().write_all(script.as_bytes())?)
}
