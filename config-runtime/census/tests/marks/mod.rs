//! Fixtures say in comments what is to be found in each line: `//~ alias: port, host; parameter: (args)`.
//!
//! A word is a field, named where it is read; a word in parentheses begins an expression that stands for the whole struct,
//! and `(args#2)` is the second of that name in the line.
//! `direct`, `alias`, `parked`, `parameter` and `macro` are reads, `write` and `unfollowed` are listed apart.

use std::fs;
use std::path::{Path, PathBuf};

use kitbag_census::Census;
use kitbag_census::census::What;

/// Kind, file, line, column, and `(whole)` or the last segment of the field.
pub(crate) type Mark = (String, String, usize, usize, String);

pub(crate) fn folder(fixture: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture)
}

/// What the comments of a fixture say.
pub(crate) fn expected(fixture: &str) -> Vec<Mark> {
    let mut marks = Vec::new();
    let source = folder(fixture).join("src");
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let file = format!("src/{}", path.file_name().unwrap().to_str().unwrap());
        for (index, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let Some((code, marks_of_line)) = line.split_once("//~ ") else { continue };
            let mut taken: Vec<(String, usize)> = Vec::new();
            for kind in marks_of_line.split("; ") {
                let (kind, words) = kind.split_once(": ").unwrap();
                for word in words.split(", ") {
                    let bare = word.trim_matches(['(', ')']);
                    let (whole, number) = bare.split_once('#').unwrap_or((bare, "1"));
                    let field = if bare == word { whole } else { "(whole)" };
                    // Each kind counts its words from the start of the line.
                    let column = columns(code, whole, field == "(whole)")
                        .into_iter()
                        .skip(number.parse::<usize>().unwrap() - 1)
                        .find(|column| !taken.contains(&(format!("{kind} {word}"), *column)))
                        .unwrap_or_else(|| panic!("{file}:{}: there is no other `{word}`", index + 1));
                    taken.push((format!("{kind} {word}"), column));
                    marks.push((kind.to_owned(), file.clone(), index + 1, column, field.to_owned()));
                }
            }
        }
    }
    marks.sort();
    marks
}

/// Where a word is: a field after a dot first, since the same word may be a local or a name in a pattern.
fn columns(code: &str, word: &str, whole: bool) -> Vec<usize> {
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    let places = code.match_indices(word).filter(|(position, _)| {
        let before = code[..*position].chars().next_back();
        let after = code[position + word.len()..].chars().next();
        word == "\"" || !(before.is_some_and(is_part) || after.is_some_and(is_part))
    });
    let places: Vec<_> = places.map(|(position, _)| position).collect();
    let dotted = |position: &usize| code[..*position].ends_with('.');
    let (after_dot, others): (Vec<_>, Vec<_>) = places.into_iter().partition(dotted);
    let (first, then) = if whole { (others, after_dot) } else { (after_dot, others) };
    first.into_iter().chain(then).map(|position| code[..position].chars().count() + 1).collect()
}

/// What a census found, in the form of the comments.
pub(crate) fn found(census: &Census) -> Vec<Mark> {
    let last = |field: &str| field.rsplit('.').next().unwrap().to_owned();
    let reads = census.reads.iter().map(|read| {
        let field = match &read.what {
            What::Leaf(leaf) => last(leaf),
            What::Whole(_) => "(whole)".to_owned(),
        };
        (read.route.to_string(), &read.place, field)
    });
    let writes = census.writes.iter().map(|write| ("write".to_owned(), &write.place, last(&write.field)));
    let unfollowed = census.unfollowed.iter().map(|use_| ("unfollowed".to_owned(), &use_.place, last(&use_.field)));
    let all = reads.chain(writes).chain(unfollowed);
    let mut marks: Vec<_> =
        all.map(|(kind, place, field)| (kind, place.file.clone(), place.line, place.column, field)).collect();
    marks.sort();
    marks
}

/// What is in one list and not in the other, for people.
pub(crate) fn difference(expected: &[Mark], found: &[Mark]) -> String {
    let line = |sign: &str, mark: &Mark| format!("{sign} {}:{}:{} {} {}\n", mark.1, mark.2, mark.3, mark.0, mark.4);
    let missed = expected.iter().filter(|mark| !found.contains(mark)).map(|mark| line("missed", mark));
    let extra = found.iter().filter(|mark| !expected.contains(mark)).map(|mark| line("extra ", mark));
    let mut lines: Vec<_> = missed.chain(extra).collect();
    lines.sort_by_key(|line| line.split_once(' ').map(|(_, rest)| rest.trim().to_owned()));
    lines.concat()
}
