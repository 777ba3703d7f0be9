//! Weight files: the same model from either format, and files that are damaged, cut off or lie about themselves.

mod support;

use std::path::{Path, PathBuf};

use engine::Error;
use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::ModelConfig;
use engine::runner::Logits;
use engine::text::SpecialTokens;
use engine::weights;
use serde_json::{Value, json};
use support::gguf::{self, Meta, TensorData};
use support::{ids, models, open, runner, workers};
use tempfile::TempDir;

fn folder_of(model: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(models().join(model)).expect("the model") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).expect("copied");
    }
    folder
}

/// The header of a safetensors file and the tensors behind it.
fn split(path: &Path) -> (Value, Vec<u8>) {
    let bytes = std::fs::read(path).expect("readable");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    (serde_json::from_slice(&bytes[8..8 + length]).expect("a header"), bytes[8 + length..].to_vec())
}

fn join(path: &Path, header: &Value, data: &[u8]) {
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).expect("written");
}

/// Opens and plans; the error if either is refused.
fn refusal(path: &Path) -> Option<String> {
    let checkpoint = match Checkpoint::open(path, LoadFormat::Auto) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return Some(error.to_string()),
    };
    checkpoint.load(&workers()).err().map(|error: Error| error.to_string())
}

fn logits(path: &Path, prompt: &[u32]) -> Vec<u32> {
    let mut runner = runner(&open(path), 16, 512);
    let mut sequence = runner.start();
    let logits = runner.extend(&mut sequence, prompt, Logits::All).expect("there is room");
    runner.release(sequence).expect("it held its pages");
    logits.into_iter().map(f32::to_bits).collect()
}

#[test]
fn a_gguf_file_gives_the_bits_of_the_folder_it_was_made_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    for model in support::MODELS {
        let source = models().join(model);
        std::fs::write(&path, gguf::from_folder(&source)).expect("written");
        let prompt = ids(&support::json(&source.join("reference.json"))["prompt_ids"]);
        let (from_file, from_folder) = (logits(&path, &prompt), logits(&source, &prompt));
        if model == "llama" {
            // Its frequencies went through single precision.
            let off = |(a, b): (&u32, &u32)| (f32::from_bits(*a) - f32::from_bits(*b)).abs();
            let worst = from_file.iter().zip(&from_folder).map(off).fold(0.0, f32::max);
            assert!(worst < 2e-3, "{model}: off by {worst}");
        } else {
            assert!(from_file == from_folder, "{model}");
        }
    }
}

#[test]
fn a_gguf_file_says_what_its_folder_says() {
    let source = models().join("llama_tied");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, gguf::from_folder(&source)).expect("written");
    let (from_file, from_folder) = (open(&path), open(&source));
    assert_eq!(from_file.config(), from_folder.config());
    assert_eq!(from_file.stop_token_ids(), from_folder.stop_token_ids());
    let ids = from_file.tokenizer().expect("a vocabulary").encode("a", SpecialTokens::Add).expect("encodes");
    assert_eq!(ids[0], 509, "the file asks for a beginning-of-text token");
    let ids = from_file.tokenizer().expect("a vocabulary").encode("a", SpecialTokens::AsWritten).expect("encodes");
    assert_ne!(ids[0], 509);
}

