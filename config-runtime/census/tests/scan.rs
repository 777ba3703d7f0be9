//! Reads of the fixtures, each at its place.

mod marks;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use kitbag_census::census::{Route, What};
use kitbag_census::{Census, Sources, scan};

fn census(fixture: &str) -> Census {
    scan(&Sources::read(&marks::folder(fixture)).unwrap(), "Args").unwrap()
}

#[test]
fn fixtures_compile() {
    let folder = tempfile::tempdir().unwrap();
    for fixture in ["aliases", "routes"] {
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "--emit", "metadata", "--cap-lints", "allow", "--out-dir"]).arg(folder.path());
        let output = rustc.arg(marks::folder(fixture).join("src/main.rs")).output().unwrap();
        assert!(output.status.success(), "{fixture}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_read_through_an_alias_is_found_at_its_place() {
    let census = census("aliases");
    let (expected, found) = (marks::expected("aliases"), marks::found(&census));
    assert!(expected == found, "{}", marks::difference(&expected, &found));

    let aliases: Vec<_> = census.reads.iter().filter(|read| read.route == Route::Alias).collect();
    let files: BTreeSet<_> = aliases.iter().map(|read| &read.place.file).collect();
    let leaves = aliases.iter().filter(|read| matches!(read.what, What::Leaf(_))).count();
    assert_eq!((aliases.len(), files.len(), leaves), (57, 11, 52));
    assert_eq!(census.unfollowed, []);
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for read in aliases {
        if let What::Leaf(leaf) = &read.what {
            *groups.entry(leaf.split('_').next().unwrap()).or_default() += 1;
        }
    }
    let expected = [
        ("disagg", 4),
        ("graph", 5),
        ("mamba", 2),
        ("memory", 7),
        ("model", 3),
        ("moe", 5),
        ("overlap", 2),
        ("parallel", 4),
        ("schedule", 9),
        ("spec", 11),
    ];
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn every_route_is_found_at_its_place() {
    let source = Sources::read(&marks::folder("routes")).unwrap();
    let census = scan(&source, "settings::Args").unwrap();
    let (expected, found) = (marks::expected("routes"), marks::found(&census));
    assert!(expected == found, "{}", marks::difference(&expected, &found));
}
