//! Programs that may be on the machine: NVIDIA's sanitizer, and torch for comparison.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::alone::Task;
use crate::asked::Asked;
use crate::children::command;
use crate::{Outcome, skipped};

const TOOLS: [&str; 4] = ["memcheck", "racecheck", "synccheck", "initcheck"];
/// Where the sanitizer is: on the path, or where CUDA is installed.
const SANITIZERS: [&str; 2] = ["compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer"];
/// A tool is not begun with less time than this.
const SHORTEST: Duration = Duration::from_secs(20);
/// A torch that takes longer has no end, or the time is better spent on the parts behind it.
const LONGEST_TORCH: Duration = Duration::from_mins(1);
/// What `timeout` returns where it has ended a program, and where that took its last means.
const LATE: [i32; 2] = [124, 137];
const TORCH: &str = include_str!("torch_baselines.py");
/// What torch's script returns where there is no torch or no GPU for it.
const NO_TORCH: i32 = 3;
/// What the sanitizer says where it has found nothing.
const HARMLESS: [&str; 3] = ["COMPUTE-SANITIZER", "ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards"];
/// Lines of a tool's findings that are kept beside the log, which has all.
const MOST_LINES: usize = 60;

/// This program's sample of problems under each tool of compute-sanitizer.
pub(crate) fn sanitizer(asked: &Asked) -> Outcome<Value> {
    if asked.is_emulated {
        return Ok(skipped("the device is emulated"));
    }
    let is_there =
        |program: &&str| Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success());
    match SANITIZERS.iter().find(|program| is_there(program)) {
        Some(program) => sanitize(asked, Path::new(program)),
        None => Ok(skipped(format!("there is no {}", SANITIZERS.join(" and no ")))),
    }
}

fn sanitize(asked: &Asked, program: &Path) -> Outcome<Value> {
    let (mut tools, mut failed, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, tool) in TOOLS.into_iter().enumerate() {
        // What is left of the time is divided among the tools: the first might take all of it.
        let limit = asked.left().map(|left| left / (TOOLS.len() - place) as u32);
        if limit.is_some_and(|limit| limit < SHORTEST) {
            notes.push(format!("skipped: {tool} (there was no time)"));
            continue;
        }
        let run = under(asked, program, tool, limit)?;
        if let Some(why) = run.refusal() {
            notes.push(format!("skipped: {tool} ({why})"));
            continue;
        }
        failed.extend(run.failure().map(|failure| format!("{tool}: {failure}")));
        notes.extend(run.incompleteness().map(|why| format!("incomplete: {tool} ({why})")));
        tools.push(run.json(tool));
    }
    if tools.is_empty() {
        return Ok(skipped(notes.join(", ")));
    }
    Ok(json!({ "tools": tools, "failed": failed, "notes": notes }))
}

/// Runs the sample under a tool, and ends it at the limit.
fn under(asked: &Asked, program: &Path, tool: &str, limit: Option<Duration>) -> Outcome<Run> {
    let task = Task::whole("sample", 0, 1);
    let log = asked.output.join(format!("sanitizer-{tool}.log"));
    let asked = Asked { output: asked.output.join(tool), ..asked.clone() };
    fs::create_dir_all(&asked.output)?;
    let report = task.report(&asked);
    if report.exists() {
        // That of an earlier run would be taken for this one's.
        fs::remove_file(&report)?;
    }
    let sample = command(&asked, &task)?;
    let mut sanitizer = within(limit, program);
    sanitizer.args(["--tool", tool, "--error-exitcode", "9"]).arg(sample.get_program()).args(sample.get_args());
    // To a file, where it is also if this program is ended.
    let said = File::create(&log)?;
    let start = Instant::now();
    let status = sanitizer.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said).status()?;
    let report = fs::read_to_string(report).ok().and_then(|text| serde_json::from_str(&text).ok());
    Ok(Run {
        is_late: limit.is_some_and(|limit| start.elapsed().as_secs() >= limit.as_secs())
            && status.code().is_some_and(|code| LATE.contains(&code)),
        status,
        said: String::from_utf8_lossy(&fs::read(log)?).into_owned(),
        report: report.unwrap_or_default(),
    })
}

/// What a tool and the program under it have said.
struct Run {
    is_late: bool,
    status: ExitStatus,
    said: String,
    /// That of the sample; null where it has told nothing.
    report: Value,
}

impl Run {
    fn findings(&self) -> Vec<&str> {
        let lines = self.said.lines().filter_map(|line| line.strip_prefix("=========")).map(str::trim);
        lines.filter(|line| !line.is_empty() && !HARMLESS.iter().any(|harmless| line.starts_with(harmless))).collect()
    }

