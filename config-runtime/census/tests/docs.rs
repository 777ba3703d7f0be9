//! `docs/census.md` shows what the tool prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Blocks of a page with what is marked, and the line before each.
fn blocks(page: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut before = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(mark) = line.strip_prefix("```") {
            let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((before.clone(), mark.to_owned(), text.join("\n") + "\n"));
        }
        if !line.is_empty() {
            line.clone_into(&mut before);
        }
    }
    found
}

/// The file in "where `src/pool.rs` becomes:".
fn becomes(before: &str) -> Option<&str> {
    before.strip_suffix("` becomes:")?.rsplit('`').next()
}

#[test]
fn commands_print_what_the_page_shows() {
    let page = fs::read_to_string(root().join("docs/census.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/thumbs");
    fs::create_dir_all(folder.path().join("thumbs/src")).unwrap();
    for file in ["Cargo.toml", "src/main.rs", "src/pool.rs", "src/http.rs"] {
        fs::copy(source.join(file), folder.path().join("thumbs").join(file)).unwrap();
    }
    let mut commands = 0;
    for (before, mark, text) in blocks(&page) {
        if mark == "rust"
            && let Some(file) = becomes(&before)
        {
            let shown = text.lines().filter(|line| !line.starts_with("# ")).map(|line| format!("{line}\n"));
            fs::write(folder.path().join("thumbs").join(file), shown.collect::<String>()).unwrap();
        }
        if mark != "console" {
            continue;
        }
        for session in text.split("$ ").skip(1) {
            let (command, shown) = session.split_once('\n').unwrap();
            let words: Vec<_> = command.split(' ').collect();
            assert_eq!(words[0], "kitbag-census");
            let mut tool = Command::new(env!("CARGO_BIN_EXE_kitbag-census"));
            let output = tool.args(&words[1..]).current_dir(folder.path()).output().unwrap();
            let printed = [output.stdout, output.stderr].concat();
            assert_eq!(String::from_utf8_lossy(&printed), shown, "{command}");
            assert_eq!(output.status.success(), !(shown.contains("gone:") || shown.contains("added:")), "{command}");
            commands += 1;
        }
    }
    assert_eq!(commands, 7);
}

#[test]
fn a_scan_is_data_too() {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_kitbag-census"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/thumbs");
    let output = tool.args(["scan", "--json", "--struct", "Args", "--crate"]).arg(folder).output().unwrap();
    let census: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = serde_json::json!({
        "file": "src/http.rs", "line": 4, "column": 16, "field": "listen", "route": "parked", "leaf": true, "how": null,
    });
    assert_eq!(census["reads"][0], read);
    assert_eq!(census["reads"].as_array().unwrap().len(), 7);
    assert_eq!(census["never_read"], serde_json::json!(["verbose"]));
}

#[test]
fn faults_say_what_is_wrong() {
    let fails = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kitbag-census")).args(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/routes");
    let scan = |name| fails(&["scan", "--crate", folder, "--struct", name]);
    assert_eq!(scan("Arguments"), "there is no struct `Arguments` here\n");
    let several = "there are several: say which with --struct: renamed::Args, renamed::inner::Args, settings::Args\n";
    assert_eq!(scan("Args"), several);
    let missing = fails(&["check", "--crate", folder, "--struct", "settings::Args", "--file", "no.pin"]);
    assert!(missing.starts_with("no.pin: "), "{missing}");
}
