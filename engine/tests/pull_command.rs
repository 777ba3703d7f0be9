//! `engine pull`, and `--model-path OWNER/NAME`, against a hub on this machine.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use support::hub::{Asked, Contents, HubServer, ProxyServer, Trouble};
#[cfg(target_os = "linux")]
use support::terminal::Terminal;
use support::{ON_CPU, models};

const NAME: &str = "some/Model-1.5";
const PROMPT: &[&str] = &["--input-ids", "1,2,3", "--max-new-tokens", "4", "--ignore-eos", "--json"];

fn engine(arguments: &[&str], cache: &Path, endpoint: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.env_clear().envs([ON_CPU]).args(arguments).arg("--cache-dir").arg(cache);
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
        .envs([ON_CPU])
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
    let said = refusal(&engine(&pull, cache.path(), Some(&gone)), cache.path());
    assert!(!said.contains("--hub-ca-file"), "certificates are not the problem: {said}");
    fails("status 404", &["pull", "some/other"], Some(&hub.endpoint));
    fails("there is no file of Q4_0: it has no GGUF file", &["pull", "some/Model-1.5:q4_0"], Some(&hub.endpoint));
    let weights = "model.safetensors";
    hub.change(|contents| {
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
    let wrong = engine(&["pull", NAME, "--hub-retries", "many"], cache.path(), None);
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
    let both = engine(&["pull", NAME, "--model-path", "some/Other"], cache.path(), None);
    let said = String::from_utf8(both.stderr).expect("text");
    assert_eq!(both.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn a_name_given_twice_is_refused() {
    let cache = tempfile::tempdir().expect("a folder");
    let output = engine(&["pull", NAME, "--model-path", "other/Model"], cache.path(), None);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot be used with '--model-path"), "{said}");
}

#[test]
fn the_revision_is_part_of_the_question_and_of_the_place() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let output = engine(&["pull", NAME, "--revision", "refs/pr/1"], cache.path(), Some(&hub.endpoint));
    assert!(stdout(&output).lines().last().expect("a line").contains("refs%2Fpr%2F1"), "{}", stdout(&output));
    assert!(hub.asked()[0].contains("/revision/refs%2Fpr%2F1?"));
}

const WEIGHTS: &str = "model.safetensors";

fn trouble(hub: &HubServer, trouble: Trouble) {
    hub.change(|contents| contents.trouble = [(WEIGHTS.to_owned(), trouble)].into());
}

/// What is said when a pull ends underway that is not tried again.
fn ends(hub: &HubServer, cache: &Path, flags: &[&str]) -> String {
    let output = engine(&[&["pull", NAME, "--hub-retries", "0"], flags].concat(), cache, Some(&hub.endpoint));
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!cache.join("hub").exists(), "a part is under a final name");
    said
}

/// Fetches what is left; the questions for the weights.
fn goes_on(hub: &HubServer, cache: &Path) -> Vec<Asked> {
    hub.change(|contents| contents.trouble.clear());
    hub.questions();
    let output = engine(&["pull", NAME, "--json"], cache, Some(&hub.endpoint));
    let pulled: Value = serde_json::from_str(stdout(&output)).expect("an object");
    let path = Path::new(pulled["path"].as_str().expect("a path"));
    for name in ["config.json", "tokenizer.json", WEIGHTS] {
        let whole = fs::read(models().join("llama").join(name)).expect("a file of the model");
        assert!(fs::read(path.join(name)).expect("fetched") == whole, "{name} is another file");
        let record = pulled["record"]["files"].as_array().expect("a list").iter().find(|file| file["name"] == name);
        assert_eq!(record.expect("recorded")["sha256"], sha256(&whole), "{name}");
    }
    assert!(!cache.join("partial").exists(), "work was left behind");
    hub.questions().into_iter().filter(|asked| asked.target.ends_with(WEIGHTS)).collect()
}

#[test]
fn a_pull_that_was_cut_short_goes_on_from_there() {
    let size = fs::metadata(models().join("llama").join(WEIGHTS)).expect("a file").len();
    // Whether the content has a name at first, and later.
    for (has_tags, keeps_tags) in [(false, false), (true, true), (false, true), (true, false)] {
        let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
        hub.change(|contents| contents.has_tags = has_tags);
        trouble(&hub, Trouble::BreakOff(5000));
        let said = ends(&hub, cache.path(), &[]);
        let url = format!("{}/some/Model-1.5/resolve/c0ffee/model.safetensors", hub.endpoint);
        for part in [&url, &format!("breaks off after 5000 of {size} bytes"), "the same command goes on from there"] {
            assert!(said.contains(part), "`{part}` is missing in: {said}");
        }
        // Cut short once more: what came before stays.
        trouble(&hub, Trouble::BreakOff(700));
        let said = ends(&hub, cache.path(), &[]);
        assert!(said.contains(&format!("breaks off after 5700 of {size} bytes")), "{said}");
        hub.change(|contents| {
            contents.trouble.clear();
            contents.has_tags = keeps_tags;
        });
        hub.questions();
        let asked = goes_on(&hub, cache.path());
        assert_eq!(asked.len(), 1, "{has_tags} {keeps_tags}: {asked:?}");
        assert_eq!(asked[0].header("range"), Some("bytes=5700-"));
        assert_eq!(asked[0].header("if-range").is_some(), has_tags);
    }
    // A weak name says nothing about bytes.
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    hub.change(|contents| (contents.has_tags, contents.has_weak_tags) = (true, true));
    trouble(&hub, Trouble::BreakOff(5000));
    ends(&hub, cache.path(), &[]);
    assert_eq!(goes_on(&hub, cache.path())[0].header("if-range"), None);
}

#[test]
fn a_pull_that_is_cut_short_is_tried_again_and_says_so() {
    let size = fs::metadata(models().join("llama").join(WEIGHTS)).expect("a file").len();
    let pulls = |retries: &str, answers, trouble| {
        let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
        hub.change(|contents| {
            contents.trouble = [(WEIGHTS.to_owned(), trouble)].into();
            contents.troubled_answers = answers;
        });
        let output = engine(&["pull", NAME, "--hub-retries", retries], cache.path(), Some(&hub.endpoint));
        let questions = hub.questions().into_iter().filter(|asked| asked.target.ends_with(WEIGHTS));
        let ranges: Vec<_> = questions.map(|asked| asked.header("range").map(str::to_owned)).collect();
        (output.status.code(), String::from_utf8(output.stderr).expect("text"), ranges)
    };
    let rest = |bytes: u64| Some(format!("bytes={bytes}-"));

    let (code, said, ranges) = pulls("5", Some(1), Trouble::BreakOff(5000));
    assert_eq!((code, ranges), (Some(0), vec![None, rest(5000)]), "{said}");
    assert!(said.contains(&format!("breaks off after 5000 of {size} bytes")), "{said}");
    assert!(said.trim_end().ends_with("; trying again in 0.5 s (1 of 5)"), "{said}");
    // It gets further each time, so one try in a row is enough; the whole is several of these parts.
    let part = usize::try_from(size / 4 + 1).expect("a small file");
    let (code, said, ranges) = pulls("1", None, Trouble::BreakOff(part));
    assert_eq!((code, ranges.len()), (Some(0), 4), "{said}");
    assert_eq!(said.matches("trying again in 0.5 s (1 of 1)").count(), 3, "{said}");
    // It gets no further, and is given up; what came is kept.
    let (code, said, ranges) = pulls("2", None, Trouble::Status("503 Service Unavailable", ""));
    assert_eq!((code, ranges.len()), (Some(1), 3), "{said}");
    for part in
        ["trying again in 0.5 s (1 of 2)\n", "trying again in 1 s (2 of 2)\n", "status 503; what has come is kept"]
    {
        assert_eq!(said.matches(part).count(), 1, "`{part}` in: {said}");
    }
    // A hub that asks for time gets it, and not if it is too long.
    let (code, said, _) = pulls("2", Some(1), Trouble::Status("429 Too Many Requests", "retry-after: 1\r\n"));
    assert!(code == Some(0) && said.contains("asks to wait 1 s; trying again in 1 s (1 of 2)"), "{said}");
    let (code, said, ranges) = pulls("2", None, Trouble::Status("429 Too Many Requests", "retry-after: 61\r\n"));
    assert!(code == Some(1) && ranges.len() == 1 && !said.contains("trying again"), "{said}");
    // What is wrong and not broken off is not tried again.
    let (code, said, ranges) = pulls("2", None, Trouble::Status("404 Not Found", ""));
    assert!(code == Some(1) && ranges.len() == 1 && !said.contains("trying again"), "{said}");
}

#[test]
fn a_hub_that_is_gone_after_its_list_is_asked_again_and_one_that_never_was_is_not() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    hub.change(|contents| {
        contents.trouble = [(WEIGHTS.to_owned(), Trouble::Elsewhere("http://127.0.0.1:9/x".into()))].into();
    });
    let pull = |endpoint: &str| {
        let output = engine(&["pull", NAME, "--hub-retries", "1"], cache.path(), Some(endpoint));
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).expect("text")
    };
    let said = pull(&hub.endpoint);
    assert_eq!(said.matches("trying again in 0.5 s (1 of 1)").count(), 1, "{said}");
    let gone = HubServer::start(Contents::default()).endpoint.clone();
    let said = pull(&gone);
    assert!(!said.contains("trying again"), "{said}");
    // The default model's file is asked for without a list.
    let empty = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_engine"))
        .env_clear()
        .envs([("HF_ENDPOINT", gone.as_str()), ("PATH", "/no/such/folder")])
        .args(["pull", "default", "--cache-dir"])
        .arg(empty.path())
        .output()
        .expect("runs");
    let said = refusal(&output, empty.path());
    assert!(said.contains("and from the hub: ") && !said.contains("trying again"), "{said}");
}

