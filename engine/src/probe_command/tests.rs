//! What holds for all shapes.

use std::path::{Path, PathBuf};

use engine_config::Settings;
use kitbag::{Class, ConfigNamespaces, Facts, export};
use sha2::{Digest, Sha256};

use super::baseline::{Entry, bless, check};
use super::document::{Document, document, loader};
use super::mutants::{RESOLVERS, RULES, name_of};
use super::shapes::{Shape, Shapes};

fn shapes() -> Shapes {
    Shapes::embedded().expect("the list is sound")
}

fn entries(shapes: &Shapes) -> Vec<Entry> {
    shapes.all().iter().map(Entry::of_settings).collect()
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("probe/baseline")
}

#[test]
fn all_shapes_are_as_committed() {
    let report = check(&entries(&shapes()), &committed());
    let faults: String = report.faults.iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{faults}if that is meant: engine config probe --bless");
    assert_eq!(report.accepted + report.refused, shapes().all().len());
}

#[test]
fn the_first_62_are_frozen() {
    let shapes = shapes();
    let mut hash = Sha256::new();
    for Shape { number, name, argv, facts, hardware, model } in &shapes.all()[..62] {
        let line = format!("{number} {name} {hardware} {model} {} {argv:?}\n", facts.cpus());
        hash.update(line);
    }
    let hash = hash.finalize();
    assert_eq!(hash[..4], [0x36, 0xd2, 0xe3, 0x77], "the 62 stay as they are; add a shape to extra.toml");
    assert!(shapes.all().iter().all(|shape| !shape.argv.iter().any(|word| word.starts_with("--config"))));
}

#[test]
fn a_dropped_rule_changes_a_shape() {
    assert!(RULES <= RESOLVERS.len(), "{RULES} rules: add numbers to mutants.rs");
    let shapes = shapes();
    let normal: Vec<_> = shapes.all().iter().map(document::<Settings>).collect();
    // The ends of ranges are at the end of the list, so that they are found first.
    let differs = |resolve: &fn(&Shape) -> Document| {
        shapes.all().iter().zip(&normal).rev().find(|(shape, normal)| resolve(shape) != **normal)
    };
    let silent = RESOLVERS[..RULES].iter().enumerate().filter(|(_, resolve)| differs(resolve).is_none());
    let silent: Vec<_> = silent.map(|(rule, _)| name_of(rule)).collect();
    assert!(silent.is_empty(), "no shape notices that these rules are gone, add one to extra.toml: {silent:#?}");
    // The schema taken apart and put together again is the same one.
    if let Some(intact) = RESOLVERS.get(RULES) {
        assert!(differs(intact).is_none());
    }
}

#[test]
fn a_resolved_document_is_a_file_that_resolves_to_itself() {
    let mut resolved = 0;
    for shape in shapes().all() {
        let Document::Resolved(settings) = document::<Settings>(shape) else { continue };
        resolved += 1;
        let is_set = |path: &str| Settings::SCHEMA.leaf(path).is_some_and(|leaf| leaf.class != Class::Derived);
        let lines = settings.iter().filter(|(path, _)| is_set(path));
        let file: String = lines.map(|(path, value)| export::toml_line(path, value) + "\n").collect();
        // What was settled does not depend on the machine any more.
        let facts = Facts::for_test().with_cpus(shape.facts.cpus() + 1);
        let again = Document::of(Settings::loader().text("dump.toml", file).facts(facts).resolve());
        assert_eq!(again.json(), Document::Resolved(settings).json(), "{}", shape.id());
    }
    assert!(resolved > 0);
}

#[test]
fn resolving_twice_gives_the_same_bytes_and_no_help() {
    for shape in shapes().all() {
        let loader = loader::<Settings>(shape);
        assert_eq!(Document::of(loader.resolve()).json(), Document::of(loader.resolve()).json());
        assert_ne!(document::<Settings>(shape), Document::Refused(Vec::new()), "{}", shape.id());
    }
}

#[test]
fn a_check_names_shape_leaf_and_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let entries = entries(&shapes());
    let files = bless(&entries, folder.path()).expect("writes");
    assert!(files > entries.len(), "provenance is written too");
    assert_eq!(bless(&entries, folder.path()).expect("writes"), 0);
    let told = || -> String { check(&entries, folder.path()).faults.iter().map(ToString::to_string).collect() };
    assert_eq!(told(), "");
    let file = folder.path().join("01-dense-80gb.json");
    let text = std::fs::read_to_string(&file).expect("reads");
    let other = text.replace("\"exec.threads\": 26", "\"exec.threads\": 25");
    std::fs::write(&file, &other).expect("writes");
    assert_eq!(told(), "01-dense-80gb\n  exec.threads: 25 -> 26\n");
    std::fs::write(&file, text.trim_end()).expect("writes");
    assert_eq!(told(), "01-dense-80gb\n  the same values, written in another form\n");
    assert_eq!(bless(&entries, folder.path()).expect("writes"), 1, "what has changed is written anew");
    assert_eq!(told(), "");
    std::fs::write(&file, "{").expect("writes");
    assert!(told().starts_with("01-dense-80gb\n") && told().contains("01-dense-80gb.json: EOF"), "{}", told());
    std::fs::remove_file(&file).expect("removes");
    for name in ["99-gone.json", "99-gone.origins", "notes.md"] {
        std::fs::write(folder.path().join(name), "").expect("writes");
    }
    assert!(told().contains("01-dense-80gb.json: "), "{}", told());
    let stale = "99-gone.json\n  no shape has this file\n99-gone.origins\n  no shape has this file\n";
    assert!(told().ends_with(stale), "{}", told());
    assert_eq!(bless(&entries, folder.path()).expect("writes"), 3);
    assert_eq!(told(), "");
    assert!(folder.path().join("notes.md").exists(), "what is no document is nobody's business");
    // What cannot be written is an error.
    std::fs::remove_file(&file).and_then(|()| std::fs::create_dir(&file)).expect("a folder in its place");
    assert!(bless(&entries, folder.path()).is_err());
}
