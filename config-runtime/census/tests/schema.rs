//! The proposed schema: what it says, and that it compiles and loads as it is.

use std::path::{Path, PathBuf};

use kitbag::ConfigNamespaces;
use kitbag_census::{Sources, scan, schema};

/// Made by `kitbag-census schema` from the fixture of the same name.
#[path = "proposed/schema.rs"]
#[allow(clippy::struct_field_names, dead_code, missing_docs, unreachable_pub)]
mod proposed;

#[path = "proposed/aliases.rs"]
#[allow(clippy::struct_field_names, dead_code, missing_docs, unreachable_pub)]
mod proposed_for_aliases;

fn folder(fixture: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture)
}

fn propose(fixture: &str) -> String {
    let sources = Sources::read(&folder(fixture)).unwrap();
    schema::propose(&sources, &scan(&sources, "Args").unwrap())
}

#[test]
fn the_proposal_is_what_is_compiled_here() {
    for fixture in ["schema", "aliases"] {
        let path = folder("../proposed").join(format!("{fixture}.rs"));
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(propose(fixture), kept, "{}", path.display());
    }
}

#[test]
fn the_proposal_loads_with_the_defaults_of_the_program() {
    let required = ["--max-shape=x", "--max-threads=2", "--started=1s"];
    let args = ["thumbs"].into_iter().chain(required);
    let context = proposed::Args::loader().args(args).load().unwrap();
    let now = context.pin();
    assert_eq!(now.pool().workers(), 4);
    assert_eq!(now.pool().queue(), 32);
    assert_eq!(now.pool().timeout(), std::time::Duration::from_secs(30));
    assert_eq!(now.work().device(), proposed::Device::CudaGraph);
    assert_eq!(now.work().offset(), -16);
    assert_eq!(now.http().max_size(), Some(4096));
    assert_eq!(now.log().level(), "info");

    let spelled = ["thumbs", "--queue-length=5", "--device=gpu", "--order=longest_prefix", "--pool-workers=64"];
    let context = proposed::Args::loader().args(spelled.into_iter().chain(required)).load().unwrap();
    assert_eq!(context.pin().pool().queue(), 5);
    assert_eq!(context.pin().work().order(), proposed::Order::LongestPrefix);
    let refused = ["thumbs", "--pool-workers=65"].into_iter().chain(required);
    assert!(proposed::Args::loader().args(refused).load().is_err());
}

#[test]
fn the_proposal_for_the_aliases_loads() {
    let context = proposed_for_aliases::Args::loader().args(["server", "--parallel-tensor=2"]).load().unwrap();
    let now = context.pin();
    assert_eq!((now.parallel().tensor(), now.memory().pages(), now.disagg().mode()), (2, 65536, Some("null")));
}
