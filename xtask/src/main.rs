//! Development tasks: `cargo xtask <task>`.

use std::process::ExitCode;

mod cuda_tools;

/// A task's name, the line that describes it, and what runs it.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<(), Box<dyn std::error::Error>>,
}

const TASKS: &[Task] = &[Task {
    name: "cuda-tools",
    about: "fetch the CUDA run-time compiler into target/cuda-tools",
    run: cuda_tools::run,
}];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), None) = (arguments.next(), arguments.next()) else {
        return usage();
    };
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        return usage();
    };
    match (task.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask <task>\n\ntasks:");
    for task in TASKS {
        eprintln!("  {:<12} {}", task.name, task.about);
    }
    ExitCode::FAILURE
}