#[test]
fn files_that_are_whole_are_not_fetched_again() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    trouble(&hub, Trouble::BreakOff(5000));
    ends(&hub, cache.path(), &[]);
    let before = hub.asked();
    assert!(before.iter().any(|target| target.ends_with("/config.json")), "{before:?}");
    trouble(&hub, Trouble::BreakOff(5000));
    ends(&hub, cache.path(), &[]);
    assert!(!hub.asked().iter().any(|target| target.ends_with("/config.json")));
    // Everything has come, and the connection broke off all the same.
    let mut whole = fs::read(models().join("llama").join(WEIGHTS)).expect("a file");
    let part = fs::read_dir(cache.path().join("partial")).expect("a folder").next().expect("one").expect("an entry");
    fs::write(part.path().join("parts").join(WEIGHTS), &whole).expect("written");
    assert!(goes_on(&hub, cache.path()).is_empty());
    // More than everything is of nothing.
    let cache = tempfile::tempdir().expect("a folder");
    trouble(&hub, Trouble::BreakOff(5000));
    ends(&hub, cache.path(), &[]);
    let part = fs::read_dir(cache.path().join("partial")).expect("a folder").next().expect("one").expect("an entry");
    whole.push(0);
    fs::write(part.path().join("parts").join(WEIGHTS), &whole).expect("written");
    assert_eq!(goes_on(&hub, cache.path())[0].header("range"), None);
}

