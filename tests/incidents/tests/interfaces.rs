//! Files, readbacks, and names that others rely on.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors, Facts, Loader, Snapshot, export};
use kitbag_census::{Sources, scan};

fn loader() -> Loader<Engine> {
    Engine::loader().facts(Facts::for_test())
}

fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Incident 53: a scan of reads skipped a file that began with a byte-order mark, and counted less in silence. The census
/// counts a file with a mark like any other, and a file that it cannot read is an error, never a smaller number.
#[test]
fn a_census_has_no_holes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"engine\"\n").unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    write("src/lib.rs", b"mod pool;\npub struct Args { pub workers: usize, pub queue: usize }\n");
    let reader = "fn room(args: &crate::Args) -> usize { args.workers * args.queue }\n";
    let reads = || scan(&Sources::read(folder.path())?, "Args").map(|census| census.leaf_reads().count());
    write("src/pool.rs", reader.as_bytes());
    assert_eq!(reads(), Ok(2));
    write("src/pool.rs", format!("\u{feff}{reader}").as_bytes());
    assert_eq!(reads(), Ok(2));
    write("src/pool.rs", format!("{reader}}}").as_bytes());
    assert!(reads().is_err_and(|error| error.starts_with("src/pool.rs:2:1: ")));
    write("src/pool.rs", b"\xff");
    assert!(reads().is_err_and(|error| error.contains("src/pool.rs: ")));
}

/// Incident 53, for settings: a file with such a mark is read whole, and what cannot be read is an error.
#[test]
fn a_byte_order_mark_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.toml");
    std::fs::write(&path, "\u{feff}[schedule]\nchunk = 64\n[serving]\nport = 9\n").unwrap();
    let cfg = loader().file(&path).load().unwrap();
    assert_eq!((*cfg.pin().schedule().chunk(), cfg.pin().serving().port()), (64, 9));
    std::fs::write(&path, "\u{feff}[schedule]\nchunks = 64\n").unwrap();
    let errors = loader().file(&path).load().unwrap_err();
    assert!(errors.to_string().contains("did you mean `schedule.chunk`?"), "{errors}");
    std::fs::write(&path, b"[schedule]\nchunk = 64 # \xff").unwrap();
    assert!(loader().file(&path).load().unwrap_err().to_string().contains("not UTF-8"));
}

/// Incident 54 (PR 36622): a memo of the model's parsed configuration sat beside the fields and was taken for one. What
/// is published here is what the schema declares, on every surface.
#[test]
fn the_schema_is_all_there_is() {
    let declared: Vec<_> = Engine::for_test(|_| {}).values().into_iter().map(|(path, _)| path).collect();
    assert_eq!(declared.len(), Engine::SCHEMA.len());
    let reference = export::markdown::<Engine>();
    let sent = serde_json::to_value(Engine::for_test(|_| {}).snapshot()).unwrap();
    let sent: Vec<_> = sent["leaves"].as_object().unwrap().keys().collect();
    for path in &declared {
        let name = path.rsplit('.').next().unwrap();
        assert!(reference.contains(name), "{path}");
    }
    assert!(sent.iter().all(|path| declared.contains(&path.as_str())), "{sent:?}");
}

/// Incident 56 (Dynamo 13347, 13522, 13905, 14800): programs around the engine relied on private names and on
/// assignment, and a stand-in object invented what was missing. Here an old file goes on to work or is refused in
/// words; nothing is invented.
#[test]
fn an_older_file_works_or_is_refused_in_words() {
    let old = "[schedule]\npage = 8\n[model]\npath = \"m\"\n";
    let cfg = loader().text("old.toml", old).load().unwrap();
    assert_eq!((cfg.pin().schedule().page_size(), cfg.pin().model().path()), (8, "m"));
    let older = "[parallel]\nworld_size = 8\n[serving]\ntool_server = \"x\"\n";
    assert_eq!(
        lines(&loader().text("older.toml", older).load().unwrap_err()),
        [
            "older.toml:2:14: parallel.world_size: this setting is gone: it meant two things; give parallel.tp and \
             parallel.pp, or parallel.max_ep",
            "older.toml:4:1: no setting is called `serving.tool_server`; did you mean `serving.parser`?",
        ]
    );
    assert!(serde_json::from_str::<Snapshot>("{\"leaves\":{}}").is_err());
}

/// Incident 57 (PRs 33238, 36254): four readbacks were put together in four places; one lacked a fallback that had been
/// taken, one said "none" for a value that was in use. Here all of them read one epoch.
#[test]
fn all_readbacks_say_the_same() {
    let cfg = loader().text("engine.toml", "[spec]\ncandidates = [4]\n").load().unwrap();
    let _guard = cfg
        .override_with("fallback", |o| {
            o.spec().steps(3);
            o.model().version("2");
        })
        .unwrap();
    let received = cfg.snapshot().publish::<Engine>().unwrap();
    let debug = format!("{cfg:?}");
    let paths = cfg.values();
    for (path, value) in &paths {
        let text = value.to_string();
        assert_eq!(cfg.value(path).as_ref(), Some(value), "{path}");
        assert_eq!(cfg.explain(path).unwrap().value(), text, "{path}");
        assert_eq!(received.value(path).as_ref(), Some(value), "{path}");
        assert!(debug.contains(&format!("{path}: {text}")), "{path} in {debug}");
    }
    assert_eq!((*cfg.pin().spec().steps(), cfg.pin().model().version().as_str()), (3, "2"));
    assert_eq!(cfg.fingerprint(), received.fingerprint());
}

/// Issue 38550 and the code beside it: a switch could not be turned off in a file, `false` was dropped, `--config=file`
/// was ignored, and an unknown key got the argument parser's general complaint.
#[test]
fn files_say_everything_that_flags_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.toml");
    std::fs::write(&path, "[memory]\nradix_cache = false\n").unwrap();
    let joined = format!("--config={}", path.display());
    let split = ["engine", "--config", path.to_str().unwrap()];
    for cfg in [loader().args(["engine", &joined]).load(), loader().args(split).load()] {
        assert!(!cfg.unwrap().pin().memory().radix_cache());
    }
    let on = loader().args(["engine", &joined, "--radix-cache"]).load().unwrap();
    assert!(on.pin().memory().radix_cache());
    std::fs::write(&path, "[memory]\nradix_cash = false\n").unwrap();
    let errors = loader().args(["engine", &joined]).load().unwrap_err();
    let expected = "engine.toml:2:1: no setting is called `memory.radix_cash`; did you mean `memory.radix_cache`?";
    assert!(errors.to_string().ends_with(expected), "{errors}");
}
