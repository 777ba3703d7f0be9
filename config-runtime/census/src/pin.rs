//! The pin: how many reads of each field each file has. Reads can only become fewer, and the pin follows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::census::{Census, Place};

/// Kind, file and field.
type Key = (String, String, String);

/// The pin of a census: one line per kind, file and field.
pub fn text(census: &Census) -> String {
    let mut text = format!(
        "# Uses of `{}` that remain: kind, file, field, count. Made by `kitbag-census pin`; counts only go down.\n",
        census.name
    );
    for ((kind, file, field), places) in counts(census) {
        let _ = writeln!(text, "{kind} {file} {field} {}", places.len());
    }
    text
}

/// Compares a census with a pin, both ways. `repin` is the command that writes the pin anew.
///
/// # Errors
/// Every use that was added, with the places that it may be, and every one that is gone while the pin still allows it.
pub fn check(census: &Census, pin: &str, repin: &str) -> Result<(), Vec<String>> {
    let pinned = parse(pin).map_err(|fault| vec![fault])?;
    let found = counts(census);
    let mut faults = Vec::new();
    for ((kind, file, field), places) in &found {
        let allowed = pinned.get(&(kind.clone(), file.clone(), field.clone())).copied().unwrap_or(0);
        if places.len() > allowed {
            let places: Vec<_> = places.iter().map(ToString::to_string).collect();
            faults.push(format!(
                "added: {kind} of `{field}` in {file}: {allowed} pinned, {} found, at {}. Take the value from a context \
                 instead.",
                places.len(),
                places.join(", ")
            ));
        }
    }
    let mut fewer = false;
    for (key, allowed) in &pinned {
        let left = found.get(key).map_or(0, Vec::len);
        if left < *allowed {
            let (kind, file, field) = key;
            faults.push(format!("gone: {kind} of `{field}` in {file}: {allowed} pinned, {left} found"));
            fewer = true;
        }
    }
    if fewer {
        faults.push(format!("uses that are gone must not come back: lower the pin with `{repin}` and commit it"));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn counts(census: &Census) -> BTreeMap<Key, Vec<&Place>> {
    let mut counts: BTreeMap<Key, Vec<&Place>> = BTreeMap::new();
    let reads = census.reads.iter().map(|read| ("read", read.what.field(), &read.place));
    let writes = census.writes.iter().map(|write| ("write", write.field.as_str(), &write.place));
    let unfollowed = census.unfollowed.iter().map(|use_| ("unfollowed", use_.field.as_str(), &use_.place));
    for (kind, field, place) in reads.chain(writes).chain(unfollowed) {
        counts.entry((kind.to_owned(), place.file.clone(), field.to_owned())).or_default().push(place);
    }
    counts
}

fn parse(pin: &str) -> Result<BTreeMap<Key, usize>, String> {
    let mut pinned = BTreeMap::new();
    for (index, line) in pin.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse_line(line).ok_or_else(|| {
            format!("line {} of the pin: expected `kind file field count`, found `{line}`", index + 1)
        })?;
        pinned.insert(entry.0, entry.1);
    }
    Ok(pinned)
}

/// A file's name may have spaces; the words around it have none.
fn parse_line(line: &str) -> Option<(Key, usize)> {
    let (kind, rest) = line.split_once(' ')?;
    let (rest, count) = rest.rsplit_once(' ')?;
    let (file, field) = rest.rsplit_once(' ')?;
    Some(((kind.to_owned(), file.to_owned(), field.to_owned()), count.parse().ok()?))
}
