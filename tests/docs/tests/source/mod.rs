//! What source files define, as far as their text says.

#![allow(dead_code)] // Each test file uses a part of it.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository; the path is from its root.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Paths of Rust files in a folder and the folders in it.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.flat_map(|path| {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if path.is_dir() { rust_files(&path) } else { Vec::from_iter(is_rust.then_some(path)) }
    });
    files.collect()
}

/// Whether `name` is defined: a function, a type, a module or a field.
pub(crate) fn defines(text: &str, name: &str) -> bool {
    let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let items = ["fn ", "struct ", "enum ", "trait ", "mod ", "type ", "const "];
    let is_item = items.iter().any(|item| {
        let definition = format!("{item}{name}");
        text.match_indices(&definition).any(|(at, found)| is_whole(&text[at + found.len()..]))
    });
    is_item || text.lines().any(|line| line.trim_start().trim_start_matches("pub ").starts_with(&format!("{name}: ")))
}

/// Whether `name` is a test: the function has attributes in front, `#[test]` among them.
pub(crate) fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    lines.iter().enumerate().filter(|(_, line)| line.starts_with(&function)).any(|(at, _)| {
        lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).any(|line| *line == "#[test]")
    })
}