#[test]
fn a_hub_that_has_no_parts_or_other_ones_is_asked_for_the_whole() {
    for (trouble_then, asked) in
        [(Trouble::Whole, 1), (Trouble::OtherPart, 2), (Trouble::OtherContent, 2), (Trouble::NoPart, 2)]
    {
        let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
        hub.change(|contents| contents.has_tags = true);
        trouble(&hub, Trouble::BreakOff(5000));
        ends(&hub, cache.path(), &[]);
        hub.questions();
        trouble(&hub, trouble_then.clone());
        let output = engine(&["pull", NAME, "--hub-retries", "0"], cache.path(), Some(&hub.endpoint));
        let targets = hub.asked();
        let count = targets.iter().filter(|target| target.ends_with(WEIGHTS)).count();
        assert_eq!(count, asked, "{targets:?}");
        if matches!(trouble_then, Trouble::NoPart) {
            // It has no whole, either.
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("status 416"), "{said}");
            continue;
        }
        let path = stdout(&output).lines().last().expect("a line");
        let whole = fs::read(models().join("llama").join(WEIGHTS)).expect("a file");
        assert!(fs::read(Path::new(path).join(WEIGHTS)).expect("fetched") == whole);
    }
}

#[test]
fn what_changed_meanwhile_is_fetched_anew() {
    // The model has another commit now, or the same commit's file another content.
    for commit in ["decade", "c0ffee"] {
        let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
        let without_hash = |contents: &mut Contents| contents.files.get_mut(WEIGHTS).expect("there").1 = None;
        hub.change(|contents| {
            contents.has_tags = true;
            without_hash(contents);
        });
        trouble(&hub, Trouble::BreakOff(5000));
        ends(&hub, cache.path(), &[]);
        hub.questions();
        let other = vec![7; 9000];
        hub.change(|contents| {
            contents.commit = commit.into();
            contents.trouble.clear();
            contents.files.insert(WEIGHTS.into(), (other.clone(), None));
        });
        let output = engine(&["pull", NAME], cache.path(), Some(&hub.endpoint));
        let path = Path::new(stdout(&output).lines().last().expect("a line"));
        assert!(fs::read(path.join(WEIGHTS)).expect("fetched") == other, "two contents were mixed");
        let asked: Vec<_> = hub.questions().into_iter().filter(|asked| asked.target.ends_with(WEIGHTS)).collect();
        assert_eq!(asked[0].header("if-range").is_some(), commit == "c0ffee", "{asked:?}");
        assert_eq!(asked.len(), 1, "what comes whole is asked for once");
    }
}

