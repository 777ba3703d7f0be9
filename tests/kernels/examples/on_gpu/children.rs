//! Running the steps of a part in processes, which are begun again behind a step that has ended one.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::alone::{Task, words_of};
use crate::asked::Asked;
use crate::{Outcome, Title, skipped, steps_of};

/// Steps of a kind that may end their process, before the rest of that kind is left out of a share.
const MOST_ENDS_OF_A_KIND: usize = 3;
/// Steps of a share that may, before all the rest is given up.
const MOST_ENDS: usize = 40;

/// A step that takes longer is taken for one without an end, where so many of its share had none. Most of a step's time is
/// compilation and the reference; where there is little to compile, time is not to be lost with each kernel that hangs.
fn patience(asked: &Asked, endless: usize) -> Duration {
    if asked.is_emulated {
        return Duration::from_mins(5);
    }
    let compiles = asked.options.prebuilt.is_none();
    Duration::from_secs(if endless == 0 || compiles { 90 } else { 20 })
}

/// What has come of steps.
#[derive(Debug, Default)]
struct Report {
    device: Value,
    target: Value,
    solved: usize,
    /// Steps of which something has come, be it a failure.
    tried: usize,
    /// Of steps, and of what is none.
    failed: Vec<String>,
    values: Vec<Value>,
    /// Names of steps that were not run because others of their kind ended their process.
    left_out: Vec<String>,
}

impl Report {
    /// What a process has told of its steps so far.
    fn told(by: &Value) -> Self {
        let failed = by["failed"].as_array().into_iter().flatten();
        let failed: Vec<_> =
            failed.map(|fault| fault.as_str().unwrap_or("a failure without words").to_owned()).collect();
        let solved = by["solved"].as_u64().and_then(|solved| usize::try_from(solved).ok()).unwrap_or(0);
        Self {
            device: by["device"].clone(),
            target: by["target"].clone(),
            solved,
            tried: solved + failed.len(),
            failed,
            values: by["values"].as_array().cloned().unwrap_or_default(),
            left_out: Vec::new(),
        }
    }

    fn add(&mut self, other: Self) {
        for (own, other) in [(&mut self.device, other.device), (&mut self.target, other.target)] {
            if own.is_null() {
                *own = other;
            }
        }
        self.solved += other.solved;
        self.tried += other.tried;
        self.failed.extend(other.failed);
        self.values.extend(other.values);
        self.left_out.extend(other.left_out);
    }

    /// As the file of a part that has so many steps.
    fn result(self, part: &str, steps: usize) -> Value {
        let left = steps.saturating_sub(self.tried);
        if self.tried == 0 && self.failed.is_empty() {
            return skipped("there was no time");
        }
        // The dump of instructions is a file of its own kind.
        if let ("opcodes", [dump], []) = (part, &*self.values, &*self.failed) {
            return dump.clone();
        }
        let mut notes = Vec::new();
        if left > 0 {
            notes.push(format!("incomplete: {left} of {steps} steps were not run"));
        }
        if !self.left_out.is_empty() {
            let count = self.left_out.len();
            notes.push(format!(
                "{count} of these because others of their kind ended their process; `left_out` names them"
            ));
        }
        // A dump is not among the values, which a summary repeats.
        let (dump, values) = match part {
            "opcodes" => (self.values.into_iter().next(), Vec::new()),
            _ => (None, self.values),
        };
        let mut result = json!({
            "device": self.device, "target": self.target, "solved": self.solved, "failed": self.failed, "left": left,
            "left_out": self.left_out, "notes": notes, "values": values,
        });
        if let Some(dump) = dump {
            result["dump"] = dump;
        }
        result
    }
}

/// Runs all steps of a part.
pub(crate) fn run(asked: &Asked, part: &str) -> Value {
    let titles: Vec<Title> = steps_of(part, asked).into_iter().map(|step| step.title).collect();
    if titles.is_empty() {
        return skipped("the sample is all that is thin");
    }
    let shares = shares(asked, part, titles.len());
    let tasks = (0..shares).map(|share| Task::whole(part, share, shares));
    let report = side_by_side(tasks, |task| {
        follow(task, &titles, |task, endless| {
            let path = task.report(asked);
            // One of the process before would be taken for this one's.
            let _ = fs::remove_file(&path);
            let end = process(asked, task, &path, patience(asked, endless))?;
            let told = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
            Ok((end, told))
        })
    });
    report.result(part, titles.len())
}

