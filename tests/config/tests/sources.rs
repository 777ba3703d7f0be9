//! Files, environment and flags: precedence, origins, and everything wrong at once.

use config_tests::Device;
use kitbag::{ConfigNamespaces, Errors, Facts, Loader};

/// A service.
#[derive(ConfigNamespaces)]
#[config(env = "APP", validate(queue_fits(pool.queue, pool.workers)))]
struct Args {
    /// Port to listen on.
    #[config(ns = "http", default = 80)]
    port: u16,
    /// Greeting.
    #[config(ns = "http")]
    greeting: Option<String>,
    /// Worker threads.
    #[config(ns = "pool", auto = Facts::cpus)]
    workers: usize,
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, range = 1..=4096, hot)]
    queue: usize,
    /// Keep jobs on disk.
    #[config(ns = "pool", default = false)]
    durable: bool,
    /// Device.
    #[config(ns = "pool", default = "auto")]
    device: Device,
    /// Secret-free token of the store.
    #[config(ns = "store", flag = "store-token")]
    token: String,
}

fn queue_fits(queue: usize, workers: usize) -> Result<(), String> {
    if queue >= workers { Ok(()) } else { Err("fewer places in the queue than workers".to_owned()) }
}

fn loader() -> Loader<Args> {
    Args::loader().facts(Facts::for_test()).env([("APP_STORE_TOKEN", "t")])
}

fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn later_sources_win_and_explain_shows_all() {
    let sources: [(&str, &str); 3] = [("file", "10"), ("env", "20"), ("flag", "30")];
    // Every subset of the sources: the highest one given wins.
    for subset in 0..8 {
        let given: Vec<_> = sources.iter().enumerate().filter(|(bit, _)| subset & (1 << bit) != 0).collect();
        let mut loader = loader();
        for (_, (source, value)) in &given {
            loader = match *source {
                "file" => loader.text("app.toml", format!("[pool]\nqueue = {value}")),
                "env" => loader.env([("APP_POOL_QUEUE", *value)]),
                _ => loader.args(["app", "--queue", *value]),
            };
        }
        let cfg = loader.load().expect("valid");
        let expected = given.last().map_or("32", |(_, (_, value))| value);
        assert_eq!(cfg.pin().pool().queue(), expected.parse::<usize>().unwrap(), "subset {subset}");
        let explanation = cfg.explain("pool.queue").unwrap();
        let origins: Vec<_> = explanation.steps().map(|(origin, _)| origin.to_owned()).collect();
        let names = ["app.toml:2:9", "APP_POOL_QUEUE", "--queue"];
        let wanted: Vec<_> = std::iter::once("default").chain(given.iter().map(|(bit, _)| names[*bit])).collect();
        assert_eq!(origins, wanted);
    }
}

#[test]
fn a_value_equal_to_the_default_still_wins() {
    let cfg = loader().text("app.toml", "[pool]\nqueue = 5").args(["app", "--queue", "32"]).load().unwrap();
    assert_eq!(cfg.pin().pool().queue(), 32);
}

#[test]
fn an_auto_leaf_says_who_chose_it() {
    let by_rule = loader().load().unwrap();
    assert_eq!(by_rule.pin().pool().workers(), 2);
    assert_eq!(by_rule.explain("pool.workers").unwrap().steps().last(), Some(("rule `Facts::cpus`", "2")));
    let by_operator = loader().args(["app", "--workers=2"]).load().unwrap();
    assert_eq!(by_operator.explain("pool.workers").unwrap().steps().last(), Some(("--workers", "2")));
}

#[test]
fn booleans_can_be_set_both_ways() {
    for (args, expected) in [
        (vec!["app", "--durable"], true),
        (vec!["app", "--durable=false"], false),
        (vec!["app", "--durable=true"], true),
        (vec!["app", "--no-durable"], false),
    ] {
        let cfg = loader().text("app.toml", format!("[pool]\ndurable = {}", !expected)).args(args.clone()).load();
        assert_eq!(cfg.unwrap().pin().pool().durable(), expected, "{args:?}");
    }
    let errors = loader().args(["app", "--durable", "--no-durable"]).load().unwrap_err();
    assert!(errors.to_string().contains("cannot be used with"), "{errors}");
}

#[test]
fn an_empty_variable_unsets_an_option() {
    let file = "[http]\ngreeting = \"hello\"";
    assert_eq!(loader().text("a.toml", file).load().unwrap().pin().http().greeting(), Some("hello"));
    let cleared = loader().text("a.toml", file).env([("APP_HTTP_GREETING", "")]).load().unwrap();
    assert_eq!(cleared.pin().http().greeting(), None);
}

#[test]
fn the_file_is_named_by_flag_or_variable() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, queue: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("[pool]\nqueue = {queue}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, two) = (path("one.toml", 1001), path("two.toml", 1002));
    for args in [vec!["app".to_owned(), "--config".into(), one.clone()], vec!["app".into(), format!("--config={one}")]]
    {
        assert_eq!(loader().args(args).load().unwrap().pin().pool().queue(), 1001);
    }
    let by_variable = loader().env([("APP_CONFIG", two.clone())]).load().unwrap();
    assert_eq!(by_variable.pin().pool().queue(), 1002);
    let flag_first = loader().env([("APP_CONFIG", two)]).args(["app", "--config", &one]).load().unwrap();
    assert_eq!(flag_first.pin().pool().queue(), 1001);
}

