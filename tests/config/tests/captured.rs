//! Fingerprints, recorders, snapshots.

use config_tests::{Exec, Schedule, Service};
use kitbag::{ConfigNamespaces, Fingerprint, Snapshot};

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    exec: Exec,
    #[config(nested)]
    service: Service,
    /// No part of any key.
    #[config(ns = "log", default = 1, hot, cache_key = false)]
    level: u8,
}

/// The same names with another default.
mod other {
    use kitbag::ConfigNamespaces;

    #[derive(ConfigNamespaces)]
    pub(super) struct Args {
        /// Level.
        #[config(ns = "log", default = 2)]
        level: u8,
    }
}

type Setters = ArgsSetters<kitbag::ChildContext>;

#[test]
fn flipping_each_leaf_changes_the_key_if_and_only_if_it_was_read() {
    type Flip = (&'static str, fn(&mut Setters));
    let flips: [Flip; 8] = [
        ("schedule.page_size", |o| o.schedule().page_size(32)),
        ("schedule.chunk", |o| o.schedule().chunk(64)),
        ("exec.device", |o| o.exec().device(config_tests::Device::Cpu)),
        ("exec.kernel.block_rows", |o| o.exec().kernel().block_rows(32)),
        ("exec.kernel.eager", |o| o.exec().kernel().eager(false)),
        ("service.title", |o| o.service().title("other")),
        ("service.temperature", |o| o.service().temperature(1.0)),
        ("log.level", |o| o.log().level(9)),
    ];
    let cfg = Args::for_test(|_| {});
    let build = |now: &ArgsRecording| {
        (
            *now.schedule().chunk(),
            now.exec().kernel().block_rows(),
            *now.exec().kernel().block_bytes(),
            now.exec().device(),
        )
    };
    let (built, captured) = cfg.capture(build);
    assert_ne!(cfg.capture(|now| *now.schedule().chunk()).1, captured, "less was read");
    assert_eq!((built.0, built.1, built.2), (512, 64, 8192));
    assert_eq!(
        captured.leaves(),
        ["schedule.chunk", "exec.device", "exec.kernel.block_rows", "exec.kernel.block_bytes"]
    );
    for (path, flip) in flips {
        let flipped = cfg.child("flipped", flip).unwrap();
        let read = captured.leaves().contains(&path);
        assert_eq!(captured.is_current(&flipped), !read, "{path}");
        assert_eq!(flipped.capture(build).1 == captured, !read, "{path}");
        assert_eq!(flipped.capture(build).1.fingerprint() != captured.fingerprint(), read, "{path}");
        let in_fingerprint = path != "log.level";
        assert_eq!(flipped.fingerprint() != cfg.fingerprint(), in_fingerprint, "{path}");
    }
}

#[test]
fn equal_settings_have_equal_fingerprints() {
    let fingerprint = Args::for_test(|_| {}).fingerprint();
    assert_eq!(fingerprint, Args::for_test(|_| {}).fingerprint());
    assert_eq!(fingerprint.to_string().parse::<Fingerprint>(), Ok(fingerprint));
    assert_eq!(fingerprint.to_string().len(), 32);
}

#[test]
fn a_snapshot_carries_overrides_and_refuses_another_schema() {
    let cfg = Args::for_test(|o| {
        o.exec().kernel().cache_dir(Some("/k".into()));
        o.service().allow(vec!["a,b".to_owned(), String::new()]);
    });
    let _guard = cfg.override_with("burst", |o| o.schedule().chunk(99)).unwrap();
    let json = serde_json::to_string(&cfg.snapshot()).unwrap();
    let received: Snapshot = serde_json::from_str(&json).unwrap();
    let child = received.publish::<Args>().unwrap();
    assert_eq!((child.values(), child.fingerprint()), (cfg.values(), cfg.fingerprint()));
    let origin = child.explain("schedule.chunk").unwrap().origin().to_owned();
    assert!(origin.starts_with("parent process: override 0 \"burst\" ("), "{origin}");
    let error = received.publish::<other::Args>().unwrap_err().to_string();
    assert!(error.contains("made by another schema") && error.contains("same build"), "{error}");
    let damaged = json.replacen("\"schedule.chunk\":{\"value\":99", "\"schedule.chunk\":{\"value\":0", 1);
    let error = serde_json::from_str::<Snapshot>(&damaged).unwrap().publish::<Args>().unwrap_err().to_string();
    assert!(error.contains("schedule.chunk: 0 is outside 1.."), "{error}");
}