    /// Why the tool cannot look at this device.
    fn refusal(&self) -> Option<&str> {
        let refusal = |line: &&&str| line.contains("Device not supported");
        // Some are refused only when the first kernel is loaded.
        let has_solved_none = self.report.is_null() || self.report["solved"] == 0;
        self.findings().iter().find(refusal).copied().filter(|_| has_solved_none)
    }

    /// Findings count whether or not there was time for all of the sample.
    fn failure(&self) -> Option<String> {
        let wrong = self.report["failed"].as_array().and_then(|failed| failed.first()).and_then(Value::as_str);
        let is_whole = !self.report.is_null() && self.report["at"].is_null();
        if let [first, ..] = &*self.findings() {
            return Some((*first).to_owned());
        }
        if let Some(wrong) = wrong {
            return Some(wrong.to_owned());
        }
        let has_ended_well = self.status.success() && is_whole;
        (!self.is_late && !has_ended_well).then(|| format!("{}: {}", self.status, last_lines(&self.said)))
    }

    fn incompleteness(&self) -> Option<String> {
        let solved = self.report["solved"].as_u64().unwrap_or(0);
        self.is_late.then(|| format!("the time was over after {solved} problems"))
    }

    fn json(&self, tool: &str) -> Value {
        let findings = self.findings();
        json!({
            "tool": tool, "status": self.status.to_string(), "is_complete": !self.is_late,
            "solved": self.report["solved"], "lines": findings.len(),
            "findings": findings[..findings.len().min(MOST_LINES)],
        })
    }
}

/// What torch takes for the same work, if it is there and sees a GPU.
pub(crate) fn torch(asked: &Asked) -> Outcome<Value> {
    let limit = asked.left().map_or(LONGEST_TORCH, |left| left.min(LONGEST_TORCH));
    if limit < SHORTEST {
        return Ok(skipped("there was no time"));
    }
    match within(Some(limit), Path::new("python3")).args(["-c", TORCH]).output() {
        Ok(output) => torch_said(&output),
        Err(error) => Ok(skipped(format!("python3: {error}"))),
    }
}

fn torch_said(output: &Output) -> Outcome<Value> {
    let said = || last_lines(&format!("{}{}", lossy(&output.stdout), lossy(&output.stderr)));
    match output.status.code() {
        Some(0) => Ok(serde_json::from_slice(&output.stdout)?),
        // The others are of `timeout`: there is no such program, or no time for its end.
        Some(NO_TORCH | 127) => Ok(skipped(said())),
        Some(124) => Ok(skipped("there was no time for the end of it")),
        _ => Err(format!("{}: {}", output.status, said()).into()),
    }
}

