//! A process that runs steps of one part, and tells after each what has come of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::asked::Asked;
use crate::{Outcome, steps_of, write};

/// Which steps: of a part, every `shares`-th of those that it has from `from` on, this being share number `share`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) part: String,
    pub(crate) share: usize,
    pub(crate) shares: usize,
    pub(crate) from: usize,
}

impl Task {
    /// As it is given to a process.
    pub(crate) fn argument(&self) -> String {
        format!("{}:{}:{}:{}", self.part, self.share, self.shares, self.from)
    }

    /// Where the process tells how far it is.
    pub(crate) fn report(&self, asked: &Asked) -> PathBuf {
        asked.output.join(format!("{}-{}.json", self.part, self.share))
    }

    fn has(&self, step: usize) -> bool {
        step >= self.from && step % self.shares == self.share
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no task");
        let mut words = text.split(':');
        let part = words.next().ok_or_else(wrong)?.to_owned();
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong);
        Ok(Self { part, share: number()?, shares: number()?, from: number()? })
    }
}

/// Runs the steps of a task. It ends before the last where a step has taken the device with it.
pub(crate) fn run(asked: &Asked, task: &Task) -> Outcome {
    let device = asked.device()?;
    let steps = steps_of(&task.part, asked);
    let (mut solved, mut failed, mut values) = (0, Vec::new(), Vec::new());
    let about = (device.name()?, device.target().to_string());
    let tell = |at: Value, is_lost: bool, (solved, failed, values): (usize, &[String], &[Value])| {
        let report = json!({
            "device": about.0, "target": about.1, "solved": solved, "failed": failed, "values": values,
            "at": at, "is_lost": is_lost,
        });
        write(&task.report(asked), &report)
    };
    for (index, step) in steps.iter().enumerate().filter(|(index, _)| task.has(*index)) {
        tell(json!(index), false, (solved, &failed, &values))?;
        println!("--- {index}: {}", step.name);
        let outcome = catch_unwind(AssertUnwindSafe(|| (step.run)(&device)));
        let words = match outcome {
            Ok(Ok(value)) => {
                solved += 1;
                values.extend(Some(value).filter(|value| !value.is_null()));
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => words_of(&*panic),
        };
        println!("{words}");
        failed.push(format!("{}: {words}", step.name));
        if device.synchronize().is_err() {
            return tell(json!(index), true, (solved, &failed, &values));
        }
    }
    tell(Value::Null, false, (solved, &failed, &values))
}

/// What a panic said.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
