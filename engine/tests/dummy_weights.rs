//! Models of which only the configuration is there.

mod support;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Output;

use engine::built::KvPool;
use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernels::cpu::{Isa, Workers};
use serde_json::Value;
use support::command::{engine, refusal, stdout};
use support::folder_with;
use tempfile::TempDir;

/// A folder with the configuration of a small model, and those other files of it.
fn folder(model: &str, others: &[&str]) -> TempDir {
    folder_with(model, &[&["config.json"], others].concat())
}

fn runner(model: &str, threads: usize, chunk: usize) -> Runner {
    let folder = folder(model, &[]);
    let checkpoint = Checkpoint::open(folder.path(), LoadFormat::Dummy).expect("opens");
    assert!(checkpoint.tokenizer().is_none());
    let threads = NonZeroUsize::new(threads).expect("not zero");
    let workers = Workers::with_isa(threads, Isa::scalar()).expect("threads start");
    let limits = RunnerLimits { page_size: 4, pool_pages: 9, chunked_prefill_size: chunk, context_length: None };
    Runner::new(checkpoint.load(&workers).expect("loads"), workers, limits).expect("fits")
}

#[test]
fn the_same_numbers_everywhere() {
    for model in support::families() {
        let logits = |threads, chunk| -> Vec<u32> {
            let mut runner = runner(&model, threads, chunk);
            let mut sequence = runner.start();
            let logits = runner.extend(&mut sequence, &[1, 2, 3, 500, 4], Logits::All).expect("there is room");
            runner.release(sequence).expect("it held its pages");
            assert!(logits.iter().all(|logit| logit.is_finite()));
            let bits: Vec<u32> = logits.into_iter().map(f32::to_bits).collect();
            assert!(bits.iter().any(|logit| *logit != bits[0]));
            bits
        };
        assert_eq!(logits(1, 5), logits(3, 2), "{model}");
    }
}

#[test]
fn what_is_built_by_hand() {
    let built = runner("qwen3", 3, 10).built();
    // Embedding and last norm; each layer: two norms, queries and output, keys and values, the two norms of heads, and the
    // three matrices of the feed-forward block.
    let layer = 2 * 64 + 2 * 64 * 128 + 2 * 64 * 64 + 2 * 32 + 3 * 64 * 128;
    assert_eq!(built.parameters, 512 * 64 + 64 + 3 * layer);
    assert_eq!(built.weight_bytes, 4 * built.parameters);
    // 9 pages of 4 tokens, each with keys and values of 2 heads of 32 in 3 layers, 4 bytes an element.
    let kv = KvPool {
        layers: 3,
        pages: 9,
        page_size: 4,
        tokens: 36,
        key_elements: 64,
        bytes: 36 * 2 * 64 * 3 * 4,
        element: "float32",
    };
    assert_eq!(built.kv, kv);
    assert_eq!((built.context_length, built.longest_sequence, built.threads), (2048, 36, 3));
    assert_eq!((built.prefill_sizes, built.query_heads_per_kv_head), (vec![10, 6], 2));
}

fn generate(folder: &Path, arguments: &[&str]) -> Output {
    let start = ["generate", "--load-format", "dummy", "--ignore-eos", "--max-new-tokens", "4", "--model-path"];
    engine(&start).arg(folder).args(arguments).output().expect("the command runs")
}

#[test]
fn ids_in_and_ids_out_without_a_vocabulary() {
    let folder = folder("llama", &[]);
    let plain = generate(folder.path(), &["--input-ids", "1,2,3"]);
    let ids: Vec<u32> = stdout(&plain).trim_end().split(',').map(|id| id.parse().expect("an id")).collect();
    assert_eq!(ids.len(), 4);
    assert_eq!(stdout(&generate(folder.path(), &["--input-ids", "1,2,3", "--stream"])), stdout(&plain));
    let json = generate(folder.path(), &["--input-ids", "1,2,3", "--json"]);
    let result: Value = serde_json::from_str(stdout(&json)).expect("one JSON object");
    assert_eq!((&result["token_ids"], &result["text"]), (&ids.into(), &"".into()));
    for arguments in [["--prompt", "a"], ["--chat", "a"]] {
        let output = generate(folder.path(), &arguments);
        let (code, text) = refusal(&output);
        assert!(code == Some(1) && text.contains("has no tokenizer.json") && text.contains("--input-ids"), "{text}");
    }
}

#[test]
fn a_vocabulary_is_used_where_there_is_one() {
    let with_words = folder("llama", &["tokenizer.json", "tokenizer_config.json"]);
    let prompt = generate(with_words.path(), &["--prompt", "a b", "--json"]);
    let prompt: Value = serde_json::from_str(stdout(&prompt)).expect("one JSON object");
    assert_ne!(prompt["text"], "");
    assert!(generate(with_words.path(), &["--chat", "a"]).status.success());
    std::fs::write(with_words.path().join("tokenizer.json"), "{").expect("written");
    let output = generate(with_words.path(), &["--input-ids", "1"]);
    let (code, text) = refusal(&output);
    assert!(code == Some(1) && text.contains("tokenizer.json: "), "{text}");
}

#[test]
fn what_dummy_weights_need_is_said() {
    let empty = tempfile::tempdir().expect("a folder");
    let output = generate(empty.path(), &["--input-ids", "1"]);
    assert!(refusal(&output).1.contains("no folder with config.json"), "{}", refusal(&output).1);
    let output = engine(&["generate", "--load-format=dummy", "--input-ids=1"]).output().expect("runs");
    let (code, text) = refusal(&output);
    assert!(code == Some(2) && text.contains("--load-format dummy needs --model-path"), "{text}");
    // Weights are asked for by every other format.
    let folder = folder("llama", &["tokenizer.json"]);
    let fault = Checkpoint::open(folder.path(), LoadFormat::Auto).err().expect("no weights").to_string();
    assert!(fault.contains("model.safetensors"), "{fault}");
}
