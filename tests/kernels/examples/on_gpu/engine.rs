//! Small models against what another implementation made of them, and against themselves: what is captured, how a prompt is
//! cut and which kernel runs must not show where it is promised not to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, DecodeKernel, cuda};
use engine::runner::Runner;
use kernel_tests::models;
use kernel_tests::references::Reference;
use kernels::cuda::{CudaDevice, CudaOptions, Program};
use serde_json::{Map, Value, json};

use crate::alone::words_of;
use crate::{Found, Outcome, Step};

/// Models, and how far their logits may be from the reference's: of two experts that are nearly as likely, a router that
/// reads what has been rounded may take the other.
const MODELS: [(&str, f64); 6] =
    [("llama", 0.02), ("llama_tied", 0.02), ("mistral", 0.02), ("qwen2", 0.02), ("qwen3", 0.02), ("qwen3_moe", 0.1)];

const PAGE_SIZE: usize = 16;
/// Contexts are several splits.
const SPLIT: DecodeKernel = DecodeKernel::SplitKv { tokens: 16 };

/// Names, folders, and how far logits may be from the reference's.
fn small_models(folder: &Path, is_thin: bool) -> impl Iterator<Item = (&'static str, PathBuf, f64)> {
    let models = MODELS[..if is_thin { 1 } else { MODELS.len() }].iter();
    models.map(|&(model, most)| (model, folder.join(model), most))
}

/// Says which model is not there.
pub(crate) fn check_folder(folder: &Path, is_thin: bool) -> Outcome {
    match small_models(folder, is_thin).find(|(_, path, _)| !path.join("reference.json").is_file()) {
        Some((_, path, _)) => Err(format!(
            "{} is not there or has no reference: --models names the folder of small models, `tests/models` of the sources",
            path.display()
        )
        .into()),
        None => Ok(()),
    }
}

/// A step for each model.
pub(crate) fn steps(folder: &Path, options: &CudaOptions, is_thin: bool) -> Vec<Step> {
    small_models(folder, is_thin)
        .map(|(model, path, most)| {
            let options = options.clone();
            Step::new(model, move |_| Ok(check(model, &path, most, &options)))
        })
        .collect()
}

/// What the steps load, whatever the kernel of single tokens.
pub(crate) fn programs(folder: &Path, is_thin: bool) -> Outcome<Vec<Program>> {
    let mut all = Vec::new();
    for (_, path, _) in small_models(folder, is_thin) {
        let checkpoint = Checkpoint::open(&path, LoadFormat::Auto)?;
        all.extend(cuda::programs(&checkpoint.plan()?, PAGE_SIZE, SPLIT)?);
    }
    Ok(all)
}

fn check(model: &str, path: &Path, most: f64, options: &CudaOptions) -> Found {
    let reference = Reference::in_folder(path, true);
    let logits = |runner: &mut Runner, at_once: usize| {
        let (first, rest) = reference.tokens.split_at(at_once);
        models::logits(runner, std::iter::once(first).chain(rest.chunks(1)))
    };
    let prompt = reference.prompt.len();
    let runner = |decode, graphs, chunk| -> Outcome<Runner> {
        let choices = CudaChoices { page_size: PAGE_SIZE, decode, graphs, settings_key: 0 };
        let checkpoint = Checkpoint::open(path, LoadFormat::Auto)?;
        Ok(models::runner(CudaDevice::open(options)?, &checkpoint, choices, chunk)?)
    };

    let mut checks = Checks::default();
    checks.tell("model", model);
    let plain = checks.stage("step by step", || Ok(logits(&mut runner(SPLIT, false, 64)?, prompt)?));
    if let Some(plain) = &plain {
        checks.near("relative_error", plain, &reference.logits, most);
    }

    let captured = checks.stage("captured", || {
        let mut captured = runner(SPLIT, true, 64)?;
        let times = [logits(&mut captured, prompt)?, logits(&mut captured, prompt)?, logits(&mut captured, prompt)?];
        Ok((times, captured.graph_use().map(|used| (used.launched, used.failure.clone()))))
    });
    if let Some((times, used)) = &captured {
        for (time, found) in (1..).zip(times) {
            // Without those of single steps, the first captured ones say at least whether a launch is like another.
            checks.same_bits(&format!("captured, time {time}"), found, plain.as_ref().unwrap_or(&times[0]));
        }
        match used {
            Some((launched, None)) => {
                checks.tell("captured_launches", *launched);
                checks.hold(*launched > 0, || "no step was launched as a whole".to_owned());
            }
            other => checks.hold(false, || format!("steps cannot be captured: {other:?}")),
        }
    }

    let whole = checks.stage("in pages", || Ok(logits(&mut runner(DecodeKernel::Paged, true, 64)?, prompt)?));
    if let Some(whole) = &whole {
        checks.near("relative_error_in_pages", whole, &reference.logits, most);
        let cut = checks.stage("in pieces", || {
            let mut cut = runner(DecodeKernel::Paged, true, 7)?;
            Ok([logits(&mut cut, prompt)?, logits(&mut cut, 1)?])
        });
        for (found, about) in cut.iter().flatten().zip(["a prompt in pieces", "a prompt token by token"]) {
            checks.same_bits(about, found, whole);
        }
    }
    checks.found()
}