#[test]
fn everything_wrong_is_reported_at_once() {
    let text = "[pool]\nqueue = \"many\"\nworker = 3\n[htp]\nport = 1\n[http]\nport = 70000\n";
    let errors = Args::loader()
        .facts(Facts::for_test())
        .text("app.toml", text)
        .env([("APP_POOL_QUEU", "1"), ("APP_POOL_DEVICE", "cuda_graph")])
        .args(["app", "--quue", "3", "--durable=maybe", "--store-tokn=x"])
        .load()
        .unwrap_err();
    let mut found = lines(&errors);
    found.sort();
    let mut expected = [
        "--quue: no such flag; did you mean `--queue`?",
        "--store-tokn: no such flag; did you mean `--store-token`?",
        "app.toml:2:9: pool.queue: expected an integer, 0 or more, found the text \"many\"",
        "app.toml:3:1: no setting is called `pool.worker`; did you mean `pool.workers`?",
        "app.toml:4:2: no setting is called `htp`; did you mean `http`?",
        "app.toml:7:8: http.port: expected an integer from 0 to 65535, found the integer `70000`",
        "APP_POOL_QUEU: no setting has this environment variable; did you mean `APP_POOL_QUEUE`?",
        "APP_POOL_DEVICE: pool.device: expected one of `auto`, `cpu`, `cuda-graph`, found `cuda_graph`; did you mean `cuda-graph`?",
        "--durable: pool.durable: expected `true` or `false`, found `maybe`",
        "store.token: required, and nothing sets it; set --store-token, APP_STORE_TOKEN or `store.token` in a file",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn a_syntax_error_does_not_hide_semantic_errors() {
    let errors = loader().text("app.toml", "[pool]\nqueue = 0\nworkers = = 3\n").load().unwrap_err();
    let found = lines(&errors);
    assert!(found.iter().any(|line| line.starts_with("app.toml:3:")), "{found:?}");
    assert!(found.contains(&"app.toml:2:9: pool.queue: 0 is outside 1..=4096".to_owned()), "{found:?}");
}

#[test]
fn a_broken_rule_shows_its_inputs() {
    let errors = loader().args(["app", "--workers", "64"]).load().unwrap_err();
    let expected = "rule `queue_fits`: fewer places in the queue than workers (pool.queue = 32, pool.workers = 64)";
    assert_eq!(lines(&errors), [expected]);
}

#[test]
fn a_table_where_a_value_belongs_and_the_reverse() {
    let errors = loader().text("app.toml", "pool = 3\n[http.port]\nx = 1\n").load().unwrap_err();
    let found = lines(&errors);
    assert!(
        found
            .contains(&"app.toml:1:1: `pool` is a namespace, so a table is expected, found the integer `3`".to_owned()),
        "{found:?}"
    );
    assert!(
        found.iter().any(|line| line.contains("http.port: expected an integer from 0 to 65535, found a table")),
        "{found:?}"
    );
}

#[test]
fn resolution_is_pure_and_a_record_has_no_effective_values() {
    let resolve = || loader().args(["app", "--queue", "7"]).record().unwrap().resolve(&Facts::for_test()).unwrap();
    assert_eq!(format!("{:?}", resolve()), format!("{:?}", resolve()));
    let other_machine = loader().record().unwrap().resolve(&Facts::for_test().with_cpus(16)).unwrap().publish();
    assert_eq!(other_machine.pin().pool().workers(), 16);
}

#[test]
fn a_program_with_subcommands_takes_the_flags() {
    let command = kitbag::clap::Command::new("app")
        .subcommand(Args::augment(kitbag::clap::Command::new("serve").arg(kitbag::clap::Arg::new("dir"))));
    let matches = command.try_get_matches_from(["app", "serve", "here", "--queue", "9"]).unwrap();
    let (_, serve) = matches.subcommand().unwrap();
    assert_eq!(serve.get_one::<String>("dir").unwrap(), "here");
    let cfg = loader().matches(serve).load().unwrap();
    assert_eq!(cfg.pin().pool().queue(), 9);
}

#[test]
fn help_is_not_an_error() {
    let help = loader().args(["app", "--help"]).load().unwrap_err();
    assert!(help.is_help());
    for part in ["A service.", "--queue <QUEUE>", "[range: 1..=4096]", "[env: APP_POOL_QUEUE]", "pool:"] {
        assert!(help.to_string().contains(part), "{part} in {help}");
    }
}

/// Its emitted test has no name there and is not run, of which the compiler warns.
#[test]
#[allow(unnameable_test_items)]
fn a_schema_may_be_declared_inside_a_function() {
    /// A schema with a derived value.
    #[derive(ConfigNamespaces)]
    #[config(derived(pool.double: usize = double(pool.width)))]
    struct Local {
        /// Width.
        #[config(ns = "pool", default = 2)]
        width: usize,
        /// Sizes.
        #[config(ns = "pool", default = "1,2")]
        sizes: Vec<u8>,
    }
    fn double(width: usize) -> usize {
        2 * width
    }
    assert_eq!(*Local::for_test(|_| {}).pin().pool().double(), 4);
    // A list says which of its entries is wrong.
    let errors = Local::loader().text("a.toml", "[pool]\nsizes = [1, 2, 300]").load().unwrap_err();
    assert_eq!(
        lines(&errors),
        ["a.toml:2:16: pool.sizes: entry 3: expected an integer from 0 to 255, found the integer `300`"]
    );
}
