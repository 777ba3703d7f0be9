//! `engine bench` from outside: each run is a process of its own in which nothing else is alive.

mod support;

use std::fs;
use std::process::Output;

use serde_json::{Value, json};
use support::command::{engine, stdout};
use support::{ON_CPU, folder_with, json, models};

/// `engine bench one-batch` with a small model, in an empty environment.
fn one_batch(model: &str, arguments: &[&str]) -> Output {
    let mut command = engine(&["bench", "one-batch", "--threads", "2", "--model-path"]);
    command.env_clear().envs([ON_CPU]).arg(models().join(model)).args(arguments).output().expect("the command runs")
}

/// What the command says when it fails underway.
fn refusal(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn each_combination_is_one_line_of_json() {
    let arguments = ["--input-len", "3,5", "--output-len", "1", "4", "--repeats", "2", "--seed", "7", "--json"];
    let output = one_batch("llama", &arguments);
    let lines: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let shapes: Vec<_> = lines.iter().map(|line| (line["input_len"].as_u64(), line["output_len"].as_u64())).collect();
    assert_eq!(shapes, [(3, 1), (3, 4), (5, 1), (5, 4)].map(|(input, output)| (Some(input), Some(output))));
    for line in &lines {
        assert_eq!((&line["batch_size"], &line["repeats"], &line["seed"]), (&json!(1), &json!(2), &json!(7)));
        for key in ["latency_seconds", "prefill_seconds", "prefill_tokens_per_second"] {
            assert!(line[key].as_f64().is_some_and(|number| number > 0.0), "{key}: {line}");
        }
        // One token is the prefill's: there is nothing to decode.
        let decodes = line["output_len"] == 4;
        for key in ["decode_step_seconds", "decode_tokens_per_second"] {
            assert_eq!(line[key].as_f64().is_some_and(|number| number > 0.0), decodes, "{key}: {line}");
        }
    }
    let table = one_batch("qwen3", &["--input-len", "4", "--output-len", "1,2", "--repeats", "1"]);
    let [head, one, two] = stdout(&table).lines().collect::<Vec<_>>()[..] else { panic!("{}", stdout(&table)) };
    assert!(head.contains("decode tok/s"), "{head}");
    // Batch, input, output; then latency, the rates and the time of a step, which one token has not.
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        (&columns(one)[..3], &columns(one)[5..]),
        (&["1", "4", "1"].map(str::to_owned)[..], &["-", "-"].map(str::to_owned)[..])
    );
    assert!(columns(two)[3..].iter().all(|number| number.parse::<f64>().is_ok_and(|number| number > 0.0)), "{two}");
}

#[test]
fn a_shape_may_fill_the_context_and_the_room() {
    let room = ["--context-length=8", "--page-size=4", "--max-total-tokens=8", "--repeats=1", "--json"];
    // The last token is chosen and never run.
    for (input, output) in [("--input-len=8", "--output-len=1"), ("--input-len=5", "--output-len=4")] {
        assert_eq!(stdout(&one_batch("llama", &[&[input, output], &room[..]].concat())).lines().count(), 1);
    }
    // The correctness test takes as long a prompt as there is room for beside its continuation, and one token at least.
    for arguments in [
        ["--context-length=9", "--input-len=128"],
        ["--max-total-tokens=64", "--input-len=128"],
        ["--input-len=0", "--seed=3"],
    ] {
        let output = one_batch("llama", &[&["--correctness-test"], &arguments[..]].concat());
        let said = stdout(&output);
        assert!(said.starts_with("all ways of computing agree (seed "), "{said}");
    }
}

#[test]
fn a_model_that_gives_no_numbers_is_told() {
    let folder = folder_with("llama", &["config.json", "tokenizer.json", "model.safetensors"]);
    let weights = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&weights).expect("readable");
    let end = bytes.len();
    bytes[end - 2..].copy_from_slice(&[0xc0, 0x7f]);
    fs::write(&weights, bytes).expect("written");
    let path = folder.path().to_str().expect("text");
    for more in [&["--input-len=3", "--output-len=2"][..], &["--input-len=3", "--correctness-test"]] {
        let said = refusal(&one_batch(path, more));
        assert!(said.contains("the model gives logits that are no numbers"), "{said}");
    }
}

#[test]
fn weights_may_be_made_up() {
    let arguments = ["--load-format=dummy", "--input-len=4", "--output-len=2", "--repeats=1", "--json"];
    assert_eq!(stdout(&one_batch("llama", &arguments)).lines().count(), 1);
}

