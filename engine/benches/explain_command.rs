//! What `engine config explain LEAF` takes, from the start of the process to its end:
//! `cargo bench -p engine --bench explain_command`.
//!
//! The medians of many runs, and beside it a command that does nothing, since starting a process takes its time. The bar
//! is 30 ms. Nothing fails: a time depends on the machine.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

const RUNS: usize = 201;

/// Milliseconds of one run.
fn run(program: &str, arguments: &[&str]) -> f64 {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("ENGINE_SCHEDULE_CHUNKED_PREFILL_SIZE", "64").stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("it runs");
    let time = start.elapsed().as_secs_f64() * 1e3;
    assert!(status.success(), "{program} {arguments:?}: {status}");
    time
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let file = folder.path().join("engine.toml");
    fs::write(&file, "[schedule]\nchunked_prefill_size = 32\npage_size = 8\n").expect("written");
    let file = file.to_str().expect("text");
    let engine = env!("CARGO_BIN_EXE_engine");
    let cases: [(&str, &str, &[&str]); 4] = [
        ("true, which does nothing", "true", &[]),
        ("explain a setting", engine, &["config", "explain", "schedule.page_size"]),
        (
            "explain one with file, variable and flag",
            engine,
            &["config", "explain", "schedule.chunked_prefill_size", "--config", file, "--chunked-prefill-size=16"],
        ),
        ("explain a derived value", engine, &["config", "explain", "schedule.pool_pages", "--config", file]),
    ];
    let mut times = cases.map(|_| Vec::with_capacity(RUNS));
    // In turn, so that a noisy moment falls on all alike.
    for _ in 0..RUNS {
        for ((_, program, arguments), times) in cases.iter().zip(&mut times) {
            times.push(run(program, arguments));
        }
    }
    println!("{:<42} {:>8} {:>8}", "milliseconds, of the whole process", "median", "most");
    for ((name, ..), mut times) in cases.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        println!("{name:<42} {:>8.2} {:>8.2}", times[RUNS / 2], times[RUNS - 1]);
    }
}