#[test]
fn a_sharded_folder_gives_the_bits_of_the_single_file() {
    let source = models().join("llama_tied");
    let folder = folder_of("llama_tied");
    let single = folder.path().join("model.safetensors");
    let (header, data) = split(&single);
    std::fs::remove_file(&single).expect("removed");
    let mut parts = [(json!({}), Vec::new()), (json!({}), Vec::new())];
    let mut map = json!({});
    let tensors = header.as_object().expect("an object").iter().filter(|(name, _)| *name != "__metadata__");
    for (index, (name, entry)) in tensors.enumerate() {
        let (part, bytes) = &mut parts[index % 2];
        let at = |i: usize| entry["data_offsets"][i].as_u64().expect("an offset") as usize;
        let start = bytes.len();
        bytes.extend(&data[at(0)..at(1)]);
        part[name] = entry.clone();
        part[name]["data_offsets"] = json!([start, bytes.len()]);
        map[name] = json!(format!("part-{}.safetensors", index % 2));
    }
    for (index, (header, data)) in parts.iter().enumerate() {
        join(&folder.path().join(format!("part-{index}.safetensors")), header, data);
    }
    let index = folder.path().join("model.safetensors.index.json");
    std::fs::write(&index, json!({"weight_map": map}).to_string()).expect("written");
    let prompt = ids(&support::json(&source.join("reference.json"))["prompt_ids"]);
    assert!(logits(folder.path(), &prompt) == logits(&source, &prompt));

    map["model.norm.weight"] = json!("../elsewhere.safetensors");
    std::fs::write(&index, json!({"weight_map": map}).to_string()).expect("written");
    let error = refusal(folder.path()).expect("outside the folder");
    assert!(error.contains("not a plain file name"), "{error}");
}

#[test]
fn a_safetensors_header_that_lies_is_named_with_its_tensor_and_offset() {
    type Change = fn(&mut Value);
    const NORM: &str = "model.norm.weight";
    let cases: [(&str, Change, &[&str]); 9] = [
        (
            "end beyond the file",
            |h| h[NORM] = json!({"dtype": "BF16", "shape": [64], "data_offsets": [9_999_872, 10_000_000]}),
            &[NORM, "beyond the file", "offset"],
        ),
        ("offsets reversed", |h| h[NORM]["data_offsets"] = json!([128, 0]), &[NORM, "128..0"]),
        ("offsets for another size", |h| h[NORM]["shape"] = json!([65]), &[NORM, "[65]"]),
        ("a size that overflows", |h| h[NORM]["shape"] = json!([u64::MAX, u64::MAX]), &[NORM]),
        ("an offset that overflows", |h| h[NORM]["data_offsets"] = json!([u64::MAX - 128, u64::MAX]), &[NORM]),
        ("a type unknown", |h| h[NORM]["dtype"] = json!("F8_E4M3"), &[NORM, "F8_E4M3", "F32, F16, BF16"]),
        (
            "a tensor over another",
            |h| {
                let other = h["model.layers.0.input_layernorm.weight"].clone();
                h[NORM] = other;
            },
            &[NORM, "overlaps"],
        ),
        (
            "a tensor missing",
            |h| {
                h.as_object_mut().expect("an object").remove(NORM);
            },
            &[NORM, "is missing"],
        ),
        (
            "a tensor of another shape",
            |h| {
                h["model.layers.0.mlp.down_proj.weight"]["shape"] = json!([128, 64]);
            },
            &["model.layers.0.mlp.down_proj.weight", "[128, 64], not [64, 128]"],
        ),
    ];
    for (what, change, parts) in cases {
        let folder = folder_of("llama_tied");
        let path = folder.path().join("model.safetensors");
        let (mut header, data) = split(&path);
        change(&mut header);
        join(&path, &header, &data);
        let error = refusal(folder.path()).unwrap_or_else(|| panic!("{what} was accepted"));
        for part in parts {
            assert!(error.contains(part), "{what}: `{part}` is missing in: {error}");
        }
    }
}

#[test]
fn all_tensors_that_do_not_fit_are_reported_together() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let (mut header, data) = split(&path);
    let entry = header["model.norm.weight"].take();
    header.as_object_mut().expect("an object").remove("model.norm.weight");
    header["model.norm.bias"] = entry;
    join(&path, &header, &data);
    let error = refusal(folder.path()).expect("refused");
    assert!(error.contains("`model.norm.weight` is missing"), "{error}");
    assert!(error.contains("`model.norm.bias` has no place in the model"), "{error}");
}