/// Checks that are all made, whichever of them fail: the program is run once, and the first failure is seldom the one that
/// explains the others.
#[derive(Default)]
struct Checks {
    numbers: Map<String, Value>,
    failed: Vec<String>,
}

impl Checks {
    fn tell(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        // Also to the log, which is there where a later check has no end.
        println!("{name}: {value}");
        self.numbers.insert(name.to_owned(), value);
    }

    fn hold(&mut self, is_right: bool, otherwise: impl FnOnce() -> String) {
        if !is_right {
            self.failed.push(otherwise());
        }
    }

    /// What comes of some work, if it gets to its end.
    fn stage<T>(&mut self, about: &str, work: impl FnOnce() -> Outcome<T>) -> Option<T> {
        let why = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(result)) => return Some(result),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => words_of(&*panic),
        };
        self.failed.push(format!("{about}: {why}"));
        None
    }

    fn near(&mut self, name: &str, found: &[f32], wanted: &[f32], most: f64) {
        let Some(error) = self.error(name, found, wanted) else { return };
        self.tell(name, error);
        self.hold(error <= most, || format!("{name}: logits are off by {error}, and may be by {most}"));
    }

    fn same_bits(&mut self, about: &str, found: &[f32], wanted: &[f32]) {
        let Some(error) = self.error(about, found, wanted) else { return };
        let other = found.iter().zip(wanted).filter(|(found, wanted)| found.to_bits() != wanted.to_bits()).count();
        self.tell(about, json!({ "other_bits": other, "relative_error": error }));
        let words = || format!("{about}: {other} of {} logits have other bits, off by {error}", found.len());
        self.hold(other == 0, words);
    }

    /// How far logits are from others, if there are as many.
    fn error(&mut self, about: &str, found: &[f32], wanted: &[f32]) -> Option<f64> {
        let is_as_many = found.len() == wanted.len();
        self.hold(is_as_many, || format!("{about}: {} logits where {} are wanted", found.len(), wanted.len()));
        is_as_many.then(|| models::relative_error(found, wanted))
    }

    fn found(self) -> Found {
        Found { value: Value::Object(self.numbers), failed: self.failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_hides_neither_others_nor_the_numbers() {
        let mut checks = Checks::default();
        assert_eq!(checks.stage("a stage", || Err::<(), _>("the device is lost".into())), None);
        assert_eq!(checks.stage("another", || -> Outcome { panic!("no reference") }), None);
        checks.near("relative_error", &[3.0, 4.5], &[3.0, 4.0], 0.02);
        checks.near("no_error", &[3.0], &[3.0], 0.02);
        checks.near("not a number", &[f32::NAN], &[3.0], 0.02);
        checks.same_bits("in pieces", &[3.0, 4.0], &[3.0, 4.5]);
        checks.same_bits("too few", &[3.0], &[3.0, 4.5]);
        let found = checks.found();
        let begin = [
            "a stage: the device is lost",
            "another: no reference",
            "relative_error: logits are off by 0.1, and may be by 0.02",
            "not a number: logits are off by NaN",
            "in pieces: 1 of 2 logits have other bits",
            "too few: 1 logits where 2 are wanted",
        ];
        assert_eq!(found.failed.len(), begin.len(), "{:?}", found.failed);
        for (failed, begin) in found.failed.iter().zip(begin) {
            assert!(failed.starts_with(begin), "{failed}");
        }
        assert_eq!((&found.value["relative_error"], &found.value["no_error"]), (&json!(0.1), &json!(0.0)));
        assert_eq!(found.value["in pieces"]["other_bits"], 1);
    }
}
