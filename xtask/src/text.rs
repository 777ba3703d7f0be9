//! What tracked files must not say, and links and paths that must lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::workspace::{Outcome, no_faults, root, tracked_files};

/// Names of registries, which are the business of each user's cargo and pip, and of one machine's folders.
///
/// Written in two parts, so that this file passes its own check.
const FORBIDDEN: &[&str] = &[
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("index", "-url"),
    concat!("find", "-links"),
    concat!("..", "/shared"),
    concat!("/work", "/"),
    concat!("/root", "/"),
];

/// Checks all tracked text files.
pub(crate) fn check() -> Outcome {
    let files = tracked_files()?;
    let folders: BTreeSet<_> = files.iter().filter_map(|path| path.parent()?.iter().next()?.to_str()).collect();
    let mut faults = Vec::new();
    for path in &files {
        // Binary files are test data; they hold no text of ours.
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        faults.extend(forbidden(&text).into_iter().map(|fault| format!("{}:{fault}", path.display())));
        if path.extension().is_some_and(|extension| extension == "md") {
            let folder = root().join(path.parent().unwrap_or(Path::new("")));
            let dead = links(&text).into_iter().filter(|link| !folder.join(link).exists());
            let gone = paths(&text, &folders).into_iter().filter(|path| !root().join(path).exists());
            faults.extend(dead.chain(gone).map(|to| format!("{}: `{to}` leads nowhere", path.display())));
        }
    }
    no_faults(&faults)?;
    println!("{} tracked files", files.len());
    Ok(())
}

/// Line and word of everything forbidden in `text`.
fn forbidden(text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(index, line)| {
            let found = FORBIDDEN.iter().filter(move |word| line.contains(**word));
            found.map(move |word| format!("{}: says `{word}`", index + 1))
        })
        .collect()
}

/// The files that Markdown links lead to.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files = targets.filter(|target| !target.contains("://") && !target.contains("::") && !target.contains(' '));
    files.map(|target| target.split('#').next().unwrap_or_default()).filter(|target| !target.is_empty()).collect()
}

/// Code words that are paths from the root: they begin with one of its `folders`.
fn paths<'a>(text: &'a str, folders: &BTreeSet<&str>) -> Vec<&'a str> {
    let words =
        text.split('`').filter(|word| word.chars().all(|char| char.is_ascii_alphanumeric() || "/_-.".contains(char)));
    words.filter(|word| word.split_once('/').is_some_and(|(folder, _)| folders.contains(folder))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_words_are_found_with_their_line() {
        let text = format!("fine\nsee {}x\n", FORBIDDEN[0]);
        assert_eq!(forbidden(&text), [format!("2: says `{}`", FORBIDDEN[0])]);
    }

    #[test]
    fn links_to_files_are_told_from_others() {
        let text = "[a](docs/a.md#part) [b](https://b) [c](#c) [`d`](Self::d) `x[0](y z)`";
        assert_eq!(links(text), ["docs/a.md"]);
    }

    #[test]
    fn paths_are_told_from_other_code() {
        let text = "`docs/a.md` and `docs` or `docs/*.md`, `target/debug`, `x / docs/b`, `docs/b-c/d_e.rs`";
        assert_eq!(paths(text, &["docs"].into()), ["docs/a.md", "docs/b-c/d_e.rs"]);
    }
}
