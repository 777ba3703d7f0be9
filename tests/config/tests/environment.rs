//! Environment variables: what belongs to the program, and what is wrong with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use kitbag::{ByteSize, ConfigNamespaces, Errors, Facts, Leaf, Loader, Value};

/// A service.
#[derive(ConfigNamespaces)]
#[config(env = "APP", derived(pool.total: usize = total(pool.queue)), retired(pool.legacy = "it did nothing"))]
struct Args {
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32)]
    queue: usize,
    /// The same word deeper.
    #[config(ns = "pool.queue_of", default = 1)]
    jobs: usize,
    /// Worker threads.
    #[config(ns = "pool", auto = Facts::cpus)]
    workers: usize,
    /// Keep jobs on disk.
    #[config(ns = "pool", default = false)]
    durable: bool,
    /// Greeting.
    #[config(ns = "http", default = "hello")]
    greeting: String,
    /// Banner.
    #[config(ns = "http", default = "none")]
    banner: Option<String>,
    /// Hosts.
    #[config(ns = "http", default = "a")]
    hosts: Vec<String>,
    /// Weights by name.
    #[config(ns = "http", default = "a=1")]
    weights: BTreeMap<String, u32>,
    /// How long a client may wait.
    #[config(ns = "http", default = "1s")]
    patience: Duration,
    /// Largest body.
    #[config(ns = "http", default = "1MiB")]
    body: ByteSize,
    /// Proxy, under the name that other programs use for it.
    #[config(ns = "http", env = "HTTP_PROXY")]
    proxy: Option<String>,
    /// A type whose code has a fault.
    #[config(ns = "odd", default = "fine")]
    brittle: Brittle,
}

fn total(queue: usize) -> usize {
    queue + 1
}

#[derive(Clone, Debug, PartialEq)]
struct Brittle(String);

impl Leaf for Brittle {
    type Read<'a> = &'a str;

    fn read(&self) -> &str {
        &self.0
    }

    fn expected() -> String {
        "no surprise".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        assert!(!text.contains("boom"), "no room for `{text}`");
        Some(Self(text.to_owned()))
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Self::from_text(text),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }
}

fn loader<N: Into<OsString>, V: Into<OsString>>(variables: impl IntoIterator<Item = (N, V)>) -> Loader<Args> {
    Args::loader().facts(Facts::for_test()).env(variables)
}