#[test]
fn a_safetensors_file_cut_anywhere_is_an_error() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).expect("readable");
    let cuts = (0..20).chain((20..bytes.len()).step_by(9_973)).chain([bytes.len() - 1]);
    for length in cuts {
        std::fs::write(&path, &bytes[..length]).expect("written");
        assert!(refusal(folder.path()).is_some(), "{length} bytes of {} were accepted", bytes.len());
    }
    let mut huge = bytes;
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    std::fs::write(&path, huge).expect("written");
    let error = refusal(folder.path()).expect("a header larger than the file");
    assert!(error.contains("offset 0"), "{error}");
}

struct GgufFile {
    _folder: TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

fn gguf_file() -> GgufFile {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let bytes = gguf::from_folder(&models().join("llama_tied"));
    GgufFile { _folder: folder, path, bytes }
}

#[test]
fn a_gguf_file_cut_anywhere_is_an_error() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let cuts = (0..400).chain((400..bytes.len()).step_by(9_973)).chain([bytes.len() - 1]);
    for length in cuts {
        std::fs::write(path, &bytes[..length]).expect("written");
        let Err(error) = weights::gguf::open(path) else { panic!("{length} bytes of {} were accepted", bytes.len()) };
        let error = error.to_string();
        assert!(error.contains("offset") || error.contains("map"), "{length} bytes: {error}");
    }
}

#[test]
fn no_changed_byte_before_the_tensors_makes_a_reader_panic() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let header_end = bytes.len().min(20_000);
    for (count, at) in (0..500).chain((500..header_end).step_by(211)).enumerate() {
        for value in [0x00, 0xff, bytes[at] ^ 0x10] {
            let mut changed = bytes.clone();
            changed[at] = value;
            std::fs::write(path, changed).expect("written");
            // Accepted or refused: many bytes are free to change, such as those of token texts.
            if count % 8 == 0 {
                let _ = Checkpoint::open(path, LoadFormat::Auto);
            } else if let Ok((metadata, weights)) = weights::gguf::open(path) {
                let _ = ModelConfig::from_gguf(&metadata, &weights);
            }
        }
    }
}

