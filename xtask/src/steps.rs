//! `cargo xtask test`: everything that has to hold, step by step.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::workspace::{Outcome, cargo, root, run as run_command};
use crate::{answer, config_docs, cuda_tools, dependencies, docs, growth, invariants, text};

pub(crate) struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Outcome,
}

/// In this order: what fails fast comes first, and what a step needs comes before it.
const STEPS: &[Step] = &[
    Step {
        name: "format",
        about: "rustfmt has nothing to change",
        run: || run_command(&mut cargo("fmt --all --check")),
    },
    Step { name: "text", about: "tracked files name no machine or registry; links lead somewhere", run: text::check },
    Step {
        name: "invariants",
        about: "unsafe code, dependencies and reads of the environment stay where they belong",
        run: invariants::check,
    },
    Step { name: "dependencies", about: "number, licences and origin of all crates", run: dependencies::check },
    Step { name: "clippy", about: "no warning anywhere", run: clippy },
    Step { name: "cuda-tools", about: "the CUDA run-time compiler is in place", run: cuda_tools::run },
    Step { name: "answer", about: "the README's first command answers its question", run: answer::check },
    Step { name: "tests", about: "unit and integration tests, and tests inside examples", run: tests },
    Step { name: "on-gpu", about: "the run for machines with a GPU, on the emulated device", run: on_gpu },
    Step { name: "loom", about: "every order of threads at the publication cell", run: loom },
    Step { name: "doctests", about: "Rust code in documentation", run: doctests },
    Step { name: "rustdoc", about: "documentation builds without a warning", run: rustdoc },
    Step { name: "settings", about: "docs/config is what the engine's settings say", run: config_docs::check },
    Step { name: "census", about: "code reads every leaf of the engine's settings", run: census },
    Step { name: "growth", about: "a schema twice as large costs about twice as much to check", run: growth::check },
    Step { name: "docs", about: "shell commands in README and docs", run: docs::check },
];

/// Runs all steps, or those that `--only` names, and reports every one that failed.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let Some(steps) = select(&arguments.iter().map(String::as_str).collect::<Vec<_>>())? else {
        for step in STEPS {
            println!("{:<12} {}", step.name, step.about);
        }
        return Ok(());
    };
    let start = Instant::now();
    let results: Vec<_> = steps.into_iter().map(|step| (step, timed(step))).collect();
    println!("\n== summary");
    for (step, (passed, time)) in &results {
        println!("{:<12} {:>6.1} s  {}", step.name, time.as_secs_f64(), if *passed { "ok" } else { "FAILED" });
    }
    println!("{:<12} {:>6.1} s", "all", start.elapsed().as_secs_f64());
    let failed: Vec<_> = results.iter().filter(|(_, (passed, _))| !passed).map(|(step, _)| step.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

/// The steps to run; none if they are only to be listed.
pub(crate) fn select(arguments: &[&str]) -> Outcome<Option<Vec<&'static Step>>> {
    let mut named = Vec::new();
    let mut rest = arguments.iter().copied();
    while let Some(argument) = rest.next() {
        match argument {
            "--list" => return Ok(None),
            "--only" => {
                let name = rest.next().ok_or("--only needs the name of a step")?;
                let step = STEPS.iter().find(|step| step.name == name);
                named.push(step.ok_or_else(|| format!("no step is called `{name}`; --list shows them"))?);
            }
            other => return Err(format!("unknown argument `{other}`; there are --list and --only NAME").into()),
        }
    }
    Ok(Some(if named.is_empty() { STEPS.iter().collect() } else { named }))
}

fn timed(step: &Step) -> (bool, Duration) {
    println!("\n== {}: {}", step.name, step.about);
    let start = Instant::now();
    let outcome = (step.run)();
    let time = start.elapsed();
    match &outcome {
        Ok(()) => println!("-- {}: ok, {:.1} s", step.name, time.as_secs_f64()),
        Err(error) => println!("{error}\n-- {}: FAILED, {:.1} s", step.name, time.as_secs_f64()),
    }
    (outcome.is_ok(), time)
}

fn clippy() -> Outcome {
    run_command(&mut cargo("clippy --workspace --all-targets --all-features --quiet -- -D warnings"))?;
    run_command(&mut cargo("clippy -p kernels --all-targets --no-default-features --quiet -- -D warnings"))
}

fn tests() -> Outcome {
    // Not --all-targets: that would run benchmarks, without optimisation.
    run_command(&mut cargo("test --workspace --all-features --no-fail-fast --lib --bins --tests --examples"))
}

/// As on a machine without NVRTC: kernels are compiled first, and then there are only they.
fn on_gpu() -> Outcome {
    const KERNELS: &str = "target/on_gpu-kernels";
    let program = "run --quiet -p kernel-tests --example on_gpu --";
    // Those of other sources would only take room.
    if let Err(error) = fs::remove_dir_all(root().join(KERNELS))
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error.into());
    }
    run_command(&mut cargo(&format!("{program} --prebuild {KERNELS} --target ptx --thin")))?;
    // NVRTC is looked for in a folder that has none.
    let folders = format!("--prebuilt {KERNELS} --nvrtc {KERNELS} --output target/on_gpu-emulated");
    run_command(&mut cargo(&format!("{program} --emulated {folders}")))
}

/// In a target folder of its own: the flag would have everything else built anew.
fn loom() -> Outcome {
    let target = root().join("target/loom");
    run_command(
        cargo("test -p kitbag --release --lib --quiet published")
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", target),
    )
}

fn doctests() -> Outcome {
    run_command(&mut cargo("test --workspace --all-features --no-fail-fast --doc"))
}

fn rustdoc() -> Outcome {
    run_command(cargo("doc --workspace --all-features --no-deps --quiet").env("RUSTDOCFLAGS", "-D warnings"))
}

fn census() -> Outcome {
    run_command(&mut cargo(
        "run --quiet -p kitbag-census -- unread -p engine -p engine-config --leaves docs/config/leaves.txt",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Result<Option<Vec<&'static str>>, String> {
        let steps = select(arguments).map_err(|error| error.to_string())?;
        Ok(steps.map(|steps| steps.iter().map(|step| step.name).collect()))
    }

    #[test]
    fn steps_are_selected_by_name() {
        assert_eq!(names(&[]).unwrap().unwrap().len(), STEPS.len());
        assert_eq!(names(&["--only", "docs", "--only", "format"]).unwrap().unwrap(), ["docs", "format"]);
        assert!(names(&["--list"]).unwrap().is_none());
        assert!(names(&["--only", "dcos"]).unwrap_err().contains("dcos"));
        assert!(names(&["--only"]).is_err());
        assert!(names(&["docs"]).is_err());
    }
}
