//! Programs that may be on the machine: NVIDIA's sanitizer, and torch for comparison.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::{Asked, Outcome};

const TOOLS: [&str; 4] = ["memcheck", "racecheck", "synccheck", "initcheck"];

/// This program's own sample of problems under each tool of compute-sanitizer.
pub(crate) fn sanitizer(asked: &Asked) -> Outcome<Value> {
    if asked.is_emulated || Command::new("compute-sanitizer").arg("--version").output().is_err() {
        return Ok(json!({ "skipped": "compute-sanitizer is not on this machine, or the device is emulated" }));
    }
    let mut failed = Vec::new();
    let mut tools = Vec::new();
    for tool in TOOLS {
        let mut command = Command::new("compute-sanitizer");
        command.args(["--tool", tool, "--error-exitcode", "9"]).arg(std::env::current_exe()?);
        command.args(["--only", "parity", "--thin", "--output"]).arg(asked.output.join(tool));
        if let Some(folder) = &asked.options.nvrtc_path {
            command.arg("--nvrtc").arg(folder);
        }
        if let Some(folder) = &asked.options.prebuilt {
            command.arg("--prebuilt").arg(folder);
        }
        let output = command.output()?;
        if !output.status.success() {
            failed.push(format!("{tool}: {}", last_lines(&output)));
        }
        tools.push(json!({ "tool": tool, "status": output.status.to_string(), "said": last_lines(&output) }));
    }
    Ok(json!({ "tools": tools, "failed": failed }))
}

/// What torch takes for the same work, if it is there and sees a GPU.
pub(crate) fn torch() -> Outcome<Value> {
    let output = Command::new("python3").args(["-c", include_str!("torch_baselines.py")]).output();
    match output {
        Ok(output) if output.status.success() => Ok(serde_json::from_slice(&output.stdout)?),
        Ok(output) => Ok(json!({ "skipped": last_lines(&output) })),
        Err(error) => Ok(json!({ "skipped": format!("python3: {error}") })),
    }
}

fn last_lines(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
