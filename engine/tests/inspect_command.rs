//! `engine inspect` and `engine completion` from outside.

mod support;

use std::process::{Command, Output};

use serde_json::{Value, json};
use support::{folder_with, models};

fn engine(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_engine")).args(arguments).output().expect("the command runs")
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("text")
}

fn path(model: &str) -> String {
    models().join(model).to_str().expect("text").to_owned()
}

#[test]
fn a_model_is_described_without_loading_it() {
    let output = engine(&["inspect", &path("llama"), "--json"]);
    let report: Value = serde_json::from_str(stdout(&output)).expect("one object");
    // Of tests/models/llama/config.json and reference.json.
    let wanted = json!({
        "architecture": "llama",
        "parameters": 176_576,
        "context_length": 2048,
        "vocab_size": 512,
        "has_tokenizer": true,
        "has_chat_template": true,
    });
    for (key, value) in wanted.as_object().expect("an object") {
        assert_eq!(&report[key], value, "{key}");
    }
    let tensors = report["tensors"].as_array().expect("a list");
    let total: u64 = tensors.iter().map(|kind| kind["elements"].as_u64().expect("a number")).sum();
    assert_eq!(total, 176_576);
    let queries = tensors.iter().find(|kind| kind["name"] == "model.layers.*.self_attn.q_proj.weight").expect("there");
    assert_eq!(queries["tensors"], report["layers"]);
    assert!(report["memory"]["weight_bytes"].as_u64() <= report["memory"]["model_bytes"].as_u64());

    let text = engine(&["inspect", "--model-path", &path("llama")]);
    for part in [
        "parameters           176576",
        "chat template        yes",
        "tied embeddings      no",
        "stop tokens          511\n",
        "model.layers.*.self_attn.q_proj.weight",
    ] {
        assert!(stdout(&text).contains(part), "`{part}` is missing in: {}", stdout(&text));
    }
}

#[test]
fn a_model_named_twice_or_not_there_is_an_error() {
    let twice = engine(&["inspect", &path("llama"), "--model-path", &path("qwen3")]);
    assert_eq!(twice.status.code(), Some(2));
    let gone = engine(&["inspect", "/no/such/model"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("/no/such/model"));
}

#[test]
fn a_model_without_all_of_its_tensors_is_an_error() {
    let folder = folder_with("llama", &["tokenizer.json", "model.safetensors"]);
    let mut config = support::json(&models().join("llama/config.json"));
    let layers = config["num_hidden_layers"].as_u64().expect("a number");
    config["num_hidden_layers"] = (layers + 1).into();
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    let short = engine(&["inspect", folder.path().to_str().expect("text")]);
    assert_eq!(short.status.code(), Some(1));
    let said = String::from_utf8_lossy(&short.stderr);
    assert!(said.contains(&format!("model.layers.{layers}.")) && said.contains("is missing"), "{said}");
    // A model that names no token at which it stops has none.
    config["num_hidden_layers"] = layers.into();
    config["eos_token_id"] = Value::Null;
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    let output = engine(&["inspect", folder.path().to_str().expect("text")]);
    assert!(stdout(&output).contains("stop tokens          none\n"), "{}", stdout(&output));
}

#[test]
fn every_shell_completes_commands_flags_and_choices() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = engine(&["completion", shell]);
        for part in ["one-batch", "page-size", "safetensors"] {
            assert!(stdout(&output).contains(part), "{shell} does not know {part}");
        }
    }
    assert_eq!(engine(&["completion", "cmd"]).status.code(), Some(2));
}

#[test]
fn experts_and_windows_are_described_where_a_model_has_them() {
    let text = |model: &str| stdout(&engine(&["inspect", &path(model)])).to_owned();
    let experts = text("qwen3_moe");
    assert!(experts.contains("8 of size 48, 2 for each token, in 3 layers"), "{experts}");
    assert!(experts.contains("qwen3_moe"), "{experts}");
    let experts = text("options/experts_every_second_layer");
    assert!(experts.contains(" for each token, in 1 layer"), "{experts}");
    let window = text("mistral");
    assert!(window.contains("16 tokens in 3 layers") && !window.contains("experts"), "{window}");
    assert!(!text("llama").contains("sliding window"));
}
