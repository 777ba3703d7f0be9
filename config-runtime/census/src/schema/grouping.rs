//! Which leaves make a namespace: those with one prefix, then those that the same file reads.

use std::collections::BTreeMap;

use crate::census::{Census, Field};

/// A namespace.
pub(super) struct Group {
    pub(super) path: String,
    /// What its leaves have in common.
    pub(super) why: String,
    /// Path of the field, and name of the leaf.
    pub(super) leaves: Vec<(String, String)>,
}

/// A prefix of more words than this is part of the name.
const PREFIX_WORDS: usize = 1;

pub(super) fn groups(census: &Census, fields: &[&Field]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let (nested, flat): (Vec<_>, Vec<_>) = fields.iter().map(|field| field.path.as_str()).partition(is_nested);
    for path in nested {
        let (before, name) = path.rsplit_once('.').unwrap_or(("", path));
        let namespace = before.replace('.', "_");
        add(&mut groups, &namespace, "a struct of its own", path, name.to_owned());
    }
    let prefixes = prefixes(&flat, &groups);
    let mut others = Vec::new();
    for path in flat {
        match prefix(path).filter(|prefix| prefixes.iter().any(|other| other == prefix)) {
            Some(prefix) => {
                let rest = path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
                let name = rest.filter(|rest| is_name(rest)).unwrap_or(path);
                let why = format!("names that begin with `{prefix}`");
                add(&mut groups, prefix, &why, path, name.to_owned());
            }
            None => others.push(path),
        }
    }
    for path in others {
        let Some(file) = main_file(census, |field| field == path) else {
            add(&mut groups, "unread", "nothing seems to read them", path, path.to_owned());
            continue;
        };
        add(&mut groups, &file_name(&file), &format!("read mostly in {file}"), path, path.to_owned());
    }
    groups
}

fn is_nested(path: &&str) -> bool {
    path.contains('.')
}

fn add(groups: &mut Vec<Group>, namespace: &str, why: &str, path: &str, name: String) {
    let position = groups.iter().position(|group| group.path == namespace).unwrap_or_else(|| {
        groups.push(Group { path: namespace.to_owned(), why: why.to_owned(), leaves: Vec::new() });
        groups.len() - 1
    });
    let group = &mut groups[position];
    if !group.why.contains(why) {
        group.why = format!("{}; {why}", group.why);
    }
    let taken = group.leaves.iter().any(|(_, leaf)| *leaf == name);
    group.leaves.push((path.to_owned(), if taken { path.replace('.', "_") } else { name }));
}

fn prefix(path: &str) -> Option<&str> {
    path.split('_').take(PREFIX_WORDS).last().filter(|word| !word.is_empty())
}

/// First words of several names, and names of flattened structs.
fn prefixes(flat: &[&str], groups: &[Group]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in flat.iter().filter_map(|path| prefix(path)) {
        *counts.entry(word).or_default() += 1;
    }
    let several = counts.into_iter().filter(|(word, count)| *count > 1 && is_name(word) && !is_vague(word));
    several.map(|(word, _)| word.to_owned()).chain(groups.iter().map(|group| group.path.clone())).collect()
}

/// Words that many names begin with for their grammar.
fn is_vague(word: &str) -> bool {
    ["allow", "disable", "enable", "is", "max", "min", "no", "num", "use", "with"].contains(&word)
}

/// Whether it can be the name of a field without `r#`.
fn is_name(text: &str) -> bool {
    syn::parse_str::<syn::Ident>(text).is_ok()
}

/// The name of a field.
pub(super) fn identifier(name: &str) -> String {
    if is_name(name) { name.to_owned() } else { format!("r#{name}") }
}

/// The file with most reads of some fields; the first of several.
fn main_file(census: &Census, is_one: impl Fn(&str) -> bool) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for read in census.leaf_reads().filter(|read| is_one(read.what.field())) {
        *counts.entry(&read.place.file).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(file, _)| file.to_owned())
}

/// A namespace named after a file: `src/http/mod.rs` → `http`.
fn file_name(file: &str) -> String {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let name = stem.rsplit('/').find(|part| !matches!(*part, "main" | "lib" | "mod" | "src")).unwrap_or("app");
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    if is_name(&name) { name } else { format!("ns_{name}") }
}