#[test]
fn a_hub_that_sends_nothing_more_is_given_up_and_what_came_is_kept() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let size = fs::metadata(models().join("llama").join(WEIGHTS)).expect("a file").len();
    trouble(&hub, Trouble::Stall(5000));
    let said = ends(&hub, cache.path(), &["--hub-stall-timeout", "200ms"]);
    for part in [
        &format!("{}/some/Model-1.5/resolve/c0ffee/model.safetensors breaks off", hub.endpoint),
        &format!("after 5000 of {size} bytes: nothing came for 0.2 s (--hub-stall-timeout)"),
        "the same command goes on from there",
    ] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    assert_eq!(goes_on(&hub, cache.path())[0].header("range"), Some("bytes=5000-"));
    // Who accepts a connection and says nothing at all is given up, too.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let empty = tempfile::tempdir().expect("a folder");
    let output = engine(&["pull", NAME, "--hub-stall-timeout", "200ms"], empty.path(), Some(&endpoint));
    let said = refusal(&output, empty.path());
    assert!(said.contains("nothing came for 0.2 s"), "{said}");
}

#[test]
fn an_answer_that_is_no_file_is_told_with_what_the_hub_asks_for() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let table = [
        ("429 Too Many Requests", "retry-after: 7\r\n", "status 429 and asks to wait 7 s; what has come is kept"),
        (
            "503 Service Unavailable",
            "retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n",
            "status 503 and asks to wait until Wed, 21 Oct 2026 07:28:00 GMT; what",
        ),
        ("500 Internal Server Error", "", "status 500; what has come is kept"),
        ("418 I'm a teapot", "", "status 418\n"),
        ("404 Not Found", "", "no such model, revision or file (status 404)\n"),
        ("206 Partial Content", "", "status 206\n"),
    ];
    for (status, headers, part) in table {
        trouble(&hub, Trouble::Status(status, headers));
        let said = ends(&hub, cache.path(), &[]);
        assert!(said.contains(part), "`{part}` is missing in: {said}");
        // What helps nobody is not kept.
        assert_eq!(cache.path().join("partial").exists(), said.contains("is kept"), "{said}");
    }
}

