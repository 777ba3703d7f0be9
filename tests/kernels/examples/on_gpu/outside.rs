//! Programs that may be on the machine: NVIDIA's sanitizer, and torch for comparison.

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::alone::Task;
use crate::children::command;
use crate::{Asked, Outcome};

const TOOLS: [&str; 4] = ["memcheck", "racecheck", "synccheck", "initcheck"];
/// A tool is not begun with less time than this.
const SHORTEST: Duration = Duration::from_mins(1);

/// This program's sample of problems under each tool of compute-sanitizer.
pub(crate) fn sanitizer(asked: &Asked) -> Outcome<Value> {
    if asked.is_emulated || Command::new("compute-sanitizer").arg("--version").output().is_err() {
        return Ok(json!({ "skipped": "compute-sanitizer is not on this machine, or the device is emulated" }));
    }
    let mut failed = Vec::new();
    let mut tools = Vec::new();
    for tool in TOOLS {
        if asked.left().is_some_and(|left| left < SHORTEST) {
            tools.push(json!({ "tool": tool, "skipped": "there was no time" }));
            continue;
        }
        let task = Task { part: "sample".to_owned(), share: 0, shares: 1, from: 0 };
        let asked = Asked { output: asked.output.join(tool), ..asked.clone() };
        fs::create_dir_all(&asked.output)?;
        let program = command(&asked, &task)?;
        let mut sanitizer = within(asked.left(), "compute-sanitizer");
        sanitizer.args(["--tool", tool, "--error-exitcode", "9"]).arg(program.get_program()).args(program.get_args());
        let output = sanitizer.output()?;
        if asked.left().is_some_and(|left| left.is_zero()) {
            tools.push(json!({ "tool": tool, "skipped": "there was no time for the end of it" }));
            continue;
        }
        let report: Value =
            serde_json::from_str(&fs::read_to_string(task.report(&asked)).unwrap_or_default()).unwrap_or_default();
        let is_whole = report["at"].is_null() && report["failed"].as_array().is_some_and(Vec::is_empty);
        if !output.status.success() || !is_whole {
            failed.push(format!("{tool}: {}", last_lines(&output)));
        }
        tools.push(json!({ "tool": tool, "status": output.status.to_string(), "said": last_lines(&output) }));
    }
    Ok(json!({ "tools": tools, "failed": failed }))
}

/// What torch takes for the same work, if it is there and sees a GPU.
pub(crate) fn torch(asked: &Asked) -> Outcome<Value> {
    let output = within(asked.left(), "python3").args(["-c", include_str!("torch_baselines.py")]).output();
    match output {
        Ok(output) if output.status.success() => Ok(serde_json::from_slice(&output.stdout)?),
        Ok(output) => Ok(json!({ "skipped": last_lines(&output) })),
        Err(error) => Ok(json!({ "skipped": format!("python3: {error}") })),
    }
}

/// A program that is ended when the time is over.
fn within(left: Option<Duration>, program: &str) -> Command {
    let Some(left) = left else { return Command::new(program) };
    let mut timeout = Command::new("timeout");
    // With 0 there would be no limit.
    timeout.args([&left.as_secs().max(1).to_string(), program]);
    timeout
}

fn last_lines(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
