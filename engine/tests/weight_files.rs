//! Weight files: the same model from either format, and files that are damaged, cut off or lie about themselves.

mod support;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use engine::Error;
use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::generate::{Request, generate};
use engine::model::{Decoder, ModelConfig};
use engine::runner::Logits;
use engine::sampling::Random;
use engine::text::{Message, SpecialTokens};
use engine::weights::{self, ElementType};
use kernels::cpu::Isa;
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
    let mut said = 0;
    for model in support::families_and_options() {
        let source = models().join(&model);
        let config = support::json(&source.join("config.json"));
        if !gguf::can_say(&config) {
            continue;
        }
        said += 1;
        std::fs::write(&path, gguf::from_folder(&source)).expect("written");
        let prompt = ids(&support::json(&source.join("reference.json"))["prompt_ids"]);
        let (from_file, from_folder) = (logits(&path, &prompt), logits(&source, &prompt));
        if config["rope_scaling"]["rope_type"] == "llama3" {
            // Its frequencies went through single precision.
            let off = |(a, b): (&u32, &u32)| (f32::from_bits(*a) - f32::from_bits(*b)).abs();
            let worst = from_file.iter().zip(&from_folder).map(off).fold(0.0, f32::max);
            assert!(worst < 2e-3, "{model}: off by {worst}");
        } else {
            assert!(from_file == from_folder, "{model}");
        }
    }
    assert!(said > support::families().len(), "{said} models");
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

    // Where all are in one file, no index is asked for.
    join(&single, &header, &data);
    assert_eq!(refusal(folder.path()), None);
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
fn of_many_tensors_that_do_not_fit_twelve_are_named_and_the_others_counted() {
    for (missing, more) in [(11, None), (12, None), (13, Some("and 1 more"))] {
        let folder = folder_of("llama_tied");
        let path = folder.path().join("model.safetensors");
        let (mut header, data) = split(&path);
        let all = header.as_object_mut().expect("an object");
        let names: Vec<_> = all.keys().filter(|name| *name != "__metadata__").take(missing).cloned().collect();
        for name in &names {
            all.remove(name);
        }
        join(&path, &header, &data);
        let error = refusal(folder.path()).expect("refused");
        assert_eq!(error.matches("is missing").count(), missing.min(12), "{error}");
        assert_eq!(error.lines().last().map(str::trim).filter(|line| line.ends_with("more")), more, "{error}");
    }
}

#[test]
fn a_safetensors_header_that_is_none_is_told_with_its_offset() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    for (header, part) in [
        ("{", "header at offset 8: EOF"),
        ("[]", "header at offset 8: invalid type"),
        (r#"{"t": }"#, "header at offset 8: expected value"),
        (r#"{"t": 5}"#, "tensor `t` has a header entry that is wrong: invalid type"),
        (r#"{"t": {"dtype": "F32"}}"#, "tensor `t` has a header entry that is wrong: missing field"),
    ] {
        std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).expect("written");
        let error = refusal(folder.path()).expect("refused");
        assert!(error.contains(part), "{header}: `{part}` is missing in: {error}");
    }
}

#[test]
fn frequencies_that_older_folders_store_are_passed_over() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let (mut header, mut data) = split(&path);
    let (start, end) = (data.len(), data.len() + 4);
    data.extend([0; 4]);
    header["model.layers.0.self_attn.rotary_emb.inv_freq"] =
        json!({"dtype": "F32", "shape": [1], "data_offsets": [start, end]});
    join(&path, &header, &data);
    assert_eq!(refusal(folder.path()), None);
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
    for claim in [10_000_000_000, u64::MAX] {
        huge[..8].copy_from_slice(&claim.to_le_bytes());
        std::fs::write(&path, &huge).expect("written");
        let error = refusal(folder.path()).expect("a header larger than the file");
        assert!(error.contains(&format!("offset 0 claims a header of {claim} bytes")), "{error}");
    }
    // The format's own library reads no longer header either, though the file has it.
    std::fs::write(&path, 100_000_001_u64.to_le_bytes()).expect("written");
    let file = std::fs::File::options().write(true).open(&path).expect("opened");
    file.set_len(8 + 100_000_001).expect("as long as it says");
    let error = refusal(folder.path()).expect("refused");
    assert!(error.contains("claims a header of 100000001 bytes"), "{error}");
}

