//! A process that runs steps of one part, and tells after each what has come of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::asked::Asked;
use crate::{Found, Outcome, steps_of, write};

/// Which steps: of a part, every `shares`-th of those that it has from `from` on, this being share number `share`, but for
/// those of some kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) part: String,
    pub(crate) share: usize,
    pub(crate) shares: usize,
    pub(crate) from: usize,
    /// Kinds of steps that have ended too many processes.
    pub(crate) without: Vec<String>,
}

impl Task {
    /// All steps of a share.
    pub(crate) fn whole(part: &str, share: usize, shares: usize) -> Self {
        Self { part: part.to_owned(), share, shares, from: 0, without: Vec::new() }
    }

    /// As it is given to a process.
    pub(crate) fn argument(&self) -> String {
        let numbers = format!("{}:{}:{}:{}", self.part, self.share, self.shares, self.from);
        self.without.iter().fold(numbers, |text, kind| format!("{text}:{kind}"))
    }

    /// Where the process tells how far it is.
    pub(crate) fn report(&self, asked: &Asked) -> PathBuf {
        asked.output.join(format!("{}-{}.json", self.part, self.share))
    }

    /// Whether it has a step of this number and kind.
    pub(crate) fn has(&self, step: usize, kind: &str) -> bool {
        step >= self.from && step % self.shares == self.share && !self.without.iter().any(|without| without == kind)
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no task");
        let mut words = text.split(':');
        let part = words.next().ok_or_else(wrong)?.to_owned();
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong);
        let (share, shares, from) = (number()?, number()?, number()?);
        Ok(Self { part, share, shares, from, without: words.map(str::to_owned).collect() })
    }
}

/// Runs the steps of a task. It ends before the last where a step has taken the device with it.
pub(crate) fn run(asked: &Asked, task: &Task) -> Outcome {
    let device = asked.device()?;
    let steps = steps_of(&task.part, asked);
    let mut results = Results::default();
    let about = (device.name()?, device.target().to_string());
    let tell = |at: Value, is_lost: bool, results: &Results| {
        let report = json!({
            "device": about.0, "target": about.1, "solved": results.solved, "failed": results.failed,
            "values": results.values, "at": at, "is_lost": is_lost,
        });
        write(&task.report(asked), &report)
    };
    for (index, step) in steps.iter().enumerate().filter(|(index, step)| task.has(*index, &step.title.kind)) {
        tell(json!(index), false, &results)?;
        println!("--- {index}: {}", step.title.name);
        let outcome = catch_unwind(AssertUnwindSafe(|| (step.run)(&device)));
        let found = match outcome {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => Found { failed: vec![error.to_string()], ..Found::default() },
            Err(panic) => Found { failed: vec![words_of(&*panic)], ..Found::default() },
        };
        let is_right = results.add(&step.title.name, found);
        if !is_right && device.synchronize().is_err() {
            return tell(json!(index), true, &results);
        }
    }
    tell(Value::Null, false, &results)
}

/// What has come of the steps so far.
#[derive(Debug, Default)]
struct Results {
    solved: usize,
    /// One text for each step that has failed: they are counted.
    failed: Vec<String>,
    values: Vec<Value>,
}

impl Results {
    /// Takes what a step has found, and says whether nothing of it is wrong.
    fn add(&mut self, name: &str, found: Found) -> bool {
        self.values.extend(Some(found.value).filter(|value| !value.is_null()));
        if found.failed.is_empty() {
            self.solved += 1;
            return true;
        }
        let words = found.failed.join("; ");
        println!("{words}");
        self.failed.push(format!("{name}: {words}"));
        false
    }
}

/// What a panic said.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_step_has_measured_is_kept() {
        let mut results = Results::default();
        let failed = vec!["off by 0.5".to_owned(), "other bits".to_owned()];
        assert!(!results.add("a model", Found { value: json!({ "error": 0.5 }), failed }));
        assert!(results.add("a problem", Value::Null.into()));
        assert_eq!(results.failed, ["a model: off by 0.5; other bits"]);
        assert_eq!((results.solved, &*results.values), (1, &[json!({ "error": 0.5 })][..]));
    }

    #[test]
    fn steps_of_kinds_that_are_left_out_are_not_of_a_task() {
        let task: Task = "parity:1:3:7:decode attention:products".parse().unwrap();
        assert_eq!(task.argument().parse(), Ok(task.clone()));
        assert!(task.has(7, "prefill attention") && task.has(10, "norms"));
        assert!(!task.has(4, "norms") && !task.has(8, "norms") && !task.has(7, "products"));
    }
}
