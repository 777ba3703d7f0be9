//! The command that the README shows first is run as written, and has to answer.

use crate::docs;
use crate::workspace::{Outcome, output, program};

const ASKS: &str = "What is the capital of France?";
const ANSWER: &str = "Paris";

/// Runs it. On a new machine this fetches the default model, which the engine's tests use too.
pub(crate) fn check() -> Outcome {
    let commands = docs::commands("README.md")?;
    let command = commands.iter().find(|command| command.text.contains(ASKS));
    let command = command.ok_or_else(|| format!("README.md has no command that asks `{ASKS}`"))?;
    let said = output(&mut program("sh", &["-c", &command.text]))?;
    println!("{}", said.trim_end());
    if said.contains(ANSWER) { Ok(()) } else { Err(format!("the answer does not name {ANSWER}").into()) }
}
