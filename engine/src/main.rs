//! The `engine` command.

mod chat_command;
mod cli;
mod config_command;
mod generate_command;
mod interrupts;
mod kernels_command;
mod launch;
mod probe_command;
mod prompt;
mod result_json;
mod stdin;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
