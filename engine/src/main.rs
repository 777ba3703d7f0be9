//! The `engine` command.

mod bench_command;
mod cli;
mod completion_command;
mod config_command;
mod generate_command;
mod inspect_command;
mod kernels_command;
mod launch;
mod machine;
mod probe_command;
mod pull_command;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