#[test]
fn a_gguf_file_that_lies_or_is_too_new_is_refused_by_name() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let patched = |at: usize, with: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + with.len()].copy_from_slice(with);
        std::fs::write(path, changed).expect("written");
        refusal(path).expect("refused")
    };
    let cases = [
        (patched(0, b"GGML"), "does not say GGUF"),
        (patched(4, &2_u32.to_le_bytes()), "version 2"),
        (patched(8, &u64::MAX.to_le_bytes()), "offset 8: claims"),
        (patched(16, &(u64::MAX / 2).to_le_bytes()), "offset 16: claims"),
        (patched(24, &u64::MAX.to_le_bytes()), "offset 24: claims"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn gguf_tensors_and_metadata_that_cannot_be_used_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let refuse = |metadata: &[(&str, Meta<'_>)], tensor: TensorData| {
        std::fs::write(&path, gguf::write(metadata, &[tensor])).expect("written");
        refusal(&path).expect("refused")
    };
    let tensor = |kind: u32, shape: &[u64], length: usize| TensorData {
        name: "output_norm.weight".into(),
        shape: shape.to_vec(),
        kind,
        bytes: vec![0; length],
    };
    let cases = [
        (refuse(&[], tensor(12, &[256], 144)), "Q4_K of tensor `output_norm.weight`"),
        (refuse(&[], tensor(99, &[256], 144)), "number 99 of tensor `output_norm.weight`"),
        (refuse(&[], tensor(8, &[33], 34)), "`output_norm.weight` has shape [33]"),
        (refuse(&[], tensor(0, &[1 << 40, 1 << 40], 4)), "`output_norm.weight` has shape"),
        (refuse(&[], tensor(0, &[1_000_000], 4)), "ends beyond the file"),
        (refuse(&[], tensor(0, &[], 4)), "has 0 dimensions"),
        (refuse(&[("general.alignment", Meta::U32(33))], tensor(0, &[1], 4)), "not a power of two"),
        (refuse(&[("a", Meta::U32(1)), ("a", Meta::U32(2))], tensor(0, &[1], 4)), "`a` is there twice"),
        (refuse(&[("general.architecture", Meta::Text("bert"))], tensor(0, &[1], 4)), "missing"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn gguf_models_that_cannot_be_computed_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let refuse = |name: &str, changes: Vec<(&str, Meta<'static>)>| {
        let mut keys = vec![
            ("block_count", Meta::U32(1)),
            ("context_length", Meta::U32(64)),
            ("embedding_length", Meta::U32(8)),
            ("feed_forward_length", Meta::U32(8)),
            ("attention.head_count", Meta::U32(2)),
            ("attention.layer_norm_rms_epsilon", Meta::F32(1e-5)),
            ("vocab_size", Meta::U32(10)),
        ];
        keys.retain(|(key, _)| changes.iter().all(|(changed, _)| changed != key));
        let all: Vec<(String, Meta<'_>)> =
            keys.into_iter().chain(changes).map(|(key, value)| (format!("{name}.{key}"), value)).collect();
        let mut metadata: Vec<(&str, Meta<'_>)> = vec![("general.architecture", Meta::Text(name))];
        let (keys, values): (Vec<String>, Vec<Meta<'_>>) = all.into_iter().unzip();
        metadata.extend(keys.iter().map(String::as_str).zip(values));
        std::fs::write(&path, gguf::write(&metadata, &[])).expect("written");
        let (metadata, weights) = weights::gguf::open(&path).expect("a file");
        ModelConfig::from_gguf(&metadata, &weights).map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(refuse("llama", vec![]), "", "as it stands it is a model");
    let experts = |changes: Vec<(&'static str, Meta<'static>)>| {
        let mut all = vec![("expert_count", Meta::U32(4)), ("expert_used_count", Meta::U32(2))];
        all.extend(changes);
        all
    };
    assert_eq!(refuse("llama", experts(vec![])), "");
    let cases = [
        (refuse("gemma", vec![]), "GGUF architecture gemma (known: llama, olmoe, qwen2, qwen3, qwen3moe)"),
        (refuse("qwen2", experts(vec![])), "`qwen2.expert_count`"),
        (refuse("olmoe", vec![]), "`olmoe.expert_count` is missing"),
        (refuse("qwen3moe", vec![("expert_count", Meta::U32(4))]), "`qwen3moe.expert_used_count` is missing"),
        (refuse("olmoe", experts(vec![("expert_gating_func", Meta::U32(2))])), "`olmoe.expert_gating_func` = 2"),
        (refuse("olmoe", experts(vec![("expert_shared_count", Meta::U32(1))])), "`olmoe.expert_shared_count`"),
        (refuse("olmoe", experts(vec![("attention.clamp_kqv", Meta::F32(0.0))])), "clip_qkv is 0"),
        (refuse("llama", vec![("attention.clamp_kqv", Meta::F32(8.0))]), "`llama.attention.clamp_kqv` = 8"),
        (refuse("qwen2", vec![("attention.sliding_window", Meta::U32(8))]), "`qwen2.attention.sliding_window` = 8"),
        (refuse("llama", vec![("rope.scaling.type", Meta::Text("longrope"))]), "longrope (known: none, linear, yarn)"),
        (refuse("llama", vec![("rope.scaling.type", Meta::Text("linear"))]), "`llama.rope.scaling.factor` is missing"),
        (refuse("qwen3", vec![("rope.scaling.yarn_log_mul", Meta::F32(0.1))]), "`qwen3.rope.scaling.yarn_log_mul`"),
        (refuse("qwen3", vec![("rope.dimension_count", Meta::U32(2))]), "2 where a head has 4 elements"),
        (refuse("qwen3", vec![("block_count", Meta::U32(1 << 30))]), "number of layers"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}
