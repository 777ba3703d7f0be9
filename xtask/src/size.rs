//! `cargo xtask size`: what the engine costs to build.

use std::fs;
use std::time::Instant;

use crate::dependencies::engine_crates;
use crate::workspace::{Outcome, cargo, run as run_command};

/// Prints the number of crates, the time of a release build from nothing and the size of the binary.
pub(crate) fn run() -> Outcome {
    let crates = engine_crates()?;
    let target = tempfile::tempdir()?;
    run_command(&mut cargo("fetch --locked"))?;
    let start = Instant::now();
    run_command(cargo("build --release --locked --quiet -p engine").env("CARGO_TARGET_DIR", target.path()))?;
    let time = start.elapsed().as_secs_f64();
    let binary = target.path().join("release").join(format!("engine{}", std::env::consts::EXE_SUFFIX));
    let size = fs::metadata(binary)?.len() as f64 / f64::from(1 << 20);
    println!("crates         {crates}\nrelease build  {time:.1} s\nbinary         {size:.1} MiB");
    Ok(())
}