#[test]
fn a_tensor_that_is_there_twice_is_refused_in_one_file_and_in_two() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let (header, data) = split(&path);
    let entry = header["model.norm.weight"].to_string();
    let text = header.to_string();
    let twice = format!("{},\"model.norm.weight\":{entry}}}", text.strip_suffix('}').expect("an object"));
    let mut bytes = (twice.len() as u64).to_le_bytes().to_vec();
    bytes.extend(twice.as_bytes());
    bytes.extend(&data);
    std::fs::write(&path, bytes).expect("written");
    let error = refusal(folder.path()).expect("refused");
    assert!(error.contains("header at offset 8 has `model.norm.weight` twice"), "{error}");

    std::fs::remove_file(&path).expect("removed");
    let part = json!({"model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}});
    join(&folder.path().join("part-0.safetensors"), &header, &data);
    join(&folder.path().join("part-1.safetensors"), &part, &data[..128]);
    let map = json!({"a": "part-0.safetensors", "b": "part-1.safetensors"});
    let index = folder.path().join("model.safetensors.index.json");
    std::fs::write(&index, json!({"weight_map": map}).to_string()).expect("written");
    let error = refusal(folder.path()).expect("refused");
    assert!(error.contains("part-1.safetensors: tensor `model.norm.weight` is there twice"), "{error}");
}

#[test]
fn weights_that_are_no_numbers_are_found_on_request() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let (header, mut data) = split(&path);
    let name = "model.layers.1.mlp.up_proj.weight";
    let start = header[name]["data_offsets"][0].as_u64().expect("an offset") as usize;
    // Element 70, a bfloat16 number.
    data[start + 140..start + 142].copy_from_slice(&[0xc0, 0x7f]);
    join(&path, &header, &data);
    let offset = 8 + header.to_string().len() + start + 140;
    let check = |path: &Path| {
        let checkpoint = open(path);
        let plan = checkpoint.plan().expect("every tensor is there");
        plan.check_finite(&workers()).err().map(|error| error.to_string())
    };
    assert!(refusal(folder.path()).is_none(), "nobody asked");
    // Then a request says what came of it, and gives its pages back.
    let mut damaged = runner(&open(folder.path()), 16, 512);
    let request = Request { prompt_token_ids: vec![1], max_new_tokens: 2, ..Request::default() };
    let answer = generate(&mut damaged, None, &request, &AtomicBool::new(false), |_| ControlFlow::Continue(()));
    let error = answer.expect_err("no number").to_string();
    assert!(error.contains("the model gave token 0 the logit NaN"), "{error}");
    assert_eq!(damaged.available_pages() * 16, damaged.capacity());
    let error = check(folder.path()).expect("refused");
    assert!(error.contains(&format!("`{name}` has NaN as element 70, at offset {offset}")), "{error}");
    assert_eq!(check(&models().join("llama_tied")), None);

    // In a quantised type, a scale makes all of its block infinite.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut tensors = random_tensors(ElementType::Q8_0, 8, &WIDE_DENSE);
    let down = tensors.iter_mut().find(|tensor| tensor.name == "blk.0.ffn_down.weight").expect("it is there");
    down.bytes[34 * 3..34 * 3 + 2].copy_from_slice(&[0x00, 0x7c]);
    std::fs::write(&path, wide_gguf(&tensors)).expect("written");
    let error = check(&path).expect("refused");
    assert!(error.contains("`blk.0.ffn_down.weight` has") && error.contains("as element 96, at offset"), "{error}");
}

#[test]
fn progress_counts_to_all_bytes() {
    let seen = RefCell::new(Vec::new());
    let progress = |read, all| seen.borrow_mut().push((read, all));
    let checkpoint = open(&models().join("llama_tied"));
    let plan = checkpoint.plan().expect("every tensor is there");
    let bytes = plan.loaded_bytes();
    let model = Decoder::load(&plan.with_progress(&progress), &workers());
    assert_eq!(model.weight_bytes(), bytes);
    let seen = seen.into_inner();
    assert!(seen.is_sorted() && seen.len() > 20, "{seen:?}");
    let (_, data) = split(&models().join("llama_tied/model.safetensors"));
    assert_eq!(seen.last(), Some(&(data.len(), data.len())));
}

/// The types a GGUF file may have, with their numbers and where a block has f16 scales.
const GGUF_TYPES: [(ElementType, u32, &[usize]); 10] = [
    (ElementType::F16, 1, &[]),
    (ElementType::Bf16, 30, &[]),
    (ElementType::Q4_0, 2, &[0]),
    (ElementType::Q4_1, 3, &[0, 2]),
    (ElementType::Q5_0, 6, &[0]),
    (ElementType::Q5_1, 7, &[0, 2]),
    (ElementType::Q8_0, 8, &[0]),
    (ElementType::Q4K, 12, &[0, 2]),
    (ElementType::Q5K, 13, &[0, 2]),
    (ElementType::Q6K, 14, &[208]),
];

/// The matrices of a model with rows of whole blocks of every type, whatever its feed-forward block.
const WIDE: [(&str, &[u64]); 5] = [
    ("token_embd", &[512, 256]),
    ("blk.0.attn_q", &[256, 256]),
    ("blk.0.attn_k", &[128, 256]),
    ("blk.0.attn_v", &[128, 256]),
    ("blk.0.attn_output", &[256, 256]),
];
/// One feed-forward block for all tokens.
const WIDE_DENSE: [(&str, &[u64]); 3] =
    [("blk.0.ffn_gate", &[512, 256]), ("blk.0.ffn_up", &[512, 256]), ("blk.0.ffn_down", &[256, 512])];
/// Four experts.
const WIDE_EXPERTS: [(&str, &[u64]); 3] = [
    ("blk.0.ffn_gate_exps", &[4, 512, 256]),
    ("blk.0.ffn_up_exps", &[4, 512, 256]),
    ("blk.0.ffn_down_exps", &[4, 256, 512]),
];

