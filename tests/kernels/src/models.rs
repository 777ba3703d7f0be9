//! Running small models on a device, and how far logits are from others.

use std::num::NonZeroUsize;

use engine::checkpoint::Checkpoint;
use engine::model::{CudaChoices, CudaDecoder};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernels::cpu::Workers;
use kernels::cuda::CudaDevice;

/// Room for 256 tokens.
#[must_use]
pub fn limits(page_size: usize, chunked_prefill_size: usize) -> RunnerLimits {
    RunnerLimits {
        page_size,
        pool_pages: 256_usize.div_ceil(page_size),
        chunked_prefill_size,
        context_length: Some(256),
    }
}

/// A runner with that room.
///
/// # Panics
///
/// If the system has no thread for it.
pub fn runner(
    device: CudaDevice,
    checkpoint: &Checkpoint,
    choices: CudaChoices,
    chunked_prefill_size: usize,
) -> engine::Result<Runner> {
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let page_size = choices.page_size;
    let model = CudaDecoder::load(&checkpoint.plan()?, &workers, device, choices)?;
    Runner::on_cuda(model, limits(page_size, chunked_prefill_size))
}

/// The logits after every token of a sequence that is run in these parts.
pub fn logits<'a>(runner: &mut Runner, parts: impl IntoIterator<Item = &'a [u32]>) -> engine::Result<Vec<f32>> {
    let mut sequence = runner.start();
    let mut logits = Vec::new();
    for part in parts {
        logits.extend(runner.extend(&mut sequence, part, Logits::All)?);
    }
    runner.release(sequence)?;
    Ok(logits)
}

/// How far numbers are from those that they should be: the root of the mean square, by that of the latter.
///
/// # Panics
///
/// If there are not as many.
#[must_use]
pub fn relative_error(found: &[f32], wanted: &[f32]) -> f64 {
    assert_eq!(found.len(), wanted.len(), "numbers to compare");
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>();
    let off = squares(&mut found.iter().zip(wanted).map(|(found, wanted)| f64::from(found - wanted)));
    (off / squares(&mut wanted.iter().map(|&wanted| f64::from(wanted)))).sqrt()
}
