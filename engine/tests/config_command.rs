//! `engine config` from outside.

use std::process::{Command, Output};

use tempfile::TempDir;

fn engine(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    // Some variables that settings come from are other programs' as well, and set on many machines.
    command.arg("config").args(arguments).env_clear().env("ENGINE_SCHEDULE_CHUNKED_PREFILL_SIZE", "64");
    command.output().expect("the command runs")
}

fn stdout(arguments: &[&str]) -> String {
    let output = engine(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let output = engine(arguments);
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// The path of a file in a folder that holds this text.
fn written(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("writes");
    path.to_str().expect("text").to_owned()
}

#[test]
fn explain_shows_who_won() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("one.toml"), folder.path().join("two.toml"));
    std::fs::write(&one, "include = \"two.toml\"\n[schedule]\nchunked_prefill_size = 32\npage_size = 8\n")
        .expect("writes");
    std::fs::write(&two, "[schedule]\npage_size = 4\n").expect("writes");
    let one = one.to_str().expect("text");
    let text = stdout(&["explain", "schedule.page_size", "--config", one]);
    assert!(text.starts_with("schedule.page_size = 8\n"), "{text}");
    assert!(text.contains("two.toml:2:13: 4") && text.contains("> ") && text.contains("one.toml:4:13: 8"), "{text}");
    let text = stdout(&["explain", "schedule.chunked_prefill_size", "--config", one, "--chunked-prefill-size=16"]);
    assert!(text.contains("ENGINE_SCHEDULE_CHUNKED_PREFILL_SIZE: 64\n> --chunked-prefill-size: 16"), "{text}");
    assert!(!text.contains('\x1b'), "no colours into a pipe");
    let derived = stdout(&["explain", "schedule.pool_pages"]);
    assert!(derived.contains("derived by") && derived.contains("schedule.max_total_tokens"), "{derived}");
}

#[test]
fn a_name_that_is_none_leads_to_the_one_that_was_meant() {
    let meant = ["schedule.page_sise", "page_size", "page-size", "--page-size", "ENGINE_SCHEDULE_PAGE_SIZE"];
    for name in meant {
        let (code, text) = refusal(&["explain", "--", name]);
        let said = format!("engine: no setting is called `{name}`; did you mean `schedule.page_size`?\n");
        assert_eq!((code, text), (Some(2), said));
    }
    let (_, text) = refusal(&["explain", "kernel.nvrtc_path"]);
    assert!(text.contains("did you mean `exec.kernel.nvrtc_path`?"), "{text}");
    let (_, text) = refusal(&["explain", "exec"]);
    assert_eq!(text, "engine: `exec` is a namespace; name one of its settings, such as `exec.device`\n");
    assert_eq!(refusal(&["explain", "size"]).1, "engine: no setting is called `size`\n");
}

