//! Aliases, deprecated and retired names, own variables, a leaf's own check, secrets, resolution-only leaves.

use std::time::Duration;

use kitbag::{ConfigNamespaces, Errors, Facts, Loader, Secret};

/// A service.
#[derive(ConfigNamespaces)]
#[config(env = "APP", retired(pool.threads = "removed in 0.4; use pool.workers", cache.size_mb = "give pool.queue"))]
struct Args {
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, range = 1..=4096, alias("pool.places", "queue.length"))]
    queue: usize,
    /// Former name of the patience, in seconds.
    #[config(ns = "pool", deprecated(since = "0.3", use = "pool.patience", remove_in = "0.5", map = seconds))]
    timeout_secs: u64,
    /// How long a job may wait.
    #[config(ns = "pool", default = "5s", hot)]
    patience: Duration,
    /// Proxy.
    #[config(ns = "http", env = "HTTP_PROXY")]
    proxy: Option<String>,
    /// A power of two.
    #[config(ns = "pool", default = 8, validate = power_of_two, hot)]
    width: usize,
    /// Still there, but on its way out.
    #[config(ns = "pool", default = false, deprecated(since = "0.2"))]
    legacy: bool,
    /// Token of the store.
    #[config(ns = "store", secret)]
    token: Secret<String>,
    /// Another.
    #[config(ns = "store")]
    pin: Option<Secret<u32>>,
    /// Read by a rule only.
    #[config(ns = "pool", default = 2, resolution_only)]
    per_cpu: usize,
    /// Worker threads.
    #[config(ns = "pool", auto = workers(pool.per_cpu, facts), cache_key = false)]
    workers: usize,
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn power_of_two(width: usize) -> Result<(), String> {
    if width.is_power_of_two() { Ok(()) } else { Err(format!("{width} is not a power of two")) }
}

fn workers(per_cpu: usize, facts: &Facts) -> usize {
    per_cpu * facts.cpus()
}

fn loader() -> Loader<Args> {
    Args::loader().facts(Facts::for_test()).env([("APP_STORE_TOKEN", "hunter2")])
}

fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn aliases_work_in_every_source() {
    for loader in [
        loader().text("app.toml", "[pool]\nplaces = 7"),
        loader().text("app.toml", "[queue]\nlength = 7"),
        loader().env([("APP_POOL_PLACES", "7")]),
        loader().env([("APP_QUEUE_LENGTH", "7")]),
        loader().args(["app", "--places", "7"]),
        loader().args(["app", "--length=7"]),
    ] {
        let cfg = loader.load().unwrap();
        assert_eq!(cfg.pin().pool().queue(), 7);
        assert!(cfg.warnings().is_empty());
    }
}

#[test]
fn two_names_of_one_leaf_in_one_source_are_a_mistake() {
    let errors = loader().text("app.toml", "[pool]\nqueue = 7\nplaces = 8").load().unwrap_err();
    assert_eq!(lines(&errors), ["app.toml:3:10: pool.queue: given twice; the other name is at app.toml:2:9"]);
    let errors = loader().args(["app", "--queue=1", "--places=2"]).load().unwrap_err();
    assert!(errors.to_string().contains("given twice"), "{errors}");
    // In different sources precedence decides, as always.
    let cfg = loader().text("app.toml", "[pool]\nqueue = 7").args(["app", "--places=9"]).load().unwrap();
    assert_eq!(cfg.pin().pool().queue(), 9);
}

#[test]
fn a_deprecated_name_is_converted_with_a_warning() {
    for (loader, place) in [
        (loader().text("app.toml", "[pool]\ntimeout_secs = 90"), "app.toml:2:16"),
        (loader().env([("APP_POOL_TIMEOUT_SECS", "90")]), "APP_POOL_TIMEOUT_SECS"),
        (loader().args(["app", "--timeout-secs", "90"]), "--timeout-secs"),
    ] {
        let cfg = loader.load().unwrap();
        assert_eq!(cfg.pin().pool().patience(), Duration::from_secs(90));
        let warnings: Vec<_> = cfg.warnings().iter().map(ToString::to_string).collect();
        let expected = format!("{place}: pool.timeout_secs: deprecated since 0.3, removed in 0.5; use `pool.patience`");
        assert_eq!(warnings, [expected]);
    }
    let errors = loader().text("app.toml", "[pool]\ntimeout_secs = \"soon\"").load().unwrap_err();
    assert_eq!(lines(&errors), ["app.toml:2:16: pool.timeout_secs: expected an integer, 0 or more"]);
    let legacy = loader().args(["app", "--legacy"]).load().unwrap();
    assert!(legacy.pin().pool().legacy() && legacy.warnings()[0].to_string().contains("deprecated since 0.2"));
}

