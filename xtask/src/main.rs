//! Development tasks: `cargo xtask <task>`.

use std::process::ExitCode;

mod answer;
mod budget;
mod cold_build;
mod config_docs;
mod cuda_tools;
mod dependencies;
mod docs;
mod environment;
mod growth;
mod invariants;
mod kernel_mutants;
mod licence;
mod size;
mod steps;
mod text;
mod workspace;

use workspace::Outcome;

/// A task's name, the line that describes it, and what runs it with the arguments after the name.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task { name: "test", about: "check everything; --list shows the steps, --only NAME selects", run: steps::run },
    Task {
        name: "cuda-tools",
        about: "fetch the CUDA run-time compiler and disassembler into target/cuda-tools",
        run: |arguments| without(arguments, cuda_tools::run),
    },
    Task {
        name: "kernel-mutants",
        about: "break the CUDA kernels in every place, one at a time; files of kernels/cu select",
        run: kernel_mutants::run,
    },
    Task {
        name: "kernels",
        about: "compile the CUDA kernels; prints registers, memory and instructions; --bless, --check, --time",
        run: kernels,
    },
    Task {
        name: "docs",
        about: "make docs/config from the engine's settings; --check shows what would change",
        run: config_docs::run,
    },
    Task {
        name: "budget",
        about: "time the compilation of 543 settings, beside clap-derive and serde-derive",
        run: |arguments| without(arguments, budget::run),
    },
    Task {
        name: "cold-build",
        about: "build a program of ten settings from nothing, beside clap and figment",
        run: |arguments| without(arguments, cold_build::run),
    },
    Task {
        name: "size",
        about: "count the engine's crates and time a release build from nothing",
        run: |arguments| without(arguments, size::run),
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        return usage();
    };
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        return usage();
    };
    match (task.run)(&arguments.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A program beside the tests of the kernels, which knows them.
fn kernels(arguments: &[String]) -> Outcome {
    cuda_tools::run()?;
    workspace::run(workspace::cargo("run --quiet -p kernel-tests --example machine_code --").args(arguments))
}

/// Runs a task that takes no arguments.
fn without(arguments: &[String], run: fn() -> Outcome) -> Outcome {
    if arguments.is_empty() { run() } else { Err(format!("unexpected {}", arguments.join(" ")).into()) }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask <task>\n\ntasks:");
    for task in TASKS {
        eprintln!("  {:<14} {}", task.name, task.about);
    }
    ExitCode::FAILURE
}