fn lossy(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// A program that is ended when the time is over.
fn within(left: Option<Duration>, program: &Path) -> Command {
    let Some(left) = left else { return Command::new(program) };
    let mut timeout = Command::new("timeout");
    // With 0 there would be no limit.
    timeout.args(["--kill-after", "5", &left.as_secs().max(1).to_string()]).arg(program);
    timeout
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn run(code: i32, is_late: bool, said: &str, report: Value) -> Run {
        Run { is_late, status: ExitStatus::from_raw(code << 8), said: said.to_owned(), report }
    }

    fn whole() -> Value {
        json!({ "at": null, "solved": 80, "failed": [] })
    }

    const CLEAN: &str = "========= COMPUTE-SANITIZER\n--- 0: a problem\n========= ERROR SUMMARY: 0 errors\n";
    const FOUND: &str =
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n=========     at run\n";

    #[test]
    fn a_sample_without_findings_is_right() {
        let hazards = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n";
        for said in [CLEAN, hazards] {
            let run = run(0, false, said, whole());
            assert_eq!((run.failure(), run.incompleteness(), run.refusal()), (None, None, None));
        }
    }

    #[test]
    fn findings_count_when_the_time_is_over_too() {
        let half = json!({ "at": 7, "solved": 7, "failed": [] });
        let run = run(124, true, FOUND, half.clone());
        assert_eq!(run.failure().as_deref(), Some("Invalid __global__ write of size 4 bytes"));
        assert_eq!(run.incompleteness().as_deref(), Some("the time was over after 7 problems"));
        let told = run.json("memcheck");
        assert_eq!((&told["is_complete"], &told["lines"]), (&json!(false), &json!(2)));
        let clean = super::tests::run(124, true, CLEAN, half);
        assert_eq!((clean.failure(), clean.incompleteness().is_some()), (None, true));
    }

    #[test]
    fn whatever_is_not_a_whole_sample_without_findings_is_a_failure() {
        let wrong = json!({ "at": null, "solved": 79, "failed": ["a problem: wrong"] });
        let half = json!({ "at": 7, "solved": 7, "failed": [] });
        for (code, said, report) in [
            (0, FOUND, whole()),
            (9, CLEAN, whole()),
            (0, CLEAN, wrong),
            (0, CLEAN, half),
            (0, CLEAN, Value::Null),
            (0, "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n", whole()),
        ] {
            assert!(run(code, false, said, report.clone()).failure().is_some(), "{code}, {said}, {report}");
        }
    }

    #[test]
    fn a_device_that_a_tool_refuses_is_no_failure_of_ours() {
        let said = "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the manual\n";
        let late = json!({ "at": null, "solved": 0, "failed": ["a problem: no kernel was loaded"] });
        for report in [Value::Null, late] {
            assert!(run(1, false, said, report).refusal().is_some());
        }
        assert!(run(1, false, said, whole()).refusal().is_none());
    }

    #[test]
    fn the_report_of_an_earlier_run_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let sanitizer = folder.path().join("sanitizer");
        fs::write(&sanitizer, "#!/bin/sh\necho '========= ERROR SUMMARY: 0 errors'\n").unwrap();
        fs::set_permissions(&sanitizer, fs::Permissions::from_mode(0o755)).unwrap();
        let asked = Asked { output: folder.path().to_owned(), ..Asked::parse([]).unwrap() };
        for tool in TOOLS {
            fs::create_dir(folder.path().join(tool)).unwrap();
            fs::write(folder.path().join(tool).join("sample-0.json"), whole().to_string()).unwrap();
        }
        let result = sanitize(&asked, &sanitizer).unwrap();
        assert_eq!(result["failed"].as_array().map(Vec::len), Some(TOOLS.len()), "{result}");
    }

    #[test]
    fn torch_that_is_not_there_is_told_from_one_that_fails() {
        let output = |code: i32, stdout: &str| Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.into(),
            stderr: b"some words".into(),
        };
        assert_eq!(torch_said(&output(0, "{\"a\": 1}")).unwrap(), json!({ "a": 1 }));
        assert_eq!(torch_said(&output(NO_TORCH, "")).unwrap(), skipped("some words"));
        assert_eq!(torch_said(&output(124, "")).unwrap()["skipped"], "there was no time for the end of it");
        for broken in [output(1, ""), output(0, "no JSON")] {
            assert!(torch_said(&broken).is_err());
        }
    }

    /// A torch that has less than is asked of it, and does nothing.
    const OLD_TORCH: &str = "
import sys, types
__version__ = 'old'
bfloat16 = None
def randn(*shape, device, dtype): return shape
class cuda:
    class Event:
        def __init__(self, enable_timing): pass
        def record(self): pass
        def elapsed_time(self, end): return 0.5
    is_available = staticmethod(lambda: True)
    synchronize = staticmethod(lambda: None)
    get_device_name = staticmethod(lambda: 'a device')
functional = types.ModuleType('torch.nn.functional')
functional.scaled_dot_product_attention = lambda *rest, **named: None
functional.linear = lambda *rest: None
nn = types.ModuleType('torch.nn')
nn.functional = functional
sys.modules.update({'torch.nn': nn, 'torch.nn.functional': functional})
def rms_norm(*rest): raise RuntimeError('no such kernel')
functional.rms_norm = rms_norm
";

    #[test]
    fn what_torch_cannot_do_costs_its_own_time_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("torch.py"), OLD_TORCH).unwrap();
        let output = Command::new("python3").args(["-c", TORCH]).env("PYTHONPATH", folder.path()).output().unwrap();
        let told = torch_said(&output).unwrap();
        assert_eq!(told["microseconds"].as_object().map(serde_json::Map::len), Some(4), "{told}");
        assert_eq!(told["microseconds"]["linear 16x8192x28672"], json!(25.0), "{told}");
        assert_eq!(told["notes"], json!(["skipped: rms_norm 8192x4096 (no such kernel)"]));

        let broken = "functional.rms_norm = functional.linear = functional.scaled_dot_product_attention = rms_norm\n";
        fs::write(folder.path().join("torch.py"), format!("{OLD_TORCH}{broken}")).unwrap();
        let output = Command::new("python3").args(["-c", TORCH]).env("PYTHONPATH", folder.path()).output().unwrap();
        let error = torch_said(&output).unwrap_err().to_string();
        assert!(error.contains("linear 16x8192x28672 (no such kernel)"), "{error}");
    }
}
