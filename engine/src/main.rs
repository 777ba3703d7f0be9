//! The `engine` command.

mod cli;
mod config_command;
mod generate_command;
mod kernels_command;
mod launch;
mod probe_command;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
