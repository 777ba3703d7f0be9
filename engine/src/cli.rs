//! The command line: which command, its flags, and how it ends.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use engine_config::Settings;
use kitbag::clap::error::ErrorKind;
use kitbag::clap::{ArgMatches, Command};
use kitbag::{ConfigNamespaces, Context, Errors, Loader};

use crate::{
    bench_command, chat_command, completion_command, config_command, generate_command, inspect_command, interrupts,
    kernels_command, pull_command,
};

/// Why a command did not do what it was asked.
pub(crate) enum Failure {
    /// The command line or another source of settings is wrong.
    Usage(String),
    /// Something went wrong underway.
    Run(String),
    /// The user pressed Ctrl-C. What was done until then has been said.
    Interrupted,
    /// Whoever reads standard output has stopped reading, which is theirs to decide.
    OutputClosed,
}

impl Failure {
    /// A failure underway.
    pub(crate) fn run(error: impl Display) -> Self {
        Self::Run(error.to_string())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(message) | Self::Run(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted"),
            Self::OutputClosed => f.write_str("nobody reads standard output any more"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Run(format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<Errors> for Failure {
    fn from(errors: Errors) -> Self {
        Self::Usage(errors.to_string())
    }
}

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("engine")
        .about("An inference engine for large language models")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(generate_command::command())
        .subcommand(chat_command::command())
        .subcommand(pull_command::command())
        .subcommand(bench_command::command())
        .subcommand(inspect_command::command())
        .subcommand(config_command::command())
        .subcommand(kernels_command::command())
        .subcommand(completion_command::command())
}

/// Runs the command of this process: 0 when it did what it was asked, 1 when something went wrong, 2 when it was asked wrongly,
/// 130 when the user stopped it.
pub(crate) fn run() -> ExitCode {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return explain(&error),
    };
    let done = match matches.subcommand() {
        Some((generate_command::NAME, matches)) => generate_command::run(matches),
        Some((chat_command::NAME, matches)) => chat_command::run(matches),
        Some((pull_command::NAME, matches)) => pull_command::run(matches),
        Some((bench_command::NAME, matches)) => bench_command::run(matches),
        Some((inspect_command::NAME, matches)) => inspect_command::run(matches),
        Some((completion_command::NAME, matches)) => completion_command::run(matches),
        Some((config_command::NAME, matches)) => config_command::run(matches),
        Some((kernels_command::NAME, matches)) => kernels_command::run(matches),
        _ => unreachable!("clap requires one of the commands above"),
    };
    match done {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Interrupted) => ExitCode::from(interrupts::EXIT_CODE),
        Err(Failure::Run(message)) => end(&message, 1),
        Err(Failure::Usage(message)) => end(&message, 2),
    }
}

/// The sources of a command's settings: file, environment and flags.
pub(crate) fn loader(matches: &ArgMatches) -> Loader<Settings> {
    Settings::loader().env(std::env::vars_os()).matches(matches)
}

/// The settings of a command. Names that are going away are warned of.
pub(crate) fn settings(matches: &ArgMatches) -> Result<Context<Settings>, Failure> {
    let context = loader(matches).load()?;
    warn(&context.warnings());
    Ok(context)
}

/// Tells of what goes on nevertheless, such as the use of names that are going away.
pub(crate) fn warn(warnings: &[impl Display]) {
    for warning in warnings {
        warn_in_words(&warning.to_string());
    }
}

/// Warns of something that is not about settings.
pub(crate) fn warn_in_words(warning: &str) {
    // A reader that is gone misses a warning, nothing else.
    let _ = writeln!(std::io::stderr(), "engine: warning: {warning}");
}

/// Tells of something that took time, or will be of use later.
pub(crate) fn note(note: &str) {
    // As above.
    let _ = writeln!(std::io::stderr(), "engine: {note}");
}

fn explain(error: &kitbag::clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // Nothing is left to do when the reader of the explanation is gone.
    let _ = error.print();
    ExitCode::from(if asked { 0 } else { 2 })
}

fn end(message: &str, code: u8) -> ExitCode {
    // As above.
    let _ = writeln!(std::io::stderr(), "engine: {message}");
    ExitCode::from(code)
}
