//! What messages say: ranges as a user types them, what a rule was given, the setting that was meant, no more than fits.

use std::collections::BTreeMap;
use std::time::Duration;

use kitbag::{ByteSize, ConfigNamespaces, Errors, Facts, Loader, export};

const LONGEST: Duration = Duration::from_secs(90);

/// A service.
#[derive(ConfigNamespaces)]
#[config(
    env = "APP",
    derived(pool.memory: ByteSize = memory(pool.queue, pool.body)),
    validate(few(http.hosts)),
    retired(pool.threads = "use pool.queue")
)]
struct Args {
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, range = 1..=4_096, hot, alias = "pool.places")]
    queue: u64,
    /// Largest body.
    #[config(ns = "pool", default = "64KiB", range = ByteSize(1 << 10).., hot)]
    body: ByteSize,
    /// How long a client may wait.
    #[config(ns = "http", default = "30s", range = Duration::from_millis(10)..=LONGEST, hot, flag = "give-up")]
    timeout: Duration,
    /// Share of clients.
    #[config(ns = "http", default = 0.5, range = 0.0..1.0, hot)]
    share: f32,
    /// Hosts.
    #[config(ns = "http", default = "a", hot)]
    hosts: Vec<String>,
    /// Headers.
    #[config(ns = "http", default = "", hot)]
    headers: BTreeMap<String, String>,
    /// Proxy.
    #[config(ns = "http", env = "HTTP_PROXY")]
    proxy: Option<String>,
    /// Keep jobs on disk.
    #[config(ns = "pool", default = true, alias = "pool.no_disk")]
    disk: bool,
}

#[expect(clippy::arithmetic_side_effects, reason = "a fault of the program")]
fn memory(queue: u64, body: ByteSize) -> ByteSize {
    ByteSize(queue * body.0)
}

fn few(hosts: &[String]) -> Result<(), String> {
    if hosts.len() < 1000 { Ok(()) } else { Err("too many hosts".to_owned()) }
}

fn loader() -> Loader<Args> {
    Args::loader().facts(Facts::for_test())
}

fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_range_is_shown_as_it_is_typed() {
    let refused = |args: [&str; 3]| lines(&loader().args(args).load().unwrap_err()).join("\n");
    assert_eq!(refused(["app", "--give-up", "2m"]), "--give-up: http.timeout: \"120s\" is outside 10ms..=90s");
    assert_eq!(refused(["app", "--body", "1"]), "--body: pool.body: \"1B\" is outside 1KiB..");
    assert_eq!(refused(["app", "--queue", "0"]), "--queue: pool.queue: 0 is outside 1..=4096");
    assert_eq!(refused(["app", "--share", "1"]), "--share: http.share: 1.0 is outside 0.0..1.0");

    let help = loader().args(["app", "--help"]).load().unwrap_err().to_string();
    assert!(help.contains("[range: 10ms..=90s]") && help.contains("[range: 1KiB..]"), "{help}");
    let documents = [
        export::markdown::<Args>(),
        export::toml_template::<Args>(),
        export::json_schema::<Args>(),
        export::listing::<Args>(),
    ];
    for document in documents {
        assert!(document.contains("10ms..=90s"), "{document}");
        assert!(!document.contains("LONGEST") && !document.contains("from_millis"), "{document}");
    }
}

#[test]
fn a_rule_that_panics_shows_what_it_was_given() {
    let cfg = Args::for_test(|_| {});
    let errors = cfg.override_by_name("admin", &[("pool.body", "16777215TiB")]).unwrap_err();
    assert_eq!(
        lines(&errors),
        ["rule `memory`: pool.memory: it panicked: attempt to multiply with overflow \
         (pool.queue = 32, pool.body = \"16777215TiB\")"]
    );
}