/// Standard output of a command on a terminal, by `script` of util-linux.
fn on_a_terminal(arguments: &str, variable: (&str, &str)) -> String {
    let line = format!("{} config {arguments}", env!("CARGO_BIN_EXE_engine"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env_remove("NO_COLOR");
    let output = command.env("TERM", "xterm").env(variable.0, variable.1).output().expect("script of util-linux runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").replace("\r\n", "\n")
}

#[test]
fn colours_are_for_terminals() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| written(&folder, name, text);
    let (one, two) = (path("one.toml", "[sampling]\nseed = 3"), path("two.toml", "[sampling]\nseed = 4"));
    let cases = [
        ("explain schedule.page_size --page-size 8".to_owned(), "\x1b[1m> --page-size: 8\x1b[0m\n"),
        ("dump --max-total-tokens 100".to_owned(), "\x1b[2m# derived: schedule.pool_pages = 7\x1b[0m\n"),
        ("dump --view record --page-size 8".to_owned(), "schedule.page_size = 8 \x1b[2m# --page-size\x1b[0m\n"),
        (format!("check {one}"), ": \x1b[32mok\x1b[0m\n"),
        (format!("diff {one} {two}"), "sampling.seed: \x1b[31m3\x1b[0m -> \x1b[32m4\x1b[0m\n"),
    ];
    for (arguments, painted) in cases {
        let text = on_a_terminal(&arguments, ("NO_COLOR", ""));
        assert!(text.contains(painted), "{text:?}");
        let words: Vec<_> = arguments.split(' ').collect();
        let piped = Command::new(env!("CARGO_BIN_EXE_engine")).arg("config").args(words).output().expect("runs");
        let piped = String::from_utf8(piped.stdout).expect("text");
        assert!(!piped.contains('\x1b'), "{piped:?}");
        assert_eq!(on_a_terminal(&arguments, ("NO_COLOR", "1")), piped);
        assert_eq!(on_a_terminal(&arguments, ("TERM", "dumb")), piped);
    }
    let explained = on_a_terminal("explain schedule.page_size --page-size 8", ("NO_COLOR", ""));
    assert_eq!(explained.matches("\x1b[1m").count(), 1, "what counts stands out, and nothing else: {explained:?}");
    let named = on_a_terminal("explain schedule.page_size --page-size 8", ("TERMINAL_IS_NOT", "dumb"));
    assert_eq!(named, explained, "another variable may have any value");
    // Documents are the same wherever they are read.
    for document in ["schema", "docs", "template", "fields", "dump --format json"] {
        assert!(!on_a_terminal(document, ("NO_COLOR", "")).contains('\x1b'), "{document}");
    }
}

#[test]
fn a_dump_is_a_file_that_resolves_to_itself() {
    let dump = stdout(&["dump", "--page-size", "32", "--temperature", "0.5"]);
    assert!(dump.contains("schedule.page_size = 32\n") && dump.contains("# derived: schedule.pool_pages = "), "{dump}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dump.toml");
    std::fs::write(&file, &dump).expect("writes");
    assert_eq!(stdout(&["dump", "--config", file.to_str().expect("text")]), dump);
    let json = stdout(&["dump", "--format", "json", "--view", "resolved", "--page-size=2"]);
    let values: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let given = stdout(&["dump", "--format", "json", "--view", "record", "--page-size=2"]);
    let given: serde_json::Value = serde_json::from_str(&given).expect("JSON");
    assert_eq!(given[0], serde_json::json!({"leaf": "schedule.page_size", "origin": "--page-size", "value": 2}));
    assert_eq!((&values["schedule.page_size"], &values["schedule.chunked_prefill_size"]), (&2.into(), &64.into()));
    let record = stdout(&["dump", "--view", "record", "--page-size=2"]);
    let expected = "schedule.page_size = 2 # --page-size\nschedule.chunked_prefill_size = 64 # ENGINE_SCHEDULE_CHUNKED_PREFILL_SIZE\n";
    assert_eq!(record, expected);
    let mut none = Command::new(env!("CARGO_BIN_EXE_engine"));
    let none = none.args(["config", "dump", "--view", "record"]).env_clear().output();
    assert_eq!(none.expect("runs").stdout, b"# nothing is given: every setting has its default\n");
    for (flag, choices) in [("--view=raw", "record, resolved, effective, loaded"), ("--format=yaml", "toml, json")] {
        let (code, text) = refusal(&["dump", flag]);
        assert!(code == Some(2) && text.contains(choices), "{text}");
    }
}

#[test]
fn what_the_model_decides_is_shown_on_request() {
    let model = concat!("--model-path=", env!("CARGO_MANIFEST_DIR"), "/../tests/models/llama");
    let explained =
        |more: &[&str]| stdout(&[&["explain", "model.context_length", "--device=cpu", model], more].concat());
    assert!(explained(&[]).starts_with("model.context_length = unset\n"), "{}", explained(&[]));
    assert!(explained(&["--loaded"]).starts_with("model.context_length = 2048\n"), "{}", explained(&["--loaded"]));
    let dumped = |view: &str| stdout(&["dump", "--device=cpu", model, view]);
    assert!(!dumped("--view=resolved").contains("model.context_length = 2048"));
    assert!(dumped("--view=loaded").contains("model.context_length = 2048\n"));
    for loaded in [["explain", "model.context_length", "--loaded"], ["dump", "--view", "loaded"]] {
        let (code, text) = refusal(&[&loaded[..], &["--model-path=/no/such/model"]].concat());
        assert!(code == Some(1) && text.contains("/no/such/model"), "{text}");
    }
}

#[test]
fn a_value_that_is_refused_is_refused_in_every_view() {
    for view in ["record", "resolved", "effective", "loaded"] {
        let (code, text) = refusal(&["dump", "--view", view, "--page-size=0"]);
        assert!(code == Some(2) && text.contains("schedule.page_size: 0 is outside"), "{view}: {text}");
    }
    let (code, text) = refusal(&["explain", "schedule.page_size", "--page-size=0"]);
    assert!(code == Some(2) && text.contains("schedule.page_size: 0 is outside"), "{text}");
}

#[test]
fn check_and_diff_read_files_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| written(&folder, name, text);
    let (good, other) =
        (path("good.toml", "[sampling]\nseed = 3"), path("other.yaml", "sampling:\n  temperature: 1.5\n"));
    let bad = path("bad.toml", "[sampling]\ntemperature = -1\n[schedule]\npage_sise = 3");
    assert_eq!(stdout(&["check", &good, &other]), format!("{good}: ok\n{other}: ok\n"));
    let (code, text) = refusal(&["check", &good, &bad]);
    assert!(
        code == Some(1) && text.contains("bad.toml:2:15: sampling.temperature") && text.contains("bad.toml:4:1"),
        "{text}"
    );
    let text = stdout(&["diff", &good, &other]);
    assert_eq!(text, "sampling.temperature: 0.0 -> 1.5\nsampling.seed: 3 -> unset\n");
    assert_eq!(stdout(&["diff", &good, &good]), "no differences\n");
    // What is wrong is told of both files, and of files that are none.
    let gone = folder.path().join("gone.toml");
    let (code, text) = refusal(&["diff", &bad, gone.to_str().expect("text")]);
    assert!(code == Some(2) && text.contains("bad.toml:2:15: ") && text.contains("gone.toml: cannot read"), "{text}");
    for files in [&[][..], &[&good], &[&good, &good, &good]] {
        let files: Vec<_> = files.iter().map(|file: &&String| file.as_str()).collect();
        let (code, text) = refusal(&[&["diff"], &files[..]].concat());
        assert!(code == Some(2) && text.contains("Usage: engine config diff <A> <B>\n"), "{text}");
    }
    let (code, text) = refusal(&["check"]);
    assert!(code == Some(2) && text.contains("<FILE>"), "{text}");
    let text_file = path("settings.txt", "");
    let (code, text) = refusal(&["check", &text_file]);
    assert!(code == Some(1) && text.contains("ends in `.toml`"), "{text}");
}

