//! `engine config` from outside.

use std::process::{Command, Output};

fn engine(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command.arg("config").args(arguments).env("ENGINE_SCHEDULE_CHUNKED_PREFILL_SIZE", "64");
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
    let (code, text) = refusal(&["explain", "schedule.page_sise"]);
    assert!(code == Some(2) && text.contains("did you mean `schedule.page_size`?"), "{text}");
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
    assert_eq!((&values["schedule.page_size"], &values["schedule.chunked_prefill_size"]), (&2.into(), &64.into()));
    let record = stdout(&["dump", "--view", "record", "--page-size=2"]);
    let expected = "schedule.page_size = 2 # --page-size\nschedule.chunked_prefill_size = 64 # ENGINE_SCHEDULE_CHUNKED_PREFILL_SIZE\n";
    assert_eq!(record, expected);
}

#[test]
fn check_and_diff_read_files_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path.to_str().expect("text").to_owned()
    };
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
}

#[test]
fn the_schema_is_told_in_every_form() {
    let schema: serde_json::Value = serde_json::from_str(&stdout(&["schema"])).expect("JSON");
    assert!(schema["properties"]["schedule"]["properties"]["page_size"].is_object());
    assert!(stdout(&["docs"]).contains("page_size") && stdout(&["template"]).contains("page_size"));
    assert!(stdout(&["fields"]).lines().any(|line| line.starts_with("schedule.page_size")));
}
