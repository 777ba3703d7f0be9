//! What the tests of the engine share.

#![allow(dead_code)] // Each test file uses a part of it.

pub(crate) mod command;
pub(crate) mod gguf;
pub(crate) mod hub;
pub(crate) mod oracle;
pub(crate) mod safetensors;
pub(crate) mod scripted;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;
pub(crate) mod weight_files;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::runner::{Logits, Runner, RunnerLimits};
use engine::sampling;
use kernels::cpu::Workers;
use serde_json::Value;
use tempfile::TempDir;

/// Has a command run models on the CPU, whose results the tests know, where no flag says otherwise: by itself it would take a GPU
/// that is there.
pub(crate) const ON_CPU: (&str, &str) = ("ENGINE_EXEC_DEVICE", "cpu");

pub(crate) fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models")
}

/// A folder with these files of a small model.
pub(crate) fn folder_with(model: &str, files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in files {
        std::fs::copy(models().join(model).join(file), folder.path().join(file)).expect("copied");
    }
    folder
}

/// The small models with references of another implementation and a vocabulary of their own, by the folder below [`models`].
pub(crate) fn families() -> Vec<String> {
    with_references("")
}

/// These and the still smaller ones, each of which has an option that those lack.
pub(crate) fn families_and_options() -> Vec<String> {
    let mut all = families();
    all.extend(with_references("options/"));
    all
}

fn with_references(below: &str) -> Vec<String> {
    let folder = models().join(below);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let names = entries.map(|entry| entry.expect("readable").file_name().into_string().expect("a name"));
    let mut all: Vec<String> = names.filter(|name| folder.join(name).join("reference.json").exists()).collect();
    assert!(!all.is_empty(), "no models in {}", folder.display());
    all.sort_unstable();
    all.iter().map(|name| format!("{below}{name}")).collect()
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

pub(crate) fn workers() -> Workers {
    Workers::new(NonZeroUsize::new(2).expect("not zero")).expect("threads start")
}

pub(crate) fn open(path: &Path) -> Checkpoint {
    Checkpoint::open(path, LoadFormat::Auto).unwrap_or_else(|e| panic!("{e}"))
}

/// A runner with room for 256 tokens.
pub(crate) fn runner(checkpoint: &Checkpoint, page_size: usize, chunked_prefill_size: usize) -> Runner {
    let workers = workers();
    let model = checkpoint.load(&workers).unwrap_or_else(|e| panic!("{e}"));
    let limits = RunnerLimits {
        page_size,
        pool_pages: 256_usize.div_ceil(page_size),
        chunked_prefill_size,
        context_length: None,
    };
    Runner::new(model, workers, limits).unwrap_or_else(|e| panic!("{e}"))
}

/// The likeliest continuation of a prompt.
pub(crate) fn greedy(runner: &mut Runner, prompt: &[u32], count: usize) -> Vec<u32> {
    let mut sequence = runner.start();
    let mut logits = runner.extend(&mut sequence, prompt, Logits::Last).expect("there is room");
    let mut chosen = Vec::new();
    loop {
        chosen.push(sampling::greedy(&logits).expect("a token"));
        if chosen.len() == count {
            break;
        }
        logits = runner.extend(&mut sequence, &chosen[chosen.len() - 1..], Logits::Last).expect("there is room");
    }
    runner.release(sequence).expect("it held its pages");
    chosen
}