#[test]
fn a_length_that_is_a_lie_is_told() {
    let size = fs::metadata(models().join("llama").join(WEIGHTS)).expect("a file").len();
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    trouble(&hub, Trouble::Length(9_000_000));
    let said = ends(&hub, cache.path(), &[]);
    assert!(said.contains(&format!("breaks off after {size} of {size} bytes")), "{said}");
    goes_on(&hub, cache.path());
    let cache = tempfile::tempdir().expect("a folder");
    trouble(&hub, Trouble::Length(10));
    let said = ends(&hub, cache.path(), &[]);
    assert!(said.contains(&format!("model.safetensors has 10 bytes, and the hub says {size}")), "{said}");
    assert!(!cache.path().join("partial").exists());
    // It says less in its list, and sends more.
    hub.change(|contents| {
        contents.trouble.clear();
        contents.listed_size = Some(10);
    });
    let said = ends(&hub, cache.path(), &[]);
    assert!(said.contains("has more than the 10 bytes that the hub says"), "{said}");
    assert!(!cache.path().join("partial").exists());
}

#[test]
fn a_file_that_is_elsewhere_is_fetched_from_there_in_parts_too() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    hub.change(|contents| contents.token = Some("hunter2".into()));
    let token = ["--hub-token", "hunter2"];
    trouble(&hub, Trouble::BreakOff(5000));
    ends(&hub, cache.path(), &token);
    hub.questions();
    // The same hub wants the token at its other address, too.
    trouble(&hub, Trouble::Elsewhere(format!("/elsewhere/{WEIGHTS}")));
    stdout(&engine(&[&["pull", NAME], &token[..]].concat(), cache.path(), Some(&hub.endpoint)));
    let asked: Vec<_> = hub.questions().into_iter().filter(|asked| asked.target.ends_with(WEIGHTS)).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|asked| asked.header("range") == Some("bytes=5000-")), "{asked:?}");

    // Another host gets no token.
    let other = HubServer::start(Contents { repository: NAME.into(), commit: "c0ffee".into(), ..Contents::default() });
    let body = fs::read(models().join("llama").join(WEIGHTS)).expect("a file");
    other.change(|contents| _ = contents.files.insert(WEIGHTS.into(), (body, None)));
    let there = other.endpoint.replace("127.0.0.1", "localhost");
    trouble(&hub, Trouble::Elsewhere(format!("{there}/elsewhere/{WEIGHTS}")));
    let cache = tempfile::tempdir().expect("a folder");
    stdout(&engine(&[&["pull", NAME], &token[..]].concat(), cache.path(), Some(&hub.endpoint)));
    assert_eq!(other.questions()[0].header("authorization"), None);

    // A circle ends.
    trouble(&hub, Trouble::Elsewhere(format!("/{NAME}/resolve/c0ffee/{WEIGHTS}")));
    let cache = tempfile::tempdir().expect("a folder");
    let said = ends(&hub, cache.path(), &token);
    assert!(said.contains("too many redirects"), "{said}");
}

