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

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, DecodeKernel};
use engine::runner::Runner;
use kernel_tests::device;
use kernel_tests::models::{self, limits};
use kernel_tests::references::{Reference, folder};

fn open(model: &str) -> Checkpoint {
    Checkpoint::open(&folder(model), LoadFormat::Auto).unwrap_or_else(|error| panic!("{error}"))
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
    let choices = CudaChoices { page_size, decode, graphs: true, settings_key: 0 };
    models::runner(device(), checkpoint, choices, chunked_prefill_size)
}

/// The logits after every token.
fn all_logits(runner: &mut Runner, tokens: &[u32]) -> Vec<f32> {
    logits_of(runner, [tokens])
}

/// The logits after every token of a sequence that is run in these parts.
fn logits_of<'a>(runner: &mut Runner, parts: impl IntoIterator<Item = &'a [u32]>) -> Vec<f32> {
    models::logits(runner, parts).unwrap_or_else(|error| panic!("{error}"))
}
