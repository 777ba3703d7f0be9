//! The engine on the emulated device: small models against an independent float32 implementation.

mod bits;
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
use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, CudaDecoder, DecodeKernel};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernel_tests::device;
use kernels::cpu::Workers;
use serde_json::Value;

fn folder(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(model)
}

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

/// What the reference was given and what it said.
struct Reference {
    prompt: Vec<u32>,
    /// The prompt and its likeliest continuation but for the last token.
    tokens: Vec<u32>,
    /// `[tokens, vocabulary]`
    logits: Vec<f32>,
    vocabulary: usize,
}

impl Reference {
    fn of(model: &str) -> Self {
        let path = folder(model);
        let text = std::fs::read_to_string(path.join("reference.json")).expect("readable");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let ids = |key: &str| -> Vec<u32> {
            json[key].as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
        };
        let (prompt, greedy) = (ids("prompt_ids"), ids("greedy_ids"));
        let floats = |name: &str| safetensors::floats(&path.join("reference.safetensors"), name);
        let mut logits = floats("prompt_logits");
        let vocabulary = logits.len() / prompt.len();
        let mut tokens = prompt.clone();
        // The models of single options have logits for their prompts alone.
        if !model.starts_with("options/") {
            // The first of the continuation is the last of the prompt.
            logits.extend(&floats("greedy_logits")[vocabulary..]);
            tokens.extend(&greedy[..greedy.len() - 1]);
        }
        assert_eq!(logits.len(), tokens.len() * vocabulary);
        Self { prompt, tokens, logits, vocabulary }
    }
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
