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

#[test]
fn circles_of_types_end() {
    let text = "
        pub struct Args { port: u16 }
        type Loop = Loop;
        type Here = There;
        type There = Here;
        type Result<T> = std::result::Result<T, String>;
        struct A(u8);
        struct B(u8);
        impl std::ops::Deref for A { type Target = B; }
        impl std::ops::Deref for B { type Target = A; }
        fn f(a: Loop, b: Here, c: A, args: Result<Args>) -> u16 {
            let again = |x| again(x);
            again(a);
            a.port + b.port + c.port + c.other() + args.unwrap().port
        }
    ";
    let census = scan(&Sources::from_texts(&[("src/main.rs", text)]).unwrap(), "Args").unwrap();
    assert_eq!(census.leaf_reads().count(), 1);
    let unfollowed: Vec<_> = census.unfollowed.iter().map(|use_| use_.place.column).collect();
    assert_eq!(unfollowed, [15, 24]);
}

/// Each way a whole struct can go on has its own words.
#[test]
fn the_ways_of_the_whole_struct_are_told_apart() {
    let source = Sources::read(&marks::folder("routes")).unwrap();
    let census = scan(&source, "settings::Args").unwrap();
    let ways: BTreeSet<_> = census
        .reads
        .iter()
        .filter(|read| read.place.file == "src/escapes.rs")
        .filter_map(|read| match &read.what {
            What::Whole(how) => Some(how.as_str()),
            What::Leaf(_) => None,
        })
        .collect();
    let expected = [
        "cloned",
        "compared",
        "passed to `std::mem::size_of_val`",
        "printed by `println!`",
        "returned",
        "stored by `replace`",
        "stored in `Args` by `..`",
        "stored in `Server.args`",
        "stored in an array",
    ];
    assert_eq!(ways.into_iter().collect::<Vec<_>>(), expected);
}
