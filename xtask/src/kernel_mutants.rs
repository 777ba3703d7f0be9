//! Breaking the CUDA kernels in every place.

use std::fs::File;

use crate::cuda_tools;
use crate::workspace::{Outcome, cargo, root, run as run_command};

/// Tries every mutant of the kernels in `files`, or of all.
pub(crate) fn run(files: &[String]) -> Outcome {
    cuda_tools::run()?;
    run_command(&mut cargo("build --quiet -p kernel-tests --bin kernel_mutants"))?;
    // The emulated driver tells of every failed kernel, which here is all the time.
    let log = root().join("target/kernel-mutants.log");
    println!("what the emulator reports goes to {}", log.display());
    let mut program = cargo("run --quiet -p kernel-tests --bin kernel_mutants --");
    run_command(program.args(files).stderr(File::create(log)?))
}
