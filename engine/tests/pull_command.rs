//! `engine pull`, and `--model-path OWNER/NAME`, against a hub on this machine.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};
use support::hub::{Contents, HubServer};
use support::models;

const NAME: &str = "some/Model-1.5";
const PROMPT: &[&str] = &["--input-ids", "1,2,3", "--max-new-tokens", "4", "--ignore-eos", "--json"];

fn engine(arguments: &[&str], cache: &Path, endpoint: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.env_clear().args(arguments).arg("--cache-dir").arg(cache);
    if let Some(endpoint) = endpoint {
        command.env("HF_ENDPOINT", endpoint);
    }
    command.output().expect("the command runs")
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("text")
}

/// What the command says when it fails underway; nothing is left in the cache then.
fn refusal(output: &Output, cache: &Path) -> String {
    let said = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let left: Vec<_> = fs::read_dir(cache).into_iter().flatten().collect();
    assert!(left.is_empty(), "{said}{left:?}");
    said
}

fn sha256(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes).iter().flat_map(|byte| [byte >> 4, byte & 15]).collect::<Vec<_>>();
    digits.into_iter().filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// A hub with the small model `llama`, and files that nobody needs.
fn hub() -> HubServer {
    let mut contents = Contents { repository: NAME.into(), commit: "c0ffee".into(), ..Contents::default() };
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        let body = fs::read(models().join("llama").join(name)).expect("a file of the model");
        let sha256 = name.ends_with(".safetensors").then(|| sha256(&body));
        contents.files.insert(name.into(), (body, sha256));
    }
    contents.files.insert("README.md".into(), (b"words".to_vec(), None));
    contents.files.insert("onnx/model.safetensors".into(), (b"other".to_vec(), None));
    HubServer::start(contents)
}

#[test]
fn a_model_is_fetched_once_recorded_and_run() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let arguments = |model: &'static str| [&["generate", "--model-path", model], PROMPT].concat();
    let output = engine(&arguments(NAME), cache.path(), Some(&hub.endpoint));
    let result: Value = serde_json::from_str(stdout(&output)).expect("an object");
    let mut files: Vec<_> = hub.asked().into_iter().filter(|target| target.contains("/resolve/")).collect();
    files.sort();
    assert_eq!(files.len(), 4, "{files:?}");
    assert!(files.iter().all(|target| target.starts_with("/some/Model-1.5/resolve/c0ffee/")), "{files:?}");

    // What is there needs no hub, and is the model that was fetched.
    let again = engine(&arguments(NAME), cache.path(), None);
    let again: Value = serde_json::from_str(stdout(&again)).expect("an object");
    assert_eq!(again["token_ids"], result["token_ids"]);
    let folder = models().join("llama");
    let own = Command::new(env!("CARGO_BIN_EXE_engine"))
        .args(["generate", "--model-path"])
        .arg(&folder)
        .args(PROMPT)
        .output()
        .expect("runs");
    let own: Value = serde_json::from_str(stdout(&own)).expect("an object");
    assert_eq!(own["token_ids"], result["token_ids"]);

    // `pull` asks whether there is something newer.
    let pulled = engine(&["pull", NAME, "--json"], cache.path(), Some(&hub.endpoint));
    assert_eq!(hub.asked().len(), 1);
    let pulled: Value = serde_json::from_str(stdout(&pulled)).expect("an object");
    assert_eq!((&pulled["record"]["commit"], &pulled["record"]["revision"]), (&"c0ffee".into(), &"main".into()));
    let files = pulled["record"]["files"].as_array().expect("a list");
    let weights = files.iter().find(|file| file["name"] == "model.safetensors").expect("recorded");
    let path = Path::new(pulled["path"].as_str().expect("a path"));
    assert_eq!(weights["sha256"], sha256(&fs::read(path.join("model.safetensors")).expect("fetched")));
    hub.change(|contents| {
        contents.commit = "decade".into();
        contents.files.insert("generation_config.json".into(), (b"{}".to_vec(), None));
    });
    let newer = engine(&["pull", NAME], cache.path(), Some(&hub.endpoint));
    assert!(stdout(&newer).contains("some/Model-1.5 at commit decade"), "{}", stdout(&newer));
    assert!(path.join("generation_config.json").exists());
    let names: Vec<_> =
        fs::read_dir(cache.path()).expect("the cache").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["hub"], "work was left behind");
}

