//! This repository: its expectations are not rewritten on the way, and the page about the incidents is complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of the files in a folder with this extension, without it.
fn stems(folder: &str, extension: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(package().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let matching = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    matching.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Incident 60: a failed check of expectations ran again in a state that the first run had changed, and passed. What
/// runs the tests here, runs them once, and nothing tells trybuild to write what it should compare.
#[test]
fn ci_neither_retries_nor_rewrites() {
    let root = package().join("../..");
    let mut scripts = vec![root.join(".ci/run")];
    scripts.extend(fs::read_dir(root.join("xtask/src")).unwrap().map(|entry| entry.unwrap().path()));
    assert!(scripts.len() > 5, "{scripts:?}");
    for script in scripts {
        let text = read(&script).to_lowercase();
        for word in ["retry", "retries", "trybuild=overwrite"] {
            assert!(!text.contains(word), "`{word}` in {}", script.display());
        }
    }
    assert!(!root.join(".config/nextest.toml").exists(), "says how often a test is tried");
}

/// Tests of this package in files other than this one.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for topic in stems("tests", "rs").into_iter().filter(|topic| topic != "ui") {
        let text = read(&package().join(format!("tests/{topic}.rs")));
        for (_, after) in text.match_indices("\n#[test]\nfn ").map(|(start, mark)| text.split_at(start + mark.len())) {
            found.insert(format!("{topic}::{}", after.split('(').next().unwrap()));
        }
    }
    found.remove("repository::the_page_is_complete");
    found
}

#[test]
fn the_page_is_complete() {
    let page = read(&package().join("../../docs/incidents.md"));
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| id "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let ids: Vec<_> = rows.iter().map(|row| row[0].to_owned()).collect();
    let expected: Vec<_> = (1..=60)
        .map(|id| id.to_string())
        .chain(["files".to_owned()])
        .chain((1..=17).map(|id| format!("D{id}")))
        .collect();
    assert_eq!(ids, expected);
    let mut named = BTreeSet::new();
    for row in &rows {
        assert_eq!(row.len(), 4, "{row:?}");
        let proofs: Vec<_> = row[3].split(", ").map(|proof| proof.trim_matches('`').to_owned()).collect();
        assert!(proofs.iter().all(|proof| proof.len() > 3), "{row:?}");
        named.extend(proofs);
    }
    let failing = stems("tests/ui/fail", "rs");
    assert_eq!(failing, stems("tests/ui/fail", "stderr"), "each case has its message");
    let cases = failing.into_iter().map(|case| format!("ui/fail/{case}"));
    let passing = stems("tests/ui/pass", "rs").into_iter().map(|case| format!("ui/pass/{case}"));
    let existing: BTreeSet<String> = tests().into_iter().chain(cases).chain(passing).collect();
    assert_eq!(named, existing, "the page on the left, the tests on the right");
}