#[test]
fn retired_names_are_refused_with_advice() {
    let errors = loader()
        .text("app.toml", "[pool]\nthreads = 3\n[cache]\nsize_mb = 1")
        .env([("APP_POOL_THREADS", "3")])
        .args(["app", "--threads", "3"])
        .load()
        .unwrap_err();
    let mut found = lines(&errors);
    found.sort();
    assert_eq!(
        found,
        [
            "--threads: pool.threads: this setting is gone: removed in 0.4; use pool.workers",
            "APP_POOL_THREADS: pool.threads: this setting is gone: removed in 0.4; use pool.workers",
            "app.toml:2:11: pool.threads: this setting is gone: removed in 0.4; use pool.workers",
            "app.toml:4:11: cache.size_mb: this setting is gone: give pool.queue",
        ]
    );
}

#[test]
fn a_leaf_may_have_a_variable_of_its_own() {
    let cfg = loader().env([("HTTP_PROXY", "proxy:3128"), ("HTTPS_PROXY", "x")]).load().unwrap();
    assert_eq!(cfg.pin().http().proxy(), Some("proxy:3128"));
    let errors = loader().env([("APP_HTTP_PROXY", "proxy:3128")]).load().unwrap_err();
    assert!(errors.to_string().contains("APP_HTTP_PROXY: no setting has this environment variable"), "{errors}");
}

#[test]
fn a_leafs_own_check_holds_for_sources_and_overrides() {
    let errors = loader().args(["app", "--width", "12"]).load().unwrap_err();
    assert_eq!(lines(&errors), ["--width: pool.width: 12 is not a power of two"]);
    let cfg = loader().load().unwrap();
    assert!(cfg.override_with("x", |o| o.pool().width(9)).is_err());
    assert_eq!(*cfg.pin().pool().width(), 8);
}

#[test]
fn a_resolution_only_leaf_is_read_by_its_rule() {
    let cfg = loader().args(["app", "--per-cpu", "5"]).load().unwrap();
    assert_eq!(cfg.pin().pool().workers(), 10);
}

#[test]
fn no_output_shows_a_secret() {
    let sources = loader().text("app.toml", "[store]\npin = 987654").args(["app", "--token", "correct horse"]);
    let record = sources.clone().record().unwrap();
    let record_text = format!("{record:?}");
    let resolved = record.resolve(&Facts::for_test()).unwrap();
    let resolved_text = format!("{resolved:?}");
    let cfg = resolved.publish();
    let now = cfg.pin();
    assert_eq!(
        (now.store().token().expose().as_str(), now.store().pin().map(Secret::expose)),
        ("correct horse", Some(&987_654))
    );
    let child = cfg.child("child", |o| o.store().token(Secret::new("battery staple".to_owned()))).unwrap();
    let mut outputs = vec![
        record_text,
        resolved_text,
        format!("{cfg:?} {child:?} {:?} {:?}", now.store(), cfg.snapshot()),
        format!("{:?} {:?}", cfg.values(), cfg.value("store.token")),
        cfg.history().iter().map(ToString::to_string).collect(),
    ];
    for path in ["store.token", "store.pin"] {
        outputs.push(format!("{} {}", cfg.explain(path).unwrap(), child.explain(path).unwrap()));
    }
    let wrong = loader().env([("APP_STORE_PIN", "not-a-number-123")]).text("a.toml", "[store]\npin = \"wrong-987\"");
    let errors = wrong.load().unwrap_err();
    outputs.push(errors.to_string());
    outputs.push(loader().args(["app", "--help"]).load().unwrap_err().to_string());
    for output in outputs {
        for secret in ["hunter2", "correct horse", "battery staple", "987654", "not-a-number-123", "wrong-987"] {
            assert!(!output.contains(secret), "{secret} in {output}");
        }
    }
    assert!(
        errors.to_string().contains(
            "expected a secret: an integer from 0 to 4294967295 (or empty for none); the value given is not shown"
        ),
        "{errors}"
    );
}
