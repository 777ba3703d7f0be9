//! Small models against what another implementation made of them, and against themselves: what is captured, how a prompt is
//! cut and which kernel runs must not show where it is promised not to.

use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, DecodeKernel, cuda};
use engine::runner::Runner;
use kernel_tests::models;
use kernel_tests::references::Reference;
use kernels::cuda::{CudaDevice, CudaOptions, Program};
use serde_json::{Value, json};

use crate::{Outcome, Step};

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
            Step::new(model, move |_| check(model, &path, most, &options))
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

fn check(model: &str, path: &Path, most: f64, options: &CudaOptions) -> Outcome<Value> {
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

    let mut single = runner(SPLIT, false, 64)?;
    let plain = logits(&mut single, prompt)?;
    drop(single);
    let error = models::relative_error(&plain, &reference.logits);
    assert!(error <= most, "logits are off by {error}, and may be by {most}");

    let mut captured = runner(SPLIT, true, 64)?;
    for time in 1..=3 {
        assert!(same_bits(&logits(&mut captured, prompt)?, &plain), "with captured steps, time {time}");
    }
    let used = captured.graph_use().map(|used| (used.launched, used.failure.clone()));
    let Some((launched, None)) = used else { return Err(format!("steps cannot be captured: {used:?}").into()) };
    assert!(launched > 0, "no step was launched as a whole");
    drop(captured);

    let mut whole = runner(DecodeKernel::Paged, true, 64)?;
    let expected = logits(&mut whole, prompt)?;
    drop(whole);
    let mut cut = runner(DecodeKernel::Paged, true, 7)?;
    assert!(same_bits(&logits(&mut cut, prompt)?, &expected), "a prompt in pieces has other bits");
    assert!(same_bits(&logits(&mut cut, 1)?, &expected), "a prompt token by token has other bits");
    Ok(json!({ "model": model, "relative_error": error, "captured_launches": launched }))
}

fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(x, y)| x.to_bits() == y.to_bits())
}