#[test]
fn a_commit_that_is_a_path_stays_within_the_cache() {
    let (hub, folder) = (hub(), tempfile::tempdir().expect("a folder"));
    let cache = folder.path().join("cache");
    hub.change(|contents| contents.commit = "../../../escaped".into());
    let output = engine(&["pull", NAME, "--revision", "../../.."], &cache, Some(&hub.endpoint));
    assert!(!output.stderr.is_empty() || output.status.success());
    let names: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(names.iter().all(|name| name == "cache"), "{names:?}");
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_leaves_nothing_under_a_final_name() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    // No file may have more than 8 blocks of 512 bytes; the signal of that is ignored, so that writing fails.
    let output = Command::new("/bin/sh")
        .env_clear()
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_engine"), "pull", NAME])
        .arg("--cache-dir")
        .arg(cache.path())
        .env("HF_ENDPOINT", &hub.endpoint)
        .output()
        .expect("the shell runs");
    let said = refusal(&output, cache.path());
    assert!(said.contains("cannot write ") && said.contains("File too large"), "{said}");
}

#[test]
fn a_hub_may_speak_tls_and_has_to_be_one_that_is_trusted() {
    let plain = hub();
    let mut contents = Contents::default();
    plain.change(|there| contents = there.clone());
    let (hub, cache) = (HubServer::start_tls(contents), tempfile::tempdir().expect("a folder"));
    let said = refusal(&engine(&["pull", NAME], cache.path(), Some(&hub.endpoint)), cache.path());
    assert!(said.contains("certificate") && said.contains("--hub-ca-file"), "{said}");
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/authority.pem");
    let authority = authority.to_str().expect("text");
    let flags = ["pull", NAME, "--hub-retries", "0", "--hub-ca-file", authority];
    // Cut short, and gone on with.
    hub.change(|contents| contents.trouble = [(WEIGHTS.to_owned(), Trouble::BreakOff(5000))].into());
    let output = engine(&flags, cache.path(), Some(&hub.endpoint));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("breaks off after 5000 of "), "{said}");
    hub.change(|contents| contents.trouble.clear());
    hub.questions();
    stdout(&engine(&flags, cache.path(), Some(&hub.endpoint)));
    let asked = hub.questions().into_iter().find(|asked| asked.target.ends_with(WEIGHTS)).expect("asked for");
    assert_eq!(asked.header("range"), Some("bytes=5000-"));
    // A name that the certificate has not.
    let other = hub.endpoint.replace("127.0.0.1", "127.0.0.2");
    let empty = tempfile::tempdir().expect("a folder");
    let said = refusal(&engine(&flags, empty.path(), Some(&other)), empty.path());
    assert!(said.contains(&other), "{said}");
}

#[test]
fn a_hub_may_be_behind_a_proxy() {
    let plain = hub();
    let mut contents = Contents::default();
    plain.change(|there| contents = there.clone());
    let (secure, proxy) = (HubServer::start_tls(contents), ProxyServer::start());
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/authority.pem");
    let trusting = ["pull", NAME, "--hub-ca-file", authority.to_str().expect("text")];
    let address = format!("http://user:hunter2@{}", proxy.address);
    for hub in [&plain, &secure] {
        let cache = tempfile::tempdir().expect("a folder");
        let flags = [&trusting[..], &["--hub-proxy", &address]].concat();
        stdout(&engine(&flags, cache.path(), Some(&hub.endpoint)));
        let asked = proxy.questions();
        let host = hub.endpoint.split("://").nth(1).expect("an address");
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.target == host), "{asked:?}");
        // The words "user:hunter2" in base 64.
        assert_eq!(asked[0].header("proxy-authorization"), Some("Basic dXNlcjpodW50ZXIy"));
        // A host that needs no proxy gets none.
        let cache = tempfile::tempdir().expect("a folder");
        let flags = [&flags[..], &["--hub-no-proxy", "example.org,127.0.0.1"]].concat();
        stdout(&engine(&flags, cache.path(), Some(&hub.endpoint)));
        assert!(proxy.questions().is_empty());
    }
    // The variables that other programs know.
    let with_variables = |no_proxy: &str| {
        let cache = tempfile::tempdir().expect("a folder");
        let output = Command::new(env!("CARGO_BIN_EXE_engine"))
            .env_clear()
            .envs([("HF_ENDPOINT", secure.endpoint.as_str()), ("HTTPS_PROXY", &address), ("NO_PROXY", no_proxy)])
            .env("SSL_CERT_FILE", &authority)
            .args(["pull", NAME, "--cache-dir"])
            .arg(cache.path())
            .output()
            .expect("runs");
        stdout(&output);
        proxy.questions().len()
    };
    assert!(with_variables("") > 0);
    assert_eq!(with_variables("*"), 0);
    // One that is gone is told without what it is called.
    let cache = tempfile::tempdir().expect("a folder");
    let nobody = "http://user:hunter2@127.0.0.1:9";
    let output = engine(&["pull", NAME, "--hub-proxy", nobody], cache.path(), Some(&plain.endpoint));
    let said = refusal(&output, cache.path());
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_proxy_and_certificates_that_are_not_needed_are_not_looked_at() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let wrong = ["--hub-proxy", "socks5://somewhere", "--hub-ca-file", "/no/such/file"];
    let run = |model: &str| {
        engine(&[&["generate", "--model-path", model], PROMPT, &wrong[..]].concat(), cache.path(), Some(&hub.endpoint))
    };
    stdout(&run(models().join("llama").to_str().expect("text")));
    assert!(refusal(&run(NAME), cache.path()).contains("/no/such/file"));
}