#[test]
fn a_shape_that_cannot_run_is_refused_before_any_is_run() {
    let most = usize::MAX.to_string();
    let cases: [(&[&str], &str); 8] = [
        (&["--batch-size", "0"], "must be at least 1"),
        (&["--input-len", "0"], "must be at least 1"),
        (&["--input-len", &most, "--output-len", &most], "tokens are more than the context length of 2048"),
        (&["--batch-size", "1,4"], "a step takes one sequence in this version, so the batch size must be 1"),
        (&["--input-len", "8,2048"], "2063 tokens are more than the context length of 2048"),
        (&["--max-total-tokens", "64"], "143 tokens are more than the 64 that there is room for"),
        (&["--output-len", "0"], "must be at least 1"),
        (&["--memory-limit", "1"], "memory"),
    ];
    for (arguments, part) in cases {
        let output = one_batch("llama", &[arguments, &["--json"]].concat());
        let said = refusal(&output);
        assert!(said.contains(part), "`{part}` is missing in: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let said = refusal(&one_batch("llama", &["--correctness-test", "--context-length", "8"]));
    assert!(said.contains("a room of 8 tokens is too little"), "{said}");
}

#[test]
fn what_the_correctness_test_would_not_look_at_is_refused() {
    let refused = |arguments: &[&str], part: &str| {
        let output = one_batch("llama", &[&["--correctness-test"], arguments].concat());
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.code() == Some(2) && said.contains(part), "`{part}` is missing in: {said}");
    };
    for flag in ["--batch-size=1", "--output-len=9", "--repeats=3", "--json"] {
        let name = flag.split('=').next().expect("a name");
        refused(&[flag], &format!("'{name}"));
    }
    // With these it would find that everything agrees, or nothing.
    for tolerance in ["--tolerance=nan", "--tolerance=inf", "--tolerance=-0.5", "--tolerance=-inf"] {
        refused(&[tolerance], "'--tolerance <X>': expected a number, 0 or more");
    }
    refused(&["--tolerance", "-1"], "'--tolerance <X>': expected a number, 0 or more");
}

#[test]
fn the_correctness_test_passes_for_every_small_model_and_its_reference() {
    let names = fs::read_dir(models()).expect("models").map(|entry| entry.expect("an entry").path());
    let folders: Vec<_> = names.filter(|path| path.join("reference.json").exists()).collect();
    assert!(folders.len() >= 3, "{folders:?}");
    for folder in folders {
        let reference = folder.join("reference.json");
        let arguments = ["--correctness-test", "--input-len", "33", "--reference", reference.to_str().expect("text")];
        let output = one_batch(folder.to_str().expect("text"), &arguments);
        assert!(stdout(&output).contains("and so does the reference"), "{}", stdout(&output));
    }
}

#[test]
fn a_reference_that_disagrees_fails_the_correctness_test() {
    let mut reference = json(&models().join("llama/reference.json"));
    let wanted = reference["greedy_ids"][5].as_u64().expect("an id");
    reference["greedy_ids"][5] = json!(wanted ^ 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reference.json");
    fs::write(&path, reference.to_string()).expect("written");
    let arguments = ["--correctness-test", "--input-len", "9", "--reference", path.to_str().expect("text")];
    let said = refusal(&one_batch("llama", &arguments));
    for part in [
        "the correctness test failed",
        "case 1 of the reference after token 83",
        &format!("token {wanted} is the likeliest, not token {}", wanted ^ 1),
    ] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    // Where the reference itself was undecided, either token is right.
    reference["margins"][5] = json!(0.01);
    reference["greedy_ids"] = json!(reference["greedy_ids"].as_array().expect("a list")[..6]);
    fs::write(&path, reference.to_string()).expect("written");
    stdout(&one_batch("llama", &arguments));
    let useless = [
        ("{}", "no reference: it takes prompt_ids and greedy_ids"),
        (
            r#"{"cases": [{"prompt_ids": [1], "greedy_ids": [2], "margins": [0]}, {"prompt_ids": [1], "greedy_ids": []}]}"#,
            "case 2 of the reference has no greedy_ids",
        ),
        (r#"{"prompt_ids": [], "greedy_ids": [2, 3]}"#, "case 1 of the reference has no prompt_ids"),
        (r#"{"prompt_ids": [99999], "greedy_ids": [2]}"#, "token id 99999 is beyond the model's vocabulary of 512"),
    ];
    for (text, part) in useless {
        fs::write(&path, text).expect("written");
        let said = refusal(&one_batch("llama", &arguments));
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    fs::remove_file(&path).expect("removed");
    assert!(refusal(&one_batch("llama", &arguments)).contains("reference.json"));
}
