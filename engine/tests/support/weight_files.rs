//! What comes of opening the files of a model.

use std::path::Path;

use engine::Error;
use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::runner::Logits;

use super::{open, runner, workers};

/// Opens and loads them; the error if either is refused.
pub(crate) fn refusal(path: &Path) -> Option<String> {
    let checkpoint = match Checkpoint::open(path, LoadFormat::Auto) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return Some(error.to_string()),
    };
    checkpoint.load(&workers()).err().map(|error: Error| error.to_string())
}

/// The bits of the logits of a prompt.
pub(crate) fn logits(path: &Path, prompt: &[u32]) -> Vec<u32> {
    let mut runner = runner(&open(path), 16, 512);
    let mut sequence = runner.start();
    let logits = runner.extend(&mut sequence, prompt, Logits::All).expect("there is room");
    runner.release(sequence).expect("it held its pages");
    logits.into_iter().map(f32::to_bits).collect()
}

/// Opens them and searches all weights for what is no number; the error if one is there.
pub(crate) fn not_finite(path: &Path) -> Option<String> {
    let checkpoint = open(path);
    let plan = checkpoint.plan().expect("every tensor is there");
    plan.check_finite(&workers()).err().map(|error| error.to_string())
}
