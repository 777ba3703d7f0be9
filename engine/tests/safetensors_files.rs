//! Folders of safetensors files: shards, and files that are damaged, cut off or lie about themselves.

mod support;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use engine::generate::{Request, generate};
use engine::model::Decoder;
use serde_json::{Value, json};
use support::weight_files::{logits, not_finite, refusal};
use support::{ids, models, open, runner, safetensors, workers};
use tempfile::TempDir;

fn folder_of(model: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(models().join(model)).expect("the model") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).expect("copied");
    }
    folder
}

#[test]
fn a_sharded_folder_gives_the_bits_of_the_single_file() {
    let source = models().join("llama_tied");
    let folder = folder_of("llama_tied");
    let single = folder.path().join("model.safetensors");
    let (header, data) = safetensors::read(&single);
    std::fs::remove_file(&single).expect("removed");
    let mut parts = [(json!({}), Vec::new()), (json!({}), Vec::new())];
    let mut map = json!({});
    for (index, (name, entry)) in safetensors::tensors(&header).enumerate() {
        let (part, bytes) = &mut parts[index % 2];
        let start = bytes.len();
        bytes.extend(safetensors::bytes(entry, &data));
        part[name] = entry.clone();
        part[name]["data_offsets"] = json!([start, bytes.len()]);
        map[name] = json!(format!("part-{}.safetensors", index % 2));
    }
    for (index, (header, data)) in parts.iter().enumerate() {
        safetensors::write(&folder.path().join(format!("part-{index}.safetensors")), header, data);
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
    safetensors::write(&single, &header, &data);
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
        let (mut header, data) = safetensors::read(&path);
        change(&mut header);
        safetensors::write(&path, &header, &data);
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
    let (mut header, data) = safetensors::read(&path);
    let entry = header["model.norm.weight"].take();
    header.as_object_mut().expect("an object").remove("model.norm.weight");
    header["model.norm.bias"] = entry;
    safetensors::write(&path, &header, &data);
    let error = refusal(folder.path()).expect("refused");
    assert!(error.contains("`model.norm.weight` is missing"), "{error}");
    assert!(error.contains("`model.norm.bias` has no place in the model"), "{error}");
}

#[test]
fn of_many_tensors_that_do_not_fit_twelve_are_named_and_the_others_counted() {
    for (missing, more) in [(11, None), (12, None), (13, Some("and 1 more"))] {
        let folder = folder_of("llama_tied");
        let path = folder.path().join("model.safetensors");
        let (mut header, data) = safetensors::read(&path);
        let all = header.as_object_mut().expect("an object");
        let names: Vec<_> = all.keys().filter(|name| *name != "__metadata__").take(missing).cloned().collect();
        for name in &names {
            all.remove(name);
        }
        safetensors::write(&path, &header, &data);
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
        safetensors::write_text(&path, header, &[]);
        let error = refusal(folder.path()).expect("refused");
        assert!(error.contains(part), "{header}: `{part}` is missing in: {error}");
    }
}

#[test]
fn frequencies_that_older_folders_store_are_passed_over() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let (mut header, mut data) = safetensors::read(&path);
    let (start, end) = (data.len(), data.len() + 4);
    data.extend([0; 4]);
    header["model.layers.0.self_attn.rotary_emb.inv_freq"] =
        json!({"dtype": "F32", "shape": [1], "data_offsets": [start, end]});
    safetensors::write(&path, &header, &data);
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
    let (header, data) = safetensors::read(&path);
    let entry = header["model.norm.weight"].to_string();
    let text = header.to_string();
    let twice = format!("{},\"model.norm.weight\":{entry}}}", text.strip_suffix('}').expect("an object"));
    safetensors::write_text(&path, &twice, &data);
    let error = refusal(folder.path()).expect("refused");
    assert!(error.contains("header at offset 8 has `model.norm.weight` twice"), "{error}");

    std::fs::remove_file(&path).expect("removed");
    let part = json!({"model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}});
    safetensors::write(&folder.path().join("part-0.safetensors"), &header, &data);
    safetensors::write(&folder.path().join("part-1.safetensors"), &part, &data[..128]);
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
    let (header, mut data) = safetensors::read(&path);
    let name = "model.layers.1.mlp.up_proj.weight";
    let start = header[name]["data_offsets"][0].as_u64().expect("an offset") as usize;
    // Element 70, a bfloat16 number.
    data[start + 140..start + 142].copy_from_slice(&[0xc0, 0x7f]);
    safetensors::write(&path, &header, &data);
    let offset = 8 + header.to_string().len() + start + 140;
    assert!(refusal(folder.path()).is_none(), "nobody asked");
    // Then a request says what came of it, and gives its pages back.
    let mut damaged = runner(&open(folder.path()), 16, 512);
    let request = Request { prompt_token_ids: vec![1], max_new_tokens: 2, ..Request::default() };
    let answer = generate(&mut damaged, None, &request, &AtomicBool::new(false), |_| ControlFlow::Continue(()));
    let error = answer.expect_err("no number").to_string();
    assert!(error.contains("the model gave token 0 the logit NaN"), "{error}");
    assert_eq!(damaged.available_pages() * 16, damaged.capacity());
    let error = not_finite(folder.path()).expect("refused");
    assert!(error.contains(&format!("`{name}` has NaN as element 70, at offset {offset}")), "{error}");
    assert_eq!(not_finite(&models().join("llama_tied")), None);
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
    let (_, data) = safetensors::read(&models().join("llama_tied/model.safetensors"));
    assert_eq!(seen.last(), Some(&(data.len(), data.len())));
}

#[test]
fn a_tensor_without_elements_is_refused_with_its_place() {
    let folder = folder_of("llama_tied");
    let path = folder.path().join("model.safetensors");
    let (header, data) = safetensors::read(&path);
    for (shape, dimension) in [(json!([0, 64]), 0), (json!([64, 0]), 1), (json!([0]), 0), (json!([4, 0, 0]), 1)] {
        let mut changed = header.clone();
        changed["model.norm.weight"]["shape"] = shape.clone();
        changed["model.norm.weight"]["data_offsets"] = json!([256, 256]);
        safetensors::write(&path, &changed, &data);
        let error = refusal(folder.path()).unwrap_or_else(|| panic!("{shape} was accepted"));
        let offset = 8 + changed.to_string().len() + 256;
        let part = format!("tensor `model.norm.weight` at offset {offset} has no elements: dimension {dimension} of");
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