/// The tensors of a wide model: made-up ones of one type, norms of ones, and for experts a router.
fn random_tensors(element: ElementType, kind: u32, feed_forward: &[(&str, &[u64])]) -> Vec<TensorData> {
    let mut random = Random::new(7);
    let (_, _, scales) = GGUF_TYPES.iter().find(|(other, ..)| *other == element).expect("a type of the format");
    let (elements, block_bytes) = element.block();
    let floats = |name: &str, shape: &[u64], numbers: Vec<f32>| {
        let bytes = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
        TensorData { name: format!("{name}.weight"), shape: shape.to_vec(), kind: 0, bytes }
    };
    let norms = ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"];
    let mut small: Vec<_> = norms.iter().map(|name| floats(name, &[256], vec![1.0; 256])).collect();
    if feed_forward == WIDE_EXPERTS {
        let numbers = (0..4 * 256).map(|_| (random.bits() % 1024) as f32 / 1024.0 - 0.5).collect();
        small.push(floats("blk.0.ffn_gate_inp", &[4, 256], numbers));
    }
    let matrix = |(name, shape): (&str, &[u64])| {
        let mut bytes = Vec::new();
        for _ in 0..shape.iter().product::<u64>() as usize / elements {
            let block = bytes.len();
            bytes.extend((0..block_bytes).map(|_| random.bits() as u8));
            for at in *scales {
                // Between 2⁻¹² and 2⁻¹¹.
                bytes[block + at + 1] = 0x0c | (bytes[block + at + 1] & 0x83);
            }
            if scales.is_empty() {
                // Smaller than one, whether f16 or bfloat16.
                bytes[block + 1] &= 0xb7;
            }
        }
        TensorData { name: format!("{name}.weight"), shape: shape.to_vec(), kind, bytes }
    };
    WIDE.iter().chain(feed_forward).copied().map(matrix).chain(small).collect()
}

/// A GGUF file of a model with the shapes of [`random_tensors`].
fn wide_gguf(tensors: &[TensorData]) -> Vec<u8> {
    let folder = models().join("llama_tied");
    let mut config = support::json(&folder.join("config.json"));
    for (key, value) in [
        ("hidden_size", 256),
        ("intermediate_size", 512),
        ("num_hidden_layers", 1),
        ("num_attention_heads", 4),
        ("num_key_value_heads", 2),
        ("head_dim", 64),
    ] {
        config[key] = json!(value);
    }
    if tensors.iter().any(|tensor| tensor.name.contains("_exps")) {
        config["architectures"] = json!(["MixtralForCausalLM"]);
        config["num_local_experts"] = json!(4);
        config["num_experts_per_tok"] = json!(2);
    }
    gguf::with_tensors(&config, &support::json(&folder.join("tokenizer.json")), tensors)
}

#[test]
fn a_gguf_file_of_any_type_gives_the_bits_of_its_expanded_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (stored, expanded) = (folder.path().join("stored.gguf"), folder.path().join("expanded.gguf"));
    let prompt: Vec<u32> = (0..40).map(|at| at * 11 % 509).collect();
    let models = [WIDE_DENSE, WIDE_EXPERTS];
    for ((element, kind, _), feed_forward) in GGUF_TYPES.iter().flat_map(|kind| models.map(|model| (*kind, model))) {
        let tensors = random_tensors(element, kind, &feed_forward);
        std::fs::write(&stored, wide_gguf(&tensors)).expect("written");
        let wide = tensors.into_iter().map(|tensor| {
            if tensor.kind == 0 {
                return tensor;
            }
            let mut numbers = vec![0.0; tensor.shape.iter().product::<u64>() as usize];
            element.expand(Isa::scalar(), &tensor.bytes, &mut numbers);
            let bytes = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
            TensorData { kind: 0, bytes, ..tensor }
        });
        std::fs::write(&expanded, wide_gguf(&wide.collect::<Vec<_>>())).expect("written");
        let got = logits(&stored, &prompt);
        assert!(got.iter().all(|&bits| f32::from_bits(bits).is_finite()), "{}", element.name());
        assert!(got == logits(&expanded, &prompt), "{}", element.name());
        // One token at a time takes another way through the products.
        let mut runner = runner(&open(&stored), 16, 1);
        let mut sequence = runner.start();
        let one_by_one = runner.extend(&mut sequence, &prompt, Logits::All).expect("there is room");
        runner.release(sequence).expect("it held its pages");
        assert!(got == one_by_one.into_iter().map(f32::to_bits).collect::<Vec<_>>(), "{}", element.name());
        assert!(runner.built().weight_bytes < 3 * runner.built().parameters, "{} was expanded", element.name());
    }
}