/// Into how many processes a part is divided: most of a step's time is compilation and the reference, which take one core
/// each. What is timed has the device for itself.
fn shares(asked: &Asked, part: &str, steps: usize) -> usize {
    if asked.is_emulated || part == "timing" {
        return 1;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, 8).min(steps)
}

/// Runs tasks at the same time.
fn side_by_side(tasks: impl Iterator<Item = Task>, run: impl Fn(Task) -> Report + Sync) -> Report {
    let run = &run;
    let mut all = Report::default();
    thread::scope(|scope| {
        let threads: Vec<_> = tasks.map(|task| (task.argument(), scope.spawn(move || run(task)))).collect();
        for (task, thread) in threads {
            match thread.join() {
                Ok(report) => all.add(report),
                Err(panic) => all.failed.push(format!("{task}: {}", words_of(&*panic))),
            }
        }
    });
    all
}

/// How a process has ended.
enum End {
    Itself(ExitStatus),
    /// Nothing has come of a step for so long.
    Endless(Duration),
    /// There was no time for the rest.
    Late,
}

/// Runs the steps of a task, in another process behind each that has ended one. `process` runs one, given how many steps
/// had no end before, and says how it has ended and what it has told.
fn follow(
    mut task: Task,
    titles: &[Title],
    mut process: impl FnMut(&Task, usize) -> Outcome<(End, Option<Value>)>,
) -> Report {
    let mut all = Report::default();
    let (mut endless, mut ends) = (0, HashMap::new());
    for _ in 0..MOST_ENDS {
        let (end, told) = match process(&task, endless) {
            Ok(process) => process,
            Err(error) => {
                all.failed.push(format!("{}: {error}", task.argument()));
                return all;
            }
        };
        all.add(told.as_ref().map_or_else(Report::default, Report::told));
        let told = told.unwrap_or_default();
        let at = told["at"].as_u64().and_then(|at| usize::try_from(at).ok());
        let has_begun = !told.is_null();
        let why = match end {
            End::Late => return all,
            End::Itself(status) if has_begun && at.is_none() && status.success() => return all,
            End::Itself(status) => format!("the process ended: {status}"),
            End::Endless(patience) => {
                endless += 1;
                format!("no end within {} s", patience.as_secs())
            }
        };
        let Some(at) = at else {
            let place = if has_begun { "after its last step" } else { "before its first step" };
            all.failed.push(format!("{}: {place}, {why}; its log says more", task.argument()));
            return all;
        };
        // A step that took the device with it has been told as a failure.
        if told["is_lost"] != true {
            let name = titles.get(at).map_or_else(|| format!("step {at}"), |title| title.name.clone());
            all.failed.push(format!("{name}: {why}"));
            all.tried += 1;
        }
        task.from = at + 1;
        let Some(Title { kind, .. }) = titles.get(at) else { continue };
        let ends = ends.entry(kind).or_insert(0);
        *ends += 1;
        if *ends == MOST_ENDS_OF_A_KIND {
            let rest = titles.iter().enumerate().filter(|(step, title)| title.kind == *kind && task.has(*step, kind));
            all.left_out.extend(rest.map(|(_, title)| title.name.clone()));
            task.without.push(kind.clone());
        }
    }
    all.failed.push(format!("{}: given up after {MOST_ENDS} steps that ended their process", task.argument()));
    all
}

