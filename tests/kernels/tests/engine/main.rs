//! The engine on the emulated device: small models against an independent float32 implementation.

mod bits;
mod compiling;
mod emulation;
mod graphs;
mod limits;
mod logits;
mod quantised;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../../engine/tests/support/safetensors.rs"]
mod safetensors;
mod tuning;

use std::num::NonZeroUsize;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, CudaDecoder, DecodeKernel};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernel_tests::device;
use kernel_tests::references::{Reference, folder};
use kernels::cpu::Workers;

fn open(model: &str) -> Checkpoint {
    Checkpoint::open(&folder(model), LoadFormat::Auto).unwrap_or_else(|error| panic!("{error}"))
}

fn limits(page_size: usize, chunked_prefill_size: usize) -> RunnerLimits {
    RunnerLimits {
        page_size,
        pool_pages: 256_usize.div_ceil(page_size),
        chunked_prefill_size,
        context_length: Some(256),
    }
}

/// Single tokens have a kernel of their own, for which the contexts of these tests are several splits.
const SPLIT: DecodeKernel = DecodeKernel::SplitKv { tokens: 16 };

/// A runner on the emulated device with room for 256 tokens.
fn runner(checkpoint: &Checkpoint, page_size: usize, chunked_prefill_size: usize) -> engine::Result<Runner> {
    runner_with(SPLIT, checkpoint, page_size, chunked_prefill_size)
}

fn runner_with(
    decode: DecodeKernel,
    checkpoint: &Checkpoint,
    page_size: usize,
    chunked_prefill_size: usize,
) -> engine::Result<Runner> {
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let model = CudaDecoder::load(
        &checkpoint.plan()?,
        &workers,
        device(),
        CudaChoices { page_size, decode, graphs: true, settings_key: 0 },
    )?;
    Runner::on_cuda(model, limits(page_size, chunked_prefill_size))
}

/// The logits after every token.
fn all_logits(runner: &mut Runner, tokens: &[u32]) -> Vec<f32> {
    logits_of(runner, [tokens])
}

/// The logits after every token of a sequence that is run in these parts.
fn logits_of<'a>(runner: &mut Runner, parts: impl IntoIterator<Item = &'a [u32]>) -> Vec<f32> {
    let mut sequence = runner.start();
    let mut logits = Vec::new();
    for part in parts {
        let of_part = runner.extend(&mut sequence, part, Logits::All);
        logits.extend(of_part.unwrap_or_else(|error| panic!("{error}")));
    }
    runner.release(sequence).expect("it held its pages");
    logits
}