#[test]
fn values_beyond_all_measure_are_shown_in_part() {
    let long = "ä".repeat(1 << 20);
    let cases = [
        loader().args(["app".to_owned(), format!("--queue={long}")]),
        loader().env([("APP_HTTP_TIMEOUT", &long)]),
        loader().text("app.toml", format!("[http]\nshare = '{long}'")),
        loader().text("app.toml", format!("[http]\nhosts = '{long}'")),
        loader().args(["app".to_owned(), format!("--hosts={}", vec!["host"; 5000].join(","))]),
    ];
    for loader in cases {
        let error = lines(&loader.load().unwrap_err()).join("\n");
        assert!(error.len() < 1000 && error.contains("… (") && error.contains(" bytes)"), "{error}");
    }
}

#[test]
fn an_admin_is_told_which_setting_was_meant() {
    let cfg = Args::for_test(|_| {});
    let told = |path: &str| {
        let set = lines(&cfg.override_by_name("admin", &[(path, "5")]).unwrap_err()).join("\n");
        assert_eq!(lines(&cfg.end_permanent("admin", &[path]).unwrap_err()).join("\n"), set);
        let planned: Vec<_> =
            cfg.plan_by_name("admin", &[(path, "5")]).unwrap().errors().map(ToString::to_string).collect();
        assert_eq!(planned, [set.as_str()]);
        set
    };
    let meant = "did you mean `pool.queue`?";
    for path in ["queue", "--queue", "APP_POOL_QUEUE", "pool.queu", "pool.queues"] {
        assert_eq!(told(path), format!("admin: no setting is called `{path}`; {meant}"));
    }
    assert_eq!(told("pool"), "admin: `pool` is a namespace; name one of its settings, such as `pool.queue`");
    assert_eq!(told("pool.places"), "admin: `pool.places` is a former name; this setting is `pool.queue` now");
    assert_eq!(told("pool.threads"), "admin: pool.threads: this setting is gone: use pool.queue");
    assert_eq!(told("pool.memory"), "admin: pool.memory: this value is derived from others and cannot be set");
    // What cannot be set is not meant.
    assert_eq!(told("memory"), "admin: no setting is called `memory`");
    assert!(cfg.explain("memory").unwrap_err().to_string().contains("did you mean `pool.memory`?"));
    assert_eq!(
        cfg.explain("pool.threads").unwrap_err().to_string(),
        "pool.threads: this setting is gone: use pool.queue"
    );
}

#[test]
fn names_that_are_not_computed_are_found() {
    let errors = loader().env([("APP_HTTP_PROXY", "p")]).args(["app", "--timeout", "1s"]).load().unwrap_err();
    assert_eq!(
        lines(&errors),
        [
            "--timeout: no such flag; did you mean `--give-up`?",
            "APP_HTTP_PROXY: no setting has this environment variable; the variable of `http.proxy` is `HTTP_PROXY`",
        ]
    );
}

#[test]
fn a_key_given_twice_is_named() {
    let errors = loader().args(["app", "--headers", "a=1,b=2, a=3"]).load().unwrap_err();
    assert_eq!(lines(&errors), ["--headers: http.headers: the key `a` is given twice"]);
}

#[test]
fn a_namespace_left_empty_in_yaml_is_said() {
    let errors = loader().text("app.yaml", "pool:\n  # queue: 5\nhttp: {share: 0.1}\n").load().unwrap_err();
    assert_eq!(
        lines(&errors),
        [
            "app.yaml:1:1: `pool` is a namespace, so a table is expected, found nothing; write `{}` after it, or leave `pool` out"
        ]
    );
}

#[test]
fn a_former_name_that_switches_off_does_so() {
    let cfg = loader().args(["app", "--no-disk"]).load().unwrap();
    assert!(!cfg.pin().pool().disk());
}

#[test]
fn one_fault_is_an_error_for_question_marks() {
    fn explained() -> Result<String, Box<dyn std::error::Error>> {
        Ok(Args::for_test(|_| {}).explain("pool.que")?.to_string())
    }
    assert_eq!(explained().unwrap_err().to_string(), "no setting is called `pool.que`; did you mean `pool.queue`?");
}