/// Waits for what comes as soon as the machine gets to it.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}

fn start(cache: &Path, endpoint: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_engine"))
        .env_clear()
        .env("HF_ENDPOINT", endpoint)
        .args(["pull", NAME, "--cache-dir"])
        .arg(cache)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

#[test]
fn a_pull_that_is_killed_is_gone_on_with() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    trouble(&hub, Trouble::Stall(5000));
    let mut child = start(cache.path(), &hub.endpoint);
    let part = cache.path().join("partial/some%2FModel-1.5%40main/parts").join(WEIGHTS);
    until("5000 bytes", || fs::metadata(&part).is_ok_and(|metadata| metadata.len() == 5000));
    child.kill().expect("killed");
    child.wait().expect("ends");
    assert!(!cache.path().join("hub").exists());
    assert_eq!(goes_on(&hub, cache.path())[0].header("range"), Some("bytes=5000-"));
}

#[test]
fn two_that_pull_the_same_fetch_it_once() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let both = [(); 2].map(|()| start(cache.path(), &hub.endpoint));
    let outputs = both.map(|child| child.wait_with_output().expect("ends"));
    assert_eq!(stdout(&outputs[0]), stdout(&outputs[1]));
    let targets = hub.asked();
    assert_eq!(targets.iter().filter(|target| target.ends_with(WEIGHTS)).count(), 1, "{targets:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let (hub, cache) = (hub(), tempfile::tempdir().expect("a folder"));
    let piped = engine(&["pull", NAME], cache.path(), Some(&hub.endpoint));
    assert_eq!((piped.status.code(), piped.stderr.as_slice()), (Some(0), &[][..]));
    let cache = tempfile::tempdir().expect("a folder");
    let arguments = ["pull", NAME, "--cache-dir", cache.path().to_str().expect("text")];
    let terminal = Terminal::start(&arguments, &[("HF_ENDPOINT", &hub.endpoint), ("NO_PROXY", "*")]);
    let (status, screen) = terminal.ends();
    assert!(status.success(), "{screen}");
    let bytes = fs::metadata(models().join("llama").join(WEIGHTS)).expect("a file").len();
    // A bar, and the lines of the result after it, with nothing of the bar behind.
    let bar = screen.find('/').filter(|_| screen.contains("iB/s")).expect("a bar");
    let result = screen.find(&format!("{bytes} bytes  ")).expect("the result");
    assert!(bar < result && !screen[result..].contains("iB/s"), "{screen:?}");
}