#[test]
fn a_failure_leaves_nothing_and_says_every_way_to_proceed() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let fails = |problem: &str, arguments: &[&str], endpoint: Option<&str>| {
        let said = refusal(&engine(arguments, cache.path(), endpoint), cache.path());
        for part in [problem, "--model-path FOLDER", "HF_ENDPOINT", "on another machine"] {
            assert!(said.contains(part), "`{part}` is missing in: {said}");
        }
    };
    let pull = ["pull", NAME];
    fails("no hub is set", &pull, None);
    fails("no hub is set", &[&["generate", "--model-path", NAME], PROMPT].concat(), None);
    // Nobody listens at a port that was given back.
    let gone = HubServer::start(Contents::default()).endpoint.clone();
    fails(&gone, &pull, Some(&gone));
    fails("status 404", &["pull", "some/other"], Some(&hub.endpoint));
    fails("there is no file of Q4_0: it has no GGUF file", &["pull", "some/Model-1.5:q4_0"], Some(&hub.endpoint));
    let weights = "model.safetensors";
    hub.change(|contents| contents.broken = Some(weights.into()));
    fails("model.safetensors", &pull, Some(&hub.endpoint));
    hub.change(|contents| {
        contents.broken = None;
        contents.files.get_mut(weights).expect("there").1 = Some(sha256(b"another"));
    });
    fails("and the hub says", &pull, Some(&hub.endpoint));
    hub.change(|contents| contents.files = [("model.bin".to_owned(), (Vec::new(), None))].into());
    fails("neither safetensors nor a GGUF file", &pull, Some(&hub.endpoint));
}

#[test]
fn a_token_opens_what_is_not_open_and_is_never_shown() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    hub.change(|contents| contents.token = Some("hunter2".into()));
    let said = refusal(&engine(&["pull", NAME], cache.path(), Some(&hub.endpoint)), cache.path());
    assert!(said.contains("it may need --hub-token"), "{said}");
    let with = |token: &str| engine(&["pull", NAME, "--hub-token", token], cache.path(), Some(&hub.endpoint));
    let said = refusal(&with("wrong-word"), cache.path());
    assert!(said.contains("the token given does not open it") && !said.contains("wrong-word"), "{said}");
    stdout(&with("hunter2"));
}

#[test]
fn a_quantisation_chooses_one_gguf_file() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    hub.change(|contents| {
        let bodies = ["model-Q4_0.gguf", "model-Q4_K_M.gguf", "model.Q8_0.gguf"];
        contents.files = bodies.map(|name| (name.to_owned(), (name.as_bytes().to_vec(), None))).into();
    });
    let said = refusal(&engine(&["pull", NAME], cache.path(), Some(&hub.endpoint)), cache.path());
    for part in ["say which file is meant", "model-Q4_0.gguf", "model.Q8_0.gguf"] {
        assert!(said.contains(part), "{said}");
    }
    for (word, file) in [("q8_0", "model.Q8_0.gguf"), ("Q4_K_M", "model-Q4_K_M.gguf")] {
        let output = engine(&["pull", &format!("{NAME}:{word}")], cache.path(), Some(&hub.endpoint));
        let path = stdout(&output).lines().last().expect("a line");
        assert_eq!(fs::read(path).expect("fetched"), file.as_bytes());
    }
}

#[test]
fn a_name_that_is_none_is_told() {
    let cache = tempfile::tempdir().expect("a folder");
    let said = refusal(&engine(&["inspect", "smolm"], cache.path(), None), cache.path());
    assert!(said.contains("no such short name") && said.contains("smollm2-135m"), "{said}");
    assert_eq!(engine(&["pull", "./somewhere"], cache.path(), None).status.code(), Some(2));
}

#[test]
fn the_revision_is_part_of_the_question_and_of_the_place() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let output = engine(&["pull", NAME, "--revision", "refs/pr/1"], cache.path(), Some(&hub.endpoint));
    assert!(stdout(&output).lines().last().expect("a line").contains("refs%2Fpr%2F1"), "{}", stdout(&output));
    assert!(hub.asked()[0].contains("/revision/refs%2Fpr%2F1?"));
}