#[test]
fn a_divisor_of_frequencies_that_is_no_positive_number_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    // Its divisors are those of Llama 3; they are the first tensor of the file.
    let bytes = gguf::from_folder(&models().join("llama"));
    std::fs::write(&path, &bytes).expect("written");
    assert_eq!(refusal(&path), None);
    let (_, weights) = weights::gguf::open(&path).expect("a file");
    let others: usize = weights.iter().map(|(_, tensor)| tensor.stored_bytes().next_multiple_of(32)).sum();
    let start = bytes.len() - others;
    for (number, shown) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (-1.5, "-1.5"),
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
        (f32::NEG_INFINITY, "-inf"),
    ] {
        let mut changed = bytes.clone();
        changed[start + 12..start + 16].copy_from_slice(&number.to_le_bytes());
        std::fs::write(&path, changed).expect("written");
        let error = refusal(&path).unwrap_or_else(|| panic!("{number} was accepted"));
        let part = format!("tensor `rope_freqs.weight` has {shown} as element 3, at offset {}", start + 12);
        assert!(error.contains(&part) && error.contains("positive number"), "`{part}` is missing in: {error}");
    }
}

#[test]
fn a_tensor_without_elements_is_refused_with_its_place_in_either_format() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let (header, data) = split(&path);
    for (shape, dimension) in [(json!([0, 64]), 0), (json!([64, 0]), 1), (json!([0]), 0), (json!([4, 0, 0]), 1)] {
        let mut changed = header.clone();
        changed["model.norm.weight"]["shape"] = shape.clone();
        changed["model.norm.weight"]["data_offsets"] = json!([256, 256]);
        join(&path, &changed, &data);
        let error = refusal(folder.path()).unwrap_or_else(|| panic!("{shape} was accepted"));
        let offset = 8 + changed.to_string().len() + 256;
        let part = format!("tensor `model.norm.weight` at offset {offset} has no elements: dimension {dimension} of");
        assert!(error.contains(&part), "`{part}` is missing in: {error}");
    }

    let path = folder.path().join("model.gguf");
    for (shape, dimension) in [(vec![0], 0), (vec![4, 0], 1), (vec![0, 32], 0)] {
        let tensor = |name: &str, shape: Vec<u64>, length| TensorData {
            name: name.into(),
            shape,
            kind: 0,
            bytes: vec![0; length],
        };
        let bytes = gguf::write(&[], &[tensor("first.weight", vec![8], 32), tensor("none.weight", shape, 0)]);
        std::fs::write(&path, &bytes).expect("written");
        let error = weights::gguf::open(&path).expect_err("refused").to_string();
        let part = format!("tensor `none.weight` at offset {} has no elements: dimension {dimension} of", bytes.len());
        assert!(error.contains(&part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn files_of_a_folder_that_say_something_else_are_named() {
    // A file, what is in it (nothing: it is a folder), and what is said of it.
    let cases = [
        ("config.json", None, "config.json: Is a directory"),
        ("config.json", Some("{"), "config.json: EOF"),
        ("generation_config.json", None, "generation_config.json: Is a directory"),
        ("generation_config.json", Some("{"), "generation_config.json: EOF"),
        ("generation_config.json", Some(r#"{"eos_token_id": "x"}"#), "eos_token_id is \"x\""),
        ("generation_config.json", Some(r#"{"eos_token_id": [1, -1]}"#), "eos_token_id is [1,-1]"),
        ("generation_config.json", Some(r#"{"bos_token_id": 4294967296}"#), "bos_token_id is 4294967296"),
        ("tokenizer.json", None, "tokenizer.json: Is a directory"),
        ("tokenizer.json", Some("{"), "tokenizer.json: EOF"),
        ("tokenizer_config.json", None, "tokenizer_config.json: Is a directory"),
        ("tokenizer_config.json", Some("{"), "tokenizer_config.json: EOF"),
        ("tokenizer_config.json", Some(r#"{"chat_template": "{% if %}"}"#), "chat template: "),
        ("chat_template.jinja", None, "chat_template.jinja: Is a directory"),
        ("chat_template.jinja", Some("{{ messages"), "chat template: "),
        ("model.safetensors", None, "model.safetensors: not a file"),
        ("model.safetensors.index.json", Some("{"), "model.safetensors.index.json: weight index: EOF"),
        ("model.safetensors.index.json", None, "model.safetensors.index.json: Is a directory"),
        (
            "model.safetensors.index.json",
            Some(r#"{"weight_map": {"model.norm.weight": "part.safetensors"}}"#),
            "part.safetensors: No such file",
        ),
    ];
    for (file, text, part) in cases {
        let folder = folder_of("llama_tied");
        let path = folder.path().join(file);
        let _ = std::fs::remove_file(&path);
        if file.contains("index") {
            std::fs::remove_file(folder.path().join("model.safetensors")).expect("removed");
        }
        match text {
            Some(text) => std::fs::write(&path, text).expect("written"),
            None => std::fs::create_dir(&path).expect("made"),
        }
        let error = refusal(folder.path()).unwrap_or_else(|| panic!("{file}: {text:?} is accepted"));
        assert!(error.contains(part), "{file}, {text:?}: `{part}` is missing in: {error}");
    }
    let folder = folder_of("llama_tied");
    std::fs::remove_file(folder.path().join("tokenizer.json")).expect("removed");
    let error = refusal(folder.path()).expect("weights without a vocabulary");
    assert!(error.contains("tokenizer.json: No such file"), "{error}");
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

/// The bytes of a metadata pair called `key`, with a value of a type of the format.
fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&(key.len() as u64).to_le_bytes(), key.as_bytes(), &kind.to_le_bytes(), value].concat()
}

#[test]
fn a_gguf_file_of_every_type_of_value_is_an_error_wherever_it_is_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let length = |length: u64| length.to_le_bytes();
    let array = [&8_u32.to_le_bytes()[..], &length(2), &length(1), b"x", &length(1), b"y"].concat();
    let sizes = [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)];
    let mut pairs: Vec<_> = sizes.iter().map(|&(kind, size)| pair(&format!("k{kind}"), kind, &vec![0; size])).collect();
    pairs.extend([pair("text", 8, &[&length(3)[..], b"abc"].concat()), pair("array", 9, &array)]);
    let head = |pairs: usize| [&b"GGUF"[..], &3_u32.to_le_bytes(), &length(1), &length(pairs as u64)].concat();
    let tensor = [&length(1)[..], b"t", &2_u32.to_le_bytes(), &length(2), &length(2), &[0; 4], &length(0)].concat();
    let with = |pairs: &[Vec<u8>]| {
        let mut bytes = [head(pairs.len()), pairs.concat(), tensor.clone()].concat();
        bytes.resize(bytes.len().next_multiple_of(32) + 16, 0);
        bytes
    };
    // Without a tensor there is less room for what is claimed, and more can be read before something is missing.
    let alone = |pair: &[u8]| {
        let mut bytes = [head(1), pair.to_vec()].concat();
        bytes[8..16].fill(0);
        bytes
    };
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        weights::gguf::open(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    // Each pair is the last before the tensor once, so that the file has room for as many as it claims.
    for one in 0..pairs.len() {
        let bytes = with(&pairs[one..=one]);
        assert_eq!(open(&bytes), Ok(()));
        let without = alone(&pairs[one]);
        assert_eq!(open(&without), Ok(()));
        let cuts = (24..bytes.len()).map(|length| &bytes[..length]);
        for cut in cuts.chain((24..without.len()).map(|length| &without[..length])) {
            let error = open(cut).expect_err("it is cut");
            assert!(error.contains("offset"), "{} bytes: {error}", cut.len());
        }
    }
    let nested = [&9_u32.to_le_bytes()[..], &length(0)].concat();
    for (value, part) in [(nested, "array of value type 9"), ([&13_u32.to_le_bytes()[..], &length(0)].concat(), "13")] {
        let error = open(&with(&[pair("a", 9, &value)])).expect_err("no such array");
        assert!(error.contains(part), "{error}");
    }
    let error = open(&with(&[pair("a", 13, &[0; 8])])).expect_err("no such value");
    assert!(error.contains("value type 13"), "{error}");
}

/// The bytes of a small file with two tensors of 32 numbers, and where the data offset of the second is.
fn two_tensors() -> (Vec<u8>, usize) {
    let tensor = |name: &str| TensorData { name: name.into(), shape: vec![32], kind: 0, bytes: vec![0; 128] };
    let bytes = gguf::write(&[], &[tensor("first.weight"), tensor("second.weight")]);
    let name = bytes.windows(13).position(|window| window == b"second.weight").expect("its name");
    // Behind the name: the number of dimensions, one dimension, the type.
    (bytes, name + 13 + 4 + 8 + 4)
}

#[test]
fn gguf_offsets_that_lie_are_named_with_their_tensor() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let (bytes, at) = two_tensors();
    let data_start = bytes.len() - 256;
    let with_offset = |offset: u64| {
        let mut changed = bytes.clone();
        changed[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        std::fs::write(&path, changed).expect("written");
        weights::gguf::open(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with_offset(128), Ok(()));
    let past_the_end = format!("`second.weight` of 128 bytes at offset {} ends beyond the file", data_start + 160);
    let overlapping =
        format!("at offset {} overlaps tensor `first.weight`, which ends at {}", data_start + 96, data_start + 128);
    let cases = [
        (160, past_the_end.as_str()),
        (1 << 40, "`second.weight` of 128 bytes at offset"),
        (96, &overlapping),
        (129, "`second.weight` has data offset 129, which is not aligned to 32"),
        (u64::MAX - 31, "`second.weight` has data offset"),
    ];
    for (offset, part) in cases {
        let error = with_offset(offset).expect_err("refused");
        assert!(error.contains(part), "{offset}: `{part}` is missing in: {error}");
    }
}

#[test]
fn a_gguf_file_cut_in_half_says_which_tensor_ends_beyond_it() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    std::fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
    let error = refusal(path).expect("refused");
    let part = format!("ends beyond the file of {} bytes", bytes.len() / 2);
    assert!(error.contains("tensor `") && error.contains("at offset") && error.contains(&part), "{error}");
}

/// The bytes of a GGUF file with two more pairs in front, the first of which is `first`; tensors stay where they are aligned.
fn with_pair_in_front(bytes: &[u8], first: &[u8]) -> Vec<u8> {
    let filler = pair("filler", 8, &0_u64.to_le_bytes()).len();
    let missing = (first.len() + filler).next_multiple_of(32) - first.len() - filler;
    let filler = pair("filler", 8, &[&(missing as u64).to_le_bytes()[..], &vec![b' '; missing]].concat());
    let mut out = [&bytes[..24], first, &filler, &bytes[24..]].concat();
    let pairs = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
    out[16..24].copy_from_slice(&(pairs + 2).to_le_bytes());
    out
}

#[test]
fn a_chat_template_in_a_gguf_file_is_used_or_refused_by_name() {
    let GgufFile { path, bytes, .. } = &gguf_file();
    let with = |kind: u32, value: &[u8]| {
        let pair = pair("tokenizer.chat_template", kind, value);
        std::fs::write(path, with_pair_in_front(bytes, &pair)).expect("written");
    };
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    with(8, &text("{{ messages[0].content }}{{ eos_token }}"));
    assert_eq!(refusal(path), None);
    let checkpoint = open(path);
    let template = checkpoint.chat_template().expect("a template");
    assert!(template.render(&[Message::user("hi")]).expect("renders").starts_with("hi"));
    with(8, &text("{% if %}"));
    let error = refusal(path).expect("no template");
    assert!(error.contains("chat template: "), "{error}");
    with(4, &1_u32.to_le_bytes());
    let error = refusal(path).expect("no text");
    assert!(error.contains("`tokenizer.chat_template` is not text"), "{error}");
}

#[test]
fn a_tensor_with_a_name_of_older_folders_has_no_place_in_a_gguf_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut tensors = random_tensors(ElementType::Q8_0, 8, &WIDE_DENSE);
    std::fs::write(&path, wide_gguf(&tensors)).expect("written");
    assert_eq!(refusal(&path), None);
    let name = "blk.0.self_attn.rotary_emb.inv_freq";
    tensors.push(TensorData { name: name.into(), shape: vec![1], kind: 0, bytes: vec![0; 4] });
    std::fs::write(&path, wide_gguf(&tensors)).expect("written");
    let error = refusal(&path).expect("left over");
    assert!(error.contains(&format!("`{name}` has no place in the model")), "{error}");
}

#[test]
fn experts_of_a_gguf_file_are_searched_for_what_is_no_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut bytes = gguf::from_folder(&models().join("mixtral"));
    let check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        let checkpoint = open(&path);
        let plan = checkpoint.plan().expect("every tensor is there");
        plan.check_finite(&workers()).err().map(|error| error.to_string())
    };
    assert_eq!(check(&bytes), None);
    // The last element of the last expert.
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = check(&bytes).expect("refused");
    assert!(error.contains("_exps.weight` has NaN as element"), "{error}");
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
fn gguf_counts_and_values_are_held_against_what_can_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    // Counts of tensors and of pairs; what follows.
    let refused = |tensors: u64, pairs: u64, rest: &[&[u8]]| {
        let head = [&b"GGUF"[..], &3_u32.to_le_bytes(), &tensors.to_le_bytes(), &pairs.to_le_bytes()];
        std::fs::write(&path, [head.concat(), rest.concat()].concat()).expect("written");
        weights::gguf::open(&path).map(|_| ()).expect_err("refused").to_string()
    };
    // 8 bytes of a count of pairs and 40 more; a tensor takes 24 at least.
    let error = refused(3, 0, &[&[0; 40]]);
    assert!(error.contains("claims 3 tensors, the file has room for 2"), "{error}");
    // A pair takes 13.
    let error = refused(0, 3, &[&[0; 38]]);
    assert!(error.contains("claims 3 metadata pairs, the file has room for 2"), "{error}");

    let key = [&1_u64.to_le_bytes()[..], b"a"].concat();
    let error = refused(0, 1, &[&key, &7_u32.to_le_bytes(), &[2], &[0; 8]]);
    assert!(error.contains("truth value 2"), "{error}");
    let many = (1_usize << 22) + 1;
    let bytes = [&9_u32.to_le_bytes()[..], &0_u32.to_le_bytes(), &(many as u64).to_le_bytes()].concat();
    let error = refused(0, 1, &[&key, &bytes, &vec![0; many]]);
    assert!(error.contains("array of 4194305 elements (limit: 4194304)"), "{error}");

    let error = weights::gguf::open(folder.path()).map(|_| ()).expect_err("a folder").to_string();
    assert!(error.contains("not a file"), "{error}");
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
        (refuse(&[], tensor(10, &[256], 84)), "Q2_K of tensor `output_norm.weight`"),
        (refuse(&[], tensor(99, &[256], 144)), "number 99 of tensor `output_norm.weight`"),
        (refuse(&[], tensor(8, &[33], 34)), "`output_norm.weight` has shape [33]"),
        (refuse(&[], tensor(12, &[32], 144)), "`output_norm.weight` has shape [32], which Q4_K elements cannot fill"),
        (refuse(&[], tensor(0, &[1 << 40, 1 << 40], 4)), "`output_norm.weight` has shape"),
        (refuse(&[], tensor(0, &[1_000_000], 4)), "ends beyond the file"),
        (refuse(&[], tensor(0, &[u64::MAX], 4)), "`output_norm.weight` has shape"),
        (refuse(&[], tensor(0, &[], 4)), "has 0 dimensions"),
        (refuse(&[("general.alignment", Meta::U32(33))], tensor(0, &[1], 4)), "not a power of two"),
        (refuse(&[("general.alignment", Meta::Bool(true))], tensor(0, &[1], 4)), "`general.alignment` is not a size"),
        (refuse(&[("a", Meta::U32(1)), ("a", Meta::U32(2))], tensor(0, &[1], 4)), "`a` is there twice"),
        (refuse(&[("general.architecture", Meta::Text("bert"))], tensor(0, &[1], 4)), "missing"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

/// What is said of the smallest model of an architecture with these keys changed or added; nothing where it can be computed.
fn said_of_model(tensors: &[TensorData], name: &str, changes: Vec<(&str, Meta<'static>)>) -> String {
    config_of(tensors, name, changes).err().unwrap_or_default()
}

fn config_of(tensors: &[TensorData], name: &str, changes: Vec<(&str, Meta<'static>)>) -> Result<ModelConfig, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
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
    std::fs::write(&path, gguf::write(&metadata, tensors)).expect("written");
    let (metadata, weights) = weights::gguf::open(&path).expect("a file");
    ModelConfig::from_gguf(&metadata, &weights).map_err(|error| error.to_string())
}

#[test]
fn biases_of_a_gguf_model_are_those_that_it_has_and_its_architecture_may_have() {
    use engine::model::AttentionBias::{All, None, QueryKeyValue};
    let bias = |name: &str| TensorData { name: name.into(), shape: vec![8], kind: 0, bytes: vec![0; 32] };
    let tensors = [bias("blk.0.attn_q.bias"), bias("blk.0.ffn_gate.bias")];
    let biases = |tensors: &[TensorData], name: &str| {
        let config = config_of(tensors, name, vec![]).unwrap_or_else(|error| panic!("{error}"));
        (config.attention_bias, config.mlp_bias)
    };
    assert_eq!((biases(&[], "llama"), biases(&tensors, "llama")), ((None, false), (All, true)));
    assert_eq!((biases(&[], "qwen2"), biases(&tensors, "qwen2")), ((QueryKeyValue, false), (QueryKeyValue, false)));
}

/// Four experts, of which a token goes to two, and other keys.
fn experts(changes: Vec<(&'static str, Meta<'static>)>) -> Vec<(&'static str, Meta<'static>)> {
    let mut all = vec![("expert_count", Meta::U32(4)), ("expert_used_count", Meta::U32(2))];
    all.extend(changes);
    all
}

/// Positions that are stretched, and other keys.
fn yarn(changes: Vec<(&'static str, Meta<'static>)>) -> Vec<(&'static str, Meta<'static>)> {
    let mut all = vec![("rope.scaling.type", Meta::Text("yarn"))];
    all.extend(changes);
    all
}

fn stretched() -> (&'static str, Meta<'static>) {
    ("rope.scaling.factor", Meta::F32(2.0))
}

#[test]
fn gguf_models_that_cannot_be_computed_are_refused_by_name() {
    let refuse = |name: &str, changes: Vec<(&str, Meta<'static>)>| said_of_model(&[], name, changes);
    let divisors = TensorData { name: "rope_freqs.weight".into(), shape: vec![2], kind: 0, bytes: vec![0; 8] };
    let divisors = std::slice::from_ref(&divisors);
    assert_eq!(said_of_model(divisors, "llama", vec![]), "");
    let linear = vec![("rope.scaling.type", Meta::Text("linear")), ("rope.scaling.factor", Meta::F32(2.0))];
    let error = said_of_model(divisors, "llama", linear);
    assert!(error.contains("linear together with tensor `rope_freqs.weight`"), "{error}");
    assert_eq!(refuse("llama", vec![]), "", "as it stands it is a model");
    assert_eq!(refuse("llama", experts(vec![])), "");
    assert_eq!(refuse("olmoe", experts(vec![("expert_gating_func", Meta::U32(1))])), "", "the one that is computed");
    let cases = [
        (refuse("gemma", vec![]), "GGUF architecture gemma (known: llama, olmoe, qwen2, qwen3, qwen3moe)"),
        (refuse("qwen2", experts(vec![])), "not supported: `qwen2.expert_count` in GGUF architecture qwen2"),
        (refuse("olmoe", vec![]), "`olmoe.expert_count` is missing or 0"),
        (refuse("qwen3moe", vec![("expert_count", Meta::U32(4))]), "`qwen3moe.expert_used_count` is missing"),
        (refuse("olmoe", experts(vec![("expert_gating_func", Meta::U32(2))])), "`olmoe.expert_gating_func` = 2"),
        (refuse("olmoe", experts(vec![("expert_shared_count", Meta::U32(1))])), "`olmoe.expert_shared_count`"),
        (refuse("olmoe", experts(vec![("attention.clamp_kqv", Meta::F32(0.0))])), "clip_qkv is 0"),
        (refuse("llama", vec![("attention.clamp_kqv", Meta::F32(8.0))]), "`llama.attention.clamp_kqv` = 8"),
        (refuse("qwen2", vec![("attention.sliding_window", Meta::U32(8))]), "`qwen2.attention.sliding_window` = 8"),
        (refuse("llama", vec![("rope.scaling.type", Meta::Text("longrope"))]), "longrope (known: none, linear, yarn)"),
        (refuse("llama", vec![("rope.scaling.type", Meta::Text("linear"))]), "`llama.rope.scaling.factor` is missing"),
        (refuse("llama", yarn(vec![])), "`llama.rope.scaling.factor` is missing"),
        (refuse("llama", yarn(vec![stretched()])), "`llama.rope.scaling.original_context_length` is missing"),
        (refuse("llama", vec![("attention.head_count", Meta::U32(3))]), "no multiple of head_count"),
        (refuse("qwen3", vec![("rope.scaling.yarn_log_mul", Meta::F32(0.1))]), "`qwen3.rope.scaling.yarn_log_mul`"),
        (refuse("qwen3", vec![("rope.dimension_count", Meta::U32(2))]), "2 where a head has 4 elements"),
        (refuse("qwen3", vec![("block_count", Meta::U32(1 << 30))]), "number of layers"),
        (refuse("llama", vec![("block_count", Meta::U32(0))]), "number of layers 0 is not within 1..="),
        (refuse("llama", vec![("embedding_length", Meta::U32(0))]), "hidden size 0 is not within 1..="),
        (refuse("llama", vec![("feed_forward_length", Meta::U32(0))]), "intermediate size 0 is not within 1..="),
        (refuse("llama", vec![("attention.head_count", Meta::U32(0))]), "number of attention heads 0 is not within"),
        (refuse("llama", vec![("attention.head_count_kv", Meta::U32(0))]), "number of key-value heads 0 is not within"),
        (refuse("llama", vec![("attention.key_length", Meta::U32(0))]), "head dimension 0 is not within 1..="),
        (refuse("llama", vec![("vocab_size", Meta::U32(0))]), "vocabulary size 0 is not within 1..="),
        (refuse("llama", vec![("context_length", Meta::U32(0))]), "context length 0 is not within 1..="),
        (refuse("llama", vec![("attention.sliding_window", Meta::U32(0))]), "a sliding window of 0 tokens"),
        (refuse("llama", vec![("rope.freq_base", Meta::F32(0.0))]), "rope: theta is 0"),
        (refuse("llama", vec![("rope.freq_base", Meta::F32(f32::INFINITY))]), "rope: theta is inf"),
        (refuse("olmoe", experts(vec![("attention.clamp_kqv", Meta::F32(f32::INFINITY))])), "clip_qkv is inf"),
        (refuse("llama", vec![("attention.layer_norm_rms_epsilon", Meta::F32(f32::NAN))]), "epsilon NaN"),
        (refuse("llama", vec![("attention.layer_norm_rms_epsilon", Meta::F32(f32::INFINITY))]), "epsilon inf"),
        (refuse("olmoe", vec![("expert_count", Meta::U32(0))]), "`olmoe.expert_count` is missing or 0"),
        (
            refuse("olmoe", vec![("expert_count", Meta::U32(4)), ("expert_used_count", Meta::U32(0))]),
            "number of experts per token 0 is not within 1..=4",
        ),
        (
            refuse("olmoe", experts(vec![("expert_feed_forward_length", Meta::U32(0))])),
            "intermediate size of an expert 0 is not within",
        ),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn a_key_of_a_gguf_model_of_the_wrong_type_is_named() {
    let wrong_types = [
        ("llama", vec![], "expert_count", "a size"),
        ("llama", vec![], "block_count", "a size"),
        ("llama", vec![], "vocab_size", "a size"),
        ("llama", vec![], "attention.head_count_kv", "a size"),
        ("llama", vec![], "attention.key_length", "a size"),
        ("llama", vec![], "attention.value_length", "a size"),
        ("llama", vec![], "rope.dimension_count", "a size"),
        ("llama", vec![], "attention.sliding_window", "a size"),
        ("llama", vec![], "attention.layer_norm_rms_epsilon", "a number"),
        ("llama", vec![], "rope.freq_base", "a number"),
        ("llama", vec![], "rope.scaling.type", "text"),
        ("llama", yarn(vec![]), "rope.scaling.factor", "a number"),
        ("llama", yarn(vec![stretched()]), "rope.scaling.yarn_beta_fast", "a number"),
        ("llama", yarn(vec![stretched()]), "rope.scaling.yarn_beta_slow", "a number"),
        ("llama", yarn(vec![stretched()]), "rope.scaling.original_context_length", "a size"),
        ("olmoe", experts(vec![]), "attention.clamp_kqv", "a number"),
        ("olmoe", experts(vec![]), "feed_forward_length", "a size"),
        ("olmoe", experts(vec![("expert_feed_forward_length", Meta::U32(8))]), "feed_forward_length", "a size"),
        ("olmoe", experts(vec![]), "expert_feed_forward_length", "a size"),
        ("olmoe", experts(vec![]), "expert_gating_func", "a size"),
        ("olmoe", experts(vec![]), "expert_weights_norm", "true or false"),
    ];
    for (name, mut changes, key, wanted) in wrong_types {
        let bytes = if wanted == "text" { Meta::U32(1) } else { Meta::Text("1") };
        changes.push((key, bytes));
        let said = said_of_model(&[], name, changes);
        assert!(said.contains(&format!("`{name}.{key}` is not {wanted}")), "{key}: {said}");
    }
}