fn process(asked: &Asked, task: &Task, report: &Path, patience: Duration) -> Outcome<End> {
    // What a process says goes to a file beside its report.
    let said = File::options().create(true).append(true).open(report.with_extension("log"))?;
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
        if is_late || since.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            return Ok(if is_late { End::Late } else { End::Endless(patience) });
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// This program, for a task.
pub(crate) fn command(asked: &Asked, task: &Task) -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(asked.for_task(task));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const SUCCESS: i32 = 0;
    const SEGMENTATION_FAULT: i32 = 11;

    fn task() -> Task {
        Task::whole("parity", 0, 1)
    }

    fn ended(status: i32) -> End {
        End::Itself(ExitStatus::from_raw(status))
    }

    fn told(at: &Value, solved: usize, failed: &[&str]) -> Value {
        json!({
            "device": "a GPU", "target": "sm_90", "solved": solved, "failed": failed, "values": [], "at": at,
            "is_lost": false,
        })
    }

    fn title(kind: &str, step: usize) -> Title {
        Title { kind: kind.to_owned(), name: format!("{kind} {step}") }
    }

    /// What comes of processes that end so one after another, and from which step on each ran. Each step is of another kind.
    fn followed(ends: Vec<(End, Option<Value>)>) -> (Report, Vec<usize>) {
        let titles: Vec<_> =
            (0..100).map(|step| Title { kind: step.to_string(), name: format!("step {step}") }).collect();
        let (mut ends, mut begun) = (ends.into_iter(), Vec::new());
        let report = follow(task(), &titles, |task, _| {
            begun.push(task.from);
            ends.next().ok_or_else(|| "another process was begun".into())
        });
        (report, begun)
    }

    #[test]
    fn a_process_that_tells_all_and_ends_well_is_no_failure() {
        let (report, begun) = followed(vec![(ended(SUCCESS), Some(told(&Value::Null, 3, &[])))]);
        assert_eq!((report.solved, report.tried, &*report.failed, &*begun), (3, 3, &[][..], &[0][..]));
        assert_eq!(report.result("parity", 3)["notes"], json!([]));
    }

    #[test]
    fn however_a_process_ends_it_is_told() {
        let whole = Some(told(&Value::Null, 3, &[]));
        for (end, said, words) in [
            (ended(SEGMENTATION_FAULT), whole.clone(), "after its last step, the process ended: signal: 11"),
            (ended(1 << 8), whole.clone(), "after its last step, the process ended: exit status: 1"),
            (End::Endless(Duration::from_secs(7)), whole, "after its last step, no end within 7 s"),
            (ended(SUCCESS), None, "before its first step, the process ended: exit status: 0"),
            (End::Endless(Duration::from_secs(7)), None, "before its first step, no end within 7 s"),
        ] {
            let (report, begun) = followed(vec![(end, said)]);
            let [failed] = &*report.failed else { panic!("{:?}", report.failed) };
            assert!(failed.contains(words), "{failed}");
            assert_eq!(begun, [0]);
        }
    }

    #[test]
    fn the_rest_is_run_behind_a_step_that_ended_its_process() {
        let lost = |at: usize| {
            let mut told = told(&json!(at), 0, &["step 5: the device is lost"]);
            told["is_lost"] = json!(true);
            Some(told)
        };
        let (report, begun) = followed(vec![
            (ended(SEGMENTATION_FAULT), Some(told(&json!(2), 2, &[]))),
            (ended(SUCCESS), lost(5)),
            (End::Endless(Duration::from_secs(7)), Some(told(&json!(6), 0, &[]))),
            (End::Late, Some(told(&json!(9), 2, &[]))),
        ]);
        assert_eq!(begun, [0, 3, 6, 7]);
        let failed =
            ["step 2: the process ended: signal: 11", "step 5: the device is lost", "step 6: no end within 7 s"];
        assert!(
            report.failed.iter().zip(failed).all(|(found, wanted)| found.starts_with(wanted)),
            "{:?}",
            report.failed
        );
        assert_eq!((report.failed.len(), report.solved, report.tried), (3, 4, 7));
    }

    #[test]
    fn steps_that_were_not_run_are_counted_whatever_else_failed() {
        let (report, begun) = followed((0..MOST_ENDS).map(|at| (ended(9), Some(told(&json!(at), 0, &[])))).collect());
        assert_eq!(begun.len(), MOST_ENDS);
        assert!(report.failed.last().unwrap().contains("given up"), "{:?}", report.failed);
        let result = report.result("parity", MOST_ENDS + 8);
        assert_eq!(result["left"], 8);
        assert_eq!(result["notes"], json!([format!("incomplete: 8 of {} steps were not run", MOST_ENDS + 8)]));
    }

    /// A process that ends with each step of one kind, as one kernel that is broken everywhere makes it.
    #[test]
    fn a_kind_of_steps_that_ends_processes_is_left_out_and_others_are_run() {
        let titles: Vec<_> = (0..20).map(|step| title(["broken", "right"][step % 2], step)).collect();
        let mut begun = Vec::new();
        let report = follow(task(), &titles, |task, _| {
            begun.push(task.from);
            let wanted: Vec<_> = (0..20).filter(|&step| task.has(step, &titles[step].kind)).collect();
            let before = wanted.iter().take_while(|&&step| titles[step].kind != "broken").count();
            Ok(match wanted.get(before) {
                Some(at) => (ended(SEGMENTATION_FAULT), Some(told(&json!(at), before, &[]))),
                None => (ended(SUCCESS), Some(told(&Value::Null, before, &[]))),
            })
        });
        assert_eq!(begun, [0, 1, 3, 5]);
        assert_eq!((report.solved, report.failed.len(), report.tried), (10, 3, 13));
        let left_out: Vec<_> = (6..20).step_by(2).map(|step| format!("broken {step}")).collect();
        assert_eq!(report.left_out, left_out);
        let result = report.result("parity", 20);
        assert_eq!((&result["left"], &result["left_out"]), (&json!(7), &json!(left_out)));
        assert!(result["notes"][1].as_str().unwrap().starts_with("7 of these because"), "{}", result["notes"]);
    }

    #[test]
    fn there_is_less_patience_after_a_step_without_an_end() {
        let endless = |at: usize| (End::Endless(Duration::from_secs(7)), Some(told(&json!(at), 0, &[])));
        let titles: Vec<_> = (0..4).map(|step| title("hanging", step)).collect();
        let ends = [endless(0), (ended(9), Some(told(&json!(1), 0, &[]))), endless(2), (ended(SUCCESS), None)];
        let (mut ends, mut before) = (ends.into_iter(), Vec::new());
        follow(task(), &titles, |_, endless| {
            before.push(endless);
            Ok(ends.next().unwrap())
        });
        assert_eq!(before, [0, 1, 1, 2]);

        let asked = |words: &[&str]| Asked::parse(words.iter().map(Into::into)).unwrap();
        let seconds = |asked: &Asked| [0, 1, 2].map(|endless| patience(asked, endless).as_secs());
        let prebuilt = asked(&["--prebuilt", "kernels"]);
        assert_eq!(seconds(&prebuilt), [90, 20, 20]);
        // A step may have to compile.
        assert_eq!(seconds(&asked(&[])), [90; 3]);
        assert_eq!(seconds(&Asked { is_emulated: true, ..prebuilt }), [300; 3]);
    }

    #[test]
    fn a_part_without_time_is_skipped_and_not_right() {
        let (report, _) = followed(vec![(End::Late, Some(told(&json!(0), 0, &[])))]);
        assert_eq!(report.result("parity", 20), skipped("there was no time"));
    }

    #[test]
    fn what_is_told_later_does_not_replace_the_device() {
        let mut all = Report::told(&told(&Value::Null, 1, &[]));
        all.add(Report::told(&Value::Null));
        all.add(Report::default());
        assert_eq!((&all.device, &all.target), (&json!("a GPU"), &json!("sm_90")));
    }

    #[test]
    fn a_share_that_panics_is_a_failure() {
        let report = side_by_side([task(), task()].into_iter(), |task| panic!("no {}", task.part));
        assert_eq!(report.failed, ["parity:0:1:0: no parity"; 2]);
    }

    #[test]
    fn a_dump_with_a_failure_is_not_given_out_as_whole() {
        let report = || Report { tried: 1, values: vec![json!("a dump")], ..Report::default() };
        assert_eq!(report().result("opcodes", 1), "a dump");
        let failed = Report { failed: vec!["a failure".to_owned()], ..report() };
        let result = failed.result("opcodes", 1);
        assert_eq!(result["failed"], json!(["a failure"]));
        assert_eq!((&result["dump"], &result["values"]), (&json!("a dump"), &json!([])));
        let nothing = Report { failed: vec!["a failure".to_owned()], ..Report::default() }.result("opcodes", 1);
        assert_eq!((&nothing["dump"], &nothing["values"]), (&Value::Null, &json!([])));
    }
}
