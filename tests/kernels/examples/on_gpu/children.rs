//! Running the steps of a part in processes, which are begun again behind a step that has ended one.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::alone::Task;
use crate::{Asked, Outcome, steps_of};

/// A step that takes longer is taken for one without an end.
const PATIENCE: Duration = Duration::from_mins(3);
/// Steps of a share that may end their process, before the rest is given up.
const MOST_ENDS: usize = 12;

/// What has come of steps.
#[derive(Default)]
struct Report {
    device: Value,
    target: Value,
    solved: u64,
    failed: Vec<String>,
    values: Vec<Value>,
}

impl Report {
    fn add(&mut self, other: &Value) {
        self.device = other["device"].clone();
        self.target = other["target"].clone();
        self.solved += other["solved"].as_u64().unwrap_or(0);
        let failed = other["failed"].as_array().into_iter().flatten();
        self.failed.extend(failed.filter_map(|fault| fault.as_str().map(str::to_owned)));
        self.values.extend(other["values"].as_array().into_iter().flatten().cloned());
    }
}

/// Runs all steps of a part.
pub(crate) fn run(asked: &Asked, part: &str, steps: usize) -> Outcome<Value> {
    if steps == 0 {
        return Ok(json!({ "skipped": "nothing of it is asked for, or there" }));
    }
    // Most of a problem's time is compilation and the reference, which take one core each.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let shares = if part == "parity" && !asked.is_emulated { (cores / 2).clamp(1, 8) } else { 1 };
    let follow = |share| follow(asked, Task { part: part.to_owned(), share, shares, from: 0 });
    let reports = thread::scope(|scope| {
        let threads: Vec<_> = (0..shares).map(|share| scope.spawn(move || follow(share))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Report::default())).collect::<Vec<_>>()
    });
    let mut all = Report::default();
    for report in reports {
        all.add(&json!({
            "device": report.device, "target": report.target, "solved": report.solved, "failed": report.failed,
            "values": report.values,
        }));
    }
    // The dump of instructions is a file of its own kind.
    if let ("opcodes", [dump]) = (part, all.values.as_slice()) {
        return Ok(dump.clone());
    }
    let left = steps.saturating_sub(all.failed.len() + usize::try_from(all.solved)?);
    Ok(json!({
        "device": all.device, "target": all.target, "solved": all.solved, "failed": all.failed, "left": left,
        "values": all.values,
    }))
}

/// How a process has ended.
enum End {
    Itself(ExitStatus),
    /// Nothing has come of a step for too long.
    Endless,
    /// There was no time for the rest.
    Late,
}

/// Runs the steps of a task, in another process behind each that has ended one.
fn follow(asked: &Asked, mut task: Task) -> Report {
    let mut all = Report::default();
    for _ in 0..MOST_ENDS {
        let path = task.report(asked);
        let _ = fs::remove_file(&path);
        let end = match process(asked, &task, &path) {
            Ok(end) => end,
            Err(error) => {
                all.failed.push(format!("{}: {error}", task.part));
                return all;
            }
        };
        let report = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
        let report: Value = report.unwrap_or_default();
        let at = report["at"].as_u64().and_then(|at| usize::try_from(at).ok());
        all.add(&report);
        let why = match end {
            End::Late => return all,
            End::Endless => format!("no end within {} s", PATIENCE.as_secs()),
            End::Itself(status) if at.is_none() => {
                if report.is_null() {
                    all.failed.push(format!("{}: nothing began ({status}); see {}", task.part, log(&path).display()));
                }
                return all;
            }
            End::Itself(status) => format!("the process ended: {status}"),
        };
        let Some(at) = at else { return all };
        if report["is_lost"] != true {
            let name = steps_of(&task.part, asked).into_iter().nth(at).map(|step| step.name);
            all.failed.push(format!("{}: {why}", name.unwrap_or_default()));
        }
        task.from = at + 1;
    }
    all.failed.push(format!("{}: given up after {MOST_ENDS} steps that ended their process", task.part));
    all
}

/// What a process says goes to a file beside its report.
fn log(report: &Path) -> std::path::PathBuf {
    report.with_extension("log")
}

fn process(asked: &Asked, task: &Task, report: &Path) -> Outcome<End> {
    let said = File::options().create(true).append(true).open(log(report))?;
    let mut child = command(asked, task)?.stdout(said.try_clone()?).stderr(said).spawn()?;
    let (mut latest, mut since) = (None, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Itself(status));
        }
        let told = fs::metadata(report).and_then(|metadata| metadata.modified()).ok();
        if told != latest {
            (latest, since) = (told, Instant::now());
        }
        let is_late = asked.left().is_some_and(|left| left.is_zero());
        if is_late || since.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(if is_late { End::Late } else { End::Endless });
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// This program, for a task.
pub(crate) fn command(asked: &Asked, task: &Task) -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--alone").arg(task.argument()).arg("--output").arg(&asked.output).arg("--models").arg(&asked.models);
    for (is_wanted, argument) in [(asked.is_thin, "--thin"), (asked.is_emulated, "--emulated")] {
        if is_wanted {
            command.arg(argument);
        }
    }
    for (argument, folder) in [("--nvrtc", &asked.options.nvrtc_path), ("--prebuilt", &asked.options.prebuilt)] {
        if let Some(folder) = folder {
            command.arg(argument).arg(folder);
        }
    }
    Ok(command)
}