fn faults<N: Into<OsString>, V: Into<OsString>>(variables: impl IntoIterator<Item = (N, V)>) -> Vec<String> {
    let errors: Errors = loader(variables).load().map(|_| ()).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn an_empty_value_is_a_value() {
    let cfg = loader(["GREETING", "BANNER", "HOSTS", "WEIGHTS"].map(|name| (format!("APP_HTTP_{name}"), ""))).load();
    let cfg = cfg.unwrap();
    let now = cfg.pin();
    let http = now.http();
    assert_eq!((http.greeting(), http.banner(), http.hosts().len(), http.weights().len()), ("", None, 0, 0));
    for (variable, expected) in [
        ("APP_POOL_QUEUE", "pool.queue: expected an integer, 0 or more, found ``"),
        ("APP_POOL_WORKERS", "pool.workers: expected an integer, 0 or more, found ``"),
        ("APP_POOL_DURABLE", "pool.durable: expected `true` or `false`, found ``"),
        ("APP_HTTP_PATIENCE", "http.patience: expected a duration such as `250ms`, `1.5s`, `1m30s` or `2h`, found ``"),
    ] {
        assert_eq!(faults([(variable, "")]), [format!("{variable}: {expected}")]);
    }
    assert_eq!(faults([("APP_HTTP_BODY", "")]).len(), 1);
    // Of the two that are no settings, an empty one chooses nothing.
    assert!(loader([("APP_CONFIG", ""), ("APP_PROFILE", "")]).load().is_ok());
}

#[test]
fn odd_values_are_refused() {
    for (variable, value) in [
        ("APP_POOL_QUEUE", " 5"),
        ("APP_POOL_QUEUE", "5 "),
        ("APP_POOL_QUEUE", "0x10"),
        ("APP_POOL_QUEUE", "1e3"),
        ("APP_POOL_QUEUE", "_5"),
        ("APP_POOL_QUEUE", "99999999999999999999999999999999999999999"),
        ("APP_POOL_QUEUE", "５"),
        ("APP_POOL_DURABLE", "TRUE"),
        ("APP_HTTP_WEIGHTS", "a"),
        ("APP_HTTP_WEIGHTS", "a=1,"),
        ("APP_HTTP_PATIENCE", "5"),
        ("APP_HTTP_PATIENCE", "-5s"),
        ("APP_HTTP_PATIENCE", "1e400s"),
        ("APP_HTTP_PATIENCE", "NaNs"),
        ("APP_HTTP_PATIENCE", "infs"),
        ("APP_HTTP_BODY", "99999999TiB"),
    ] {
        let found = faults([(variable, value)]);
        assert!(found.len() == 1 && found[0].starts_with(variable) && found[0].contains("expected "), "{found:?}");
    }
}

#[test]
fn names_under_the_prefix_are_the_programs() {
    for (variable, wanted) in [
        ("APP_POOL_QUEU", "no setting has this environment variable; did you mean `APP_POOL_QUEUE`?"),
        ("APP_Pool_Queue", "no setting has this environment variable; did you mean `APP_POOL_QUEUE`?"),
        ("APP_POOL_QUEUE_", "no setting has this environment variable; did you mean `APP_POOL_QUEUE`?"),
        ("APP_pool_queue_of_jobs", "no setting has this environment variable; did you mean `APP_POOL_QUEUE_OF_JOBS`?"),
        ("APP_JOBS", "no setting has this environment variable; did you mean `APP_POOL_QUEUE_OF_JOBS`?"),
        ("APP_POOL_TOTAL", "this value is derived from others and cannot be set"),
        ("APP_POOL_LEGACY", "pool.legacy: this setting is gone: it did nothing"),
    ] {
        assert_eq!(faults([(variable, "1")]), [format!("{variable}: {wanted}")]);
    }
    for variable in ["APP_", "APP__POOL_QUEUE", "APP_POOL", "APP_HTTP_PROXY", "APP_QUEUE"] {
        let found = faults([(variable, "1")]);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{variable}: no setting has this")), "{found:?}");
    }
    // Other programs' names, also those that begin alike or differ in case.
    for variable in ["APP", "APPLE_POOL_QUEUE", "app_pool_queue", "App_POOL_QUEUE", "_APP_POOL_QUEUE", "POOL_QUEUE", ""]
    {
        assert_eq!(loader([(variable, "x")]).load().unwrap().pin().pool().queue(), 32, "{variable}");
    }
    // Underscores are never guessed at: these are two settings.
    let cfg = loader([("APP_POOL_QUEUE", "2"), ("APP_POOL_QUEUE_OF_JOBS", "3")]).load().unwrap();
    assert_eq!((cfg.pin().pool().queue(), cfg.pin().pool().queue_of().jobs()), (2, 3));
    assert_eq!(loader([("HTTP_PROXY", "p:1")]).load().unwrap().pin().http().proxy(), Some("p:1"));
}

#[test]
fn a_variable_given_twice_is_an_error() {
    assert_eq!(faults([("APP_POOL_QUEUE", "1"), ("APP_POOL_QUEUE", "2")]), ["APP_POOL_QUEUE: pool.queue: given twice"]);
}

#[cfg(unix)]
#[test]
fn what_is_not_utf_8() {
    use std::os::unix::ffi::OsStringExt;
    let odd = |text: &[u8]| OsString::from_vec(text.to_vec());
    assert_eq!(
        faults([(odd(b"APP_POOL_QUEUE"), odd(b"\xff"))]),
        ["APP_POOL_QUEUE: pool.queue: the value is not UTF-8"]
    );
    assert_eq!(
        faults([(odd(b"APP_POOL_\xff"), odd(b"1"))]),
        ["APP_POOL_\u{fffd}: no setting has this environment variable"]
    );
    // Of other programs' variables nothing is asked.
    assert!(loader([(odd(b"\xff_APP"), odd(b"\xff")), (odd(b"PATH"), odd(b"\xff"))]).load().is_ok());
    assert_eq!(faults([(odd(b"APP_PROFILE"), odd(b"\xff"))]), ["APP_PROFILE: no file has a profile `\u{fffd}`"]);
}

#[test]
fn a_panic_in_a_type_of_the_programs_own_is_an_error() {
    let problem = "odd.brittle: it panicked: no room for `boom`";
    assert_eq!(faults([("APP_ODD_BRITTLE", "boom")]), [format!("APP_ODD_BRITTLE: {problem}")]);
    let in_file = Args::loader().text("a.toml", "odd.brittle = 'boom'\npool.queue = -1").load().unwrap_err();
    assert_eq!(in_file.iter().next().unwrap().to_string(), format!("a.toml:1:15: {problem}"));
    assert_eq!(in_file.iter().count(), 2);
    let in_flag = Args::loader().args(["app", "--brittle=boom"]).load().unwrap_err();
    assert_eq!(in_flag.iter().next().unwrap().to_string(), format!("--brittle: {problem}"));
}
