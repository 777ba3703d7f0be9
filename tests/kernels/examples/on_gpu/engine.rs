//! Small models against what another implementation made of them, and against themselves: what is captured, how a prompt is
//! cut and which kernel runs must not show where it is promised not to.

use std::num::NonZeroUsize;
use std::path::Path;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, CudaDecoder, DecodeKernel};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernel_tests::references::Reference;
use kernels::cpu::Workers;
use kernels::cuda::CudaOptions;
use serde_json::{Value, json};

use crate::{Outcome, Step};

/// Models, and how far their logits may be from the reference's: of two experts that are nearly as likely, a router that
/// reads what has been rounded may take the other.
const MODELS: [(&str, f64); 6] =
    [("llama", 0.02), ("llama_tied", 0.02), ("mistral", 0.02), ("qwen2", 0.02), ("qwen3", 0.02), ("qwen3_moe", 0.1)];

/// A step for each model.
pub(crate) fn steps(folder: &Path, options: &CudaOptions, is_thin: bool) -> Vec<Step> {
    let models = MODELS[..if is_thin { 1 } else { MODELS.len() }].iter();
    let there = models.map(|&(model, most)| (model, folder.join(model), most)).filter(|(_, path, _)| path.is_dir());
    there
        .map(|(model, path, most)| {
            let options = options.clone();
            Step::new(model, move |_| check(model, &path, most, &options))
        })
        .collect()
}

fn runner(path: &Path, options: &CudaOptions, decode: DecodeKernel, graphs: bool, chunk: usize) -> Outcome<Runner> {
    let checkpoint = Checkpoint::open(path, LoadFormat::Auto)?;
    let workers = Workers::new(NonZeroUsize::MIN)?;
    let choices = CudaChoices { page_size: 16, decode, graphs, settings_key: 0 };
    let device = kernels::cuda::CudaDevice::open(options)?;
    let model = CudaDecoder::load(&checkpoint.plan()?, &workers, device, choices)?;
    let limits = RunnerLimits { page_size: 16, pool_pages: 16, chunked_prefill_size: chunk, context_length: Some(256) };
    Ok(Runner::on_cuda(model, limits)?)
}

/// The logits after every token of a sequence whose first `at_once` run in one piece and the others one by one.
fn logits(runner: &mut Runner, tokens: &[u32], at_once: usize) -> Outcome<Vec<f32>> {
    let mut sequence = runner.start();
    let (first, rest) = tokens.split_at(at_once);
    let mut all = Vec::new();
    for part in std::iter::once(first).chain(rest.chunks(1)) {
        all.extend(runner.extend(&mut sequence, part, Logits::All)?);
    }
    runner.release(sequence)?;
    Ok(all)
}

fn check(model: &str, path: &Path, most: f64, options: &CudaOptions) -> Outcome<Value> {
    let reference = Reference::in_folder(path, true);
    let (tokens, at_once) = (&reference.tokens, reference.prompt.len());
    let split = DecodeKernel::SplitKv { tokens: 16 };

    let mut single = runner(path, options, split, false, 64)?;
    let plain = logits(&mut single, tokens, at_once)?;
    drop(single);
    let error = relative_error(&plain, &reference.logits);
    assert!(error <= most, "logits are off by {error}, and may be by {most}");

    let mut captured = runner(path, options, split, true, 64)?;
    for time in 1..=3 {
        assert!(same_bits(&logits(&mut captured, tokens, at_once)?, &plain), "with captured steps, time {time}");
    }
    let used = captured.graph_use().map(|used| (used.launched, used.failure.clone()));
    let Some((launched, None)) = used else { return Err(format!("steps cannot be captured: {used:?}").into()) };
    assert!(launched > 0, "no step was launched as a whole");
    drop(captured);

    let mut whole = runner(path, options, DecodeKernel::Paged, true, 64)?;
    let expected = logits(&mut whole, tokens, at_once)?;
    drop(whole);
    let mut cut = runner(path, options, DecodeKernel::Paged, true, 7)?;
    assert!(same_bits(&logits(&mut cut, tokens, at_once)?, &expected), "a prompt in pieces has other bits");
    assert!(same_bits(&logits(&mut cut, tokens, 1)?, &expected), "a prompt token by token has other bits");
    Ok(json!({ "model": model, "relative_error": error, "captured_launches": launched }))
}

fn relative_error(found: &[f32], reference: &[f32]) -> f64 {
    assert_eq!(found.len(), reference.len());
    let square = |x: f32| f64::from(x) * f64::from(x);
    let difference: f64 = found.iter().zip(reference).map(|(x, y)| square(x - y)).sum();
    (difference / reference.iter().map(|&x| square(x)).sum::<f64>()).sqrt()
}

fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(x, y)| x.to_bits() == y.to_bits())
}
