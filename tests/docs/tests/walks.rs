//! The walks of `ARCHITECTURE.md` name files, functions and types that exist.

mod source;

use std::fs;
use std::path::PathBuf;

use source::{defines, read, root, rust_files};

/// Files that the walks lead through, with their text.
fn files() -> Vec<(PathBuf, String)> {
    let folders = ["engine/src", "engine/config/src", "config-runtime/src", "kernels/src"];
    let files = folders.iter().flat_map(|folder| rust_files(&root().join(folder)));
    files
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a text file");
            (path, text)
        })
        .collect()
}

fn is_name(word: &str) -> bool {
    let parts = word.split("::");
    parts.clone().all(|part| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.chars().all(|next| next.is_ascii_alphanumeric() || next == '_')
    })
}

/// Whether a file defines the name; of `a::b`, the file is `a.rs`, in the folder or crate `a`, or defines or implements
/// `a`, and has `b`.
fn exists(name: &str, files: &[(PathBuf, String)]) -> bool {
    let Some((owner, item)) = name.rsplit_once("::") else {
        return files.iter().any(|(_, text)| defines(text, name));
    };
    let is_owner = |path: &PathBuf, text: &str| {
        let is_module = path.file_stem().is_some_and(|stem| stem == owner) || path.iter().any(|folder| folder == owner);
        let implements = |line: &str| {
            let words = line.split(|next: char| !next.is_alphanumeric() && next != '_');
            line.starts_with("impl") && words.into_iter().any(|word| word == owner)
        };
        is_module || defines(text, owner) || text.lines().any(implements)
    };
    let is_folder = |path: &PathBuf| {
        let parts: Vec<_> = path.iter().collect();
        parts.windows(2).any(|pair| pair[1] == item) && parts.iter().any(|part| *part == owner)
    };
    files.iter().any(|(path, text)| is_folder(path) || (is_owner(path, text) && defines(text, item)))
}

/// Names in backquotes of the sections whose title begins with "One ".
fn walk_names(page: &str) -> Vec<&str> {
    let sections = page.split("\n## ").filter(|section| section.starts_with("One "));
    let words = sections.flat_map(|section| section.split('`').skip(1).step_by(2));
    words.filter(|word| is_name(word)).collect()
}

#[test]
fn what_the_walks_name_exists() {
    let page = read("ARCHITECTURE.md");
    let (names, files) = (walk_names(&page), files());
    assert!(names.len() > 40, "{names:?}");
    // Variables of the environment, which the schema makes.
    let names = names.into_iter().filter(|name| !name.chars().all(|next| next.is_ascii_uppercase() || next == '_'));
    // The engine's schema has `augment` from the trait that every schema has.
    let names = names.map(|name| if name == "Settings::augment" { "ConfigNamespaces::augment" } else { name });
    let missing: Vec<_> = names.filter(|name| !exists(name, &files)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:?}");
}

#[test]
fn a_name_that_is_gone_is_found() {
    let files = files();
    for name in ["Runner::extend", "launch::build_runner", "Runner", "page_size", "kernels::cpu", "Loader::load"] {
        assert!(exists(name, &files), "{name}");
    }
    for name in ["Runner::extent", "launch::build_walker", "Walker", "pages_size_", "kernels::abacus", "Loader::unload"]
    {
        assert!(!exists(name, &files), "{name}");
    }
    let page = "# A\n\n## Other\n`no`\n\n## One walk\n`A::b`, `--flag`, `a.rs`, `c`\n\n## Next\n`d`\n";
    assert_eq!(walk_names(page), ["A::b", "c"]);
}
