//! Weights that stay in the blocks of their file: they take less memory, and change no bit.

use std::num::NonZeroUsize;
use std::path::Path;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{CudaChoices, CudaDecoder, WeightForm};
use engine::runner::Runner;
use kernel_tests::device;
use kernels::cpu::Workers;
use serde_json::Value;

use super::{Reference, SPLIT, folder, limits, logits_of, safetensors};

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../../engine/tests/support/gguf.rs"]
mod gguf;

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

const Q4_0: u32 = 2;
const Q4_1: u32 = 3;
const Q8_0: u32 = 8;

/// The type of the matrices of a name, if they are in blocks.
type Kind = fn(&str) -> Option<u32>;

/// A GGUF file of a model.
pub(super) fn in_blocks(model: &str, kind: Kind) -> Vec<u8> {
    gguf::in_blocks(&folder(model), kind)
}

/// Matrices in bf16 and in blocks of every kind.
pub(super) fn mixed(name: &str) -> Option<u32> {
    if name == "output.weight" {
        return Some(Q8_0);
    }
    match name.strip_prefix("blk.")?.rsplit('.').nth(1)? {
        // Of two types, so they do not stay: what reads the same input is multiplied together.
        "attn_q" | "attn_k" => Some(Q8_0),
        "attn_v" | "ffn_down" => Some(Q4_0),
        "ffn_gate" | "ffn_up" => Some(Q4_1),
        _ => None,
    }
}

/// The bytes of the weights and the bits of logits: of a prompt, and of single tokens, which are captured.
fn run(path: &Path, form: WeightForm, tokens: &[u32]) -> (usize, Vec<u32>) {
    let checkpoint = Checkpoint::open(path, LoadFormat::Auto).unwrap_or_else(|error| panic!("{error}"));
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let plan = checkpoint.plan().unwrap_or_else(|error| panic!("{error}")).with_form(form);
    let choices = CudaChoices { page_size: 16, decode: SPLIT, graphs: true, settings_key: 0 };
    let model = CudaDecoder::load(&plan, &workers, device(), choices).unwrap_or_else(|error| panic!("{error}"));
    let bytes = model.weight_bytes();
    let mut runner = Runner::on_cuda(model, limits(16, 32)).unwrap_or_else(|error| panic!("{error}"));
    let parts = std::iter::once(&tokens[..40]).chain(tokens[40..44].chunks(1));
    (bytes, logits_of(&mut runner, parts).into_iter().map(f32::to_bits).collect())
}

#[test]
fn logits_have_the_bits_of_those_of_weights_in_bf16() {
    let files = tempfile::tempdir().expect("a folder");
    let saved_of = |elements: usize, block_bytes: usize| elements * 2 - elements / 32 * block_bytes;
    let (hidden, head) = (64, 512 * 64);
    // Three layers: queries, keys and values as wide as is said, the output of attention, and the feed-forward block.
    let attention = |query: usize, kv: usize| 3 * hidden * (2 * query + 2 * kv);
    let dense = 3 * hidden * 3 * 128;
    let all = attention(64, 32) + dense + head;
    let cases: [(&str, Kind, usize); 7] = [
        ("llama", |_| Some(Q8_0), saved_of(all, 34)),
        ("llama", |_| Some(Q4_0), saved_of(all, 18)),
        ("llama", |_| Some(Q4_1), saved_of(all, 20)),
        ("llama", mixed, saved_of(dense / 3 * 2, 20) + saved_of(dense / 3, 18) + saved_of(head, 34)),
        // Biases.
        ("qwen2", |_| Some(Q8_0), saved_of(all, 34)),
        // The embedding, which is the head, becomes bf16, and so do experts.
        ("llama_tied", |_| Some(Q8_0), saved_of(attention(64, 64) + dense, 34)),
        ("qwen3_moe", |_| Some(Q8_0), saved_of(attention(128, 64) + head, 34)),
    ];
    for (number, (model, kind, saved)) in cases.into_iter().enumerate() {
        let path = files.path().join(format!("{number}.gguf"));
        std::fs::write(&path, in_blocks(model, kind)).expect("written");
        let tokens = &Reference::of(model).tokens;
        let (expanded, expected) = run(&path, WeightForm::Expanded, tokens);
        let (kept, got) = run(&path, WeightForm::Stored, tokens);
        assert!(got == expected, "{model}, {number}: other bits");
        assert_eq!(expanded - kept, saved, "{model}, {number}: bytes that are saved");
    }
}