#[test]
fn the_schema_is_told_in_every_form() {
    let schema: serde_json::Value = serde_json::from_str(&stdout(&["schema"])).expect("JSON");
    assert!(schema["properties"]["schedule"]["properties"]["page_size"].is_object());
    assert!(stdout(&["docs"]).contains("page_size") && stdout(&["template"]).contains("page_size"));
    assert!(stdout(&["fields"]).lines().any(|line| line.starts_with("schedule.page_size")));
}

#[test]
fn a_plan_says_what_a_change_would_do_and_whether() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| written(&folder, name, text);
    let now = path("now.toml", "[sampling]\ntemperature = 0.5\n[schedule]\npage_size = 8\n");
    let more = path("more.toml", "[sampling]\nseed = 3\n");
    assert_eq!(stdout(&["plan", "--config", &now, "--to", &now]), "no changes\n");
    assert_eq!(
        stdout(&["plan", "--config", &now, "--config", &more, "--to", &now]),
        "sampling.seed: 3 -> unset\n",
        "several files, later ones over earlier ones"
    );
    assert_eq!(
        stdout(&["plan", "--config", &now, "--set", "sampling.temperature=1", "--set", "sampling.seed=7"]),
        "sampling.temperature: 0.5 -> 1.0\nsampling.seed: unset -> 7\n"
    );
    // What is refused is printed all the same, and the exit code says so.
    let refused = |arguments: &[&str]| {
        let output = engine(arguments);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(output.stderr), "engine: a running engine would refuse this change\n");
        text(output.stdout)
    };
    let next = path("next.toml", "[sampling]\ntemperature = 0.7\n[schedule]\npage_size = 16\n");
    assert_eq!(
        refused(&["plan", "--config", &now, "--to", &next]),
        "sampling.temperature: 0.5 -> 0.7\nneeds a restart: schedule.page_size: 8 -> 16 (it is `launch`)\n"
    );
    let text = refused(&["plan", "--set", "sampling.temprature=1", "--set", "schedule.page_size=16"]);
    assert!(text.contains("error: --set: no setting is called `sampling.temprature`; did you mean"), "{text}");
    let broken = path("broken.toml", "[sampling]\ntemperature = \n");
    assert!(refused(&["plan", "--config", &now, "--to", &broken]).contains("broken.toml:2:"));
    // Asked wrongly: nothing to plan, two changes at once, no value, or the files in force are no good.
    for wrong in [
        vec!["plan", "--config", &now],
        vec!["plan", "--to", &now, "--set", "sampling.seed=1"],
        vec!["plan", "--set", "sampling.seed"],
        vec!["plan", "--config", &broken, "--to", &now],
    ] {
        assert_eq!(refusal(&wrong).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_plan_takes_the_environment_as_an_engine_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path
    };
    let (named, next) = (path("named.toml", "sampling.seed = 1\n"), path("next.toml", "sampling.seed = 2\n"));
    let plan = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
        command.args(["config", "plan", "--to"]).arg(&next).env("ENGINE_CONFIG", &named);
        let output = command.envs(variables.iter().copied()).output().expect("the command runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(plan(&[]), "sampling.seed: 1 -> 2\n");
    assert_eq!(plan(&[("ENGINE_SAMPLING_SEED", "9")]), "no changes\n", "the environment wins over both files");
}

#[test]
fn every_answer_is_whole_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| written(&folder, name, text);
    let (one, two) = (path("one.toml", "[sampling]\nseed = 3"), path("two.toml", "[sampling]\nseed = 4"));
    let calls: [&[&str]; 13] = [
        &["explain", "schedule.pool_pages"],
        &["dump"],
        &["dump", "--format=json"],
        &["dump", "--view=record"],
        &["dump", "--view=record", "--format=json"],
        &["check", &one],
        &["diff", &one, &two],
        &["diff", &one, &one],
        &["plan", "--config", &one, "--to", &one],
        &["schema"],
        &["docs"],
        &["template"],
        &["fields"],
    ];
    for arguments in calls {
        let text = stdout(arguments);
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{arguments:?} ends with {:?}", text.lines().last());
    }
}
