//! The `engine` command.

mod bench_command;
mod chat_command;
mod cli;
mod completion_command;
mod config_command;
mod generate_command;
mod inspect_command;
mod interrupts;
mod kernels_command;
mod launch;
mod machine;
mod probe_command;
mod prompt;
mod pull_command;
mod result_json;
mod stdin;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
