//! The command from outside.

use std::process::{Command, Output};

use super::ON_CPU;

/// The command under test, with those arguments.
pub(crate) fn engine(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.args(arguments).env(ON_CPU.0, ON_CPU.1);
    command
}

/// What a command that succeeded has printed.
pub(crate) fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("text")
}

/// The exit code of a command that printed nothing, and what it complained of.
pub(crate) fn refusal(output: &Output) -> (Option<i32>, &str) {
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), std::str::from_utf8(&output.stderr).expect("text"))
}
