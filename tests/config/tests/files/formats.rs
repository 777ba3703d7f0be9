//! What the formats say, and that they say the same.

use std::time::Duration;

use kitbag::ByteSize;

use crate::service::{faults, loader, value};

pub(crate) const ALL_TOML: &str = r#"# Everything.
[pool]
queue = 1234
durable = true
seed = 18446744073709551615
offset = -9223372036854775808
share = 0.25
[http]
greeting = "Grüße \"an\" alle"
banner = ""
hosts = ["a", "b.example"]
ports = [80, 443]
[http.client]
patience = "250ms"
body = "64KiB"
weights = { left = 1, right = 2 }
"#;

pub(crate) const ALL_YAML: &str = r#"# Everything.
pool:
  queue: 1234
  durable: true
  seed: 18446744073709551615
  offset: -9223372036854775808
  share: 0.25
http:
  greeting: "Grüße \"an\" alle"
  banner: null
  hosts: [a, b.example]
  ports:
  - 80
  - 443
  client:
    patience: 250ms
    body: 64KiB
    weights:
      left: 1
      right: 2
"#;

pub(crate) const ALL_JSON: &str = r#"{
  "pool": {"queue": 1234, "durable": true, "seed": 18446744073709551615, "offset": -9223372036854775808,
           "share": 0.25},
  "http": {
    "greeting": "Gr\u00fc\u00DFe \"an\" alle",
    "banner": null,
    "hosts": ["a", "b.example"],
    "ports": [80, 443],
    "client": {"patience": "250ms", "body": "64KiB", "weights": {"left": 1, "right": 2}}
  }
}
"#;

#[test]
fn formats_say_the_same() {
    for (name, text) in [("a.toml", ALL_TOML), ("a.yaml", ALL_YAML), ("a.yml", ALL_YAML), ("a.json", ALL_JSON)] {
        // With a byte order mark, and with the line ends of another system, too.
        for text in [text.to_owned(), format!("\u{feff}{text}"), text.replace('\n', "\r\n")] {
            let cfg = loader().text(name, text).load().unwrap_or_else(|errors| panic!("{name}: {errors}"));
            let now = cfg.pin();
            let pool = now.pool();
            assert_eq!((pool.queue(), pool.durable()), (1234, true));
            assert!(pool.total() == 1235);
            assert_eq!((pool.seed(), pool.offset()), (u64::MAX, i64::MIN));
            assert!((pool.share() - 0.25).abs() < f64::EPSILON);
            let http = now.http();
            assert_eq!((http.greeting(), http.banner()), ("Grüße \"an\" alle", None));
            assert_eq!((http.hosts(), http.ports()), (&["a".to_owned(), "b.example".to_owned()][..], &[80, 443][..]));
            let client = http.client();
            assert_eq!((client.patience(), client.body()), (Duration::from_millis(250), ByteSize(64 << 10)));
            let weights = client.weights().iter().map(|(key, value)| (key.as_str(), *value)).collect::<Vec<_>>();
            assert_eq!(weights, [("left", 1), ("right", 2)]);
        }
    }
}

#[test]
fn origins_are_exact() {
    for (name, text, leaf, place) in [
        ("a.toml", ALL_TOML, "pool.queue", "a.toml:3:9"),
        ("a.toml", ALL_TOML, "http.client.weights", "a.toml:16:11"),
        ("a.yaml", ALL_YAML, "pool.queue", "a.yaml:3:10"),
        ("a.yaml", ALL_YAML, "http.client.weights", "a.yaml:19:7"),
        ("a.json", ALL_JSON, "pool.queue", "a.json:2:21"),
        ("a.json", ALL_JSON, "http.client.weights", "a.json:9:65"),
        // Columns count characters.
        ("a.json", r#"{"http": {"greeting": "üü", "banner": "x"}}"#, "http.banner", "a.json:1:39"),
        ("a.toml", "http = { greeting = 'üü', banner = 'x' }", "http.banner", "a.toml:1:36"),
        ("a.yaml", "http: { greeting: üü, banner: x }", "http.banner", "a.yaml:1:31"),
    ] {
        let cfg = loader().text(name, text).load().unwrap();
        let explanation = cfg.explain(leaf).unwrap();
        assert_eq!(explanation.steps().last().unwrap().0, place, "{leaf} in {name}");
    }
    // Far into a long line, where positions are found from a mark.
    let json = format!(r#"{{"http": {{"greeting": "{}", "banner": "x"}}}}"#, "ü".repeat(5000));
    let cfg = loader().text("a.json", json).load().unwrap();
    assert_eq!(cfg.explain("http.banner").unwrap().steps().last().unwrap().0, "a.json:1:5037");
}

#[test]
fn what_is_wrong_in_a_list_or_table_has_its_own_place() {
    let number = "expected an integer from 0 to 65535";
    let weight = "expected an integer from 0 to 4294967295";
    let digits = "9".repeat(50);
    let ports =
        |place: &str, entry: usize, found: &str| format!("{place}: http.ports: entry {entry}: {number}, found {found}");
    let weights =
        |place: &str, key: &str, found: &str| format!("{place}: http.client.weights: `{key}`: {weight}, found {found}");
    for (name, text, wanted) in [
        // Lists: inline, over several lines, and as blocks.
        ("a.toml", "http.ports = [1, 'x']", vec![ports("a.toml:1:18", 2, "the text \"x\"")]),
        (
            "a.toml",
            "[http]\nports = [\n  70000,\n  2, # fine\n  -3,\n]",
            vec![ports("a.toml:3:3", 1, "the integer `70000`"), ports("a.toml:5:3", 3, "the integer `-3`")],
        ),
        ("a.toml", "http = { greeting = 'üü', ports = [1, [2]] }", vec![ports("a.toml:1:39", 2, "a list")]),
        ("a.yaml", "http: {ports: [1, x]}", vec![ports("a.yaml:1:19", 2, "the text \"x\"")]),
        (
            "a.yaml",
            "http:\n  ports:\n  - 1\n  - x\n  -\n",
            vec![ports("a.yaml:4:5", 2, "the text \"x\""), ports("a.yaml:5:4", 3, "nothing")],
        ),
        (
            "a.json",
            "{\"http\": {\"ports\": [1,\n null, 1.0]}}",
            vec![ports("a.json:2:2", 2, "nothing"), ports("a.json:2:8", 3, "the float `1.0`")],
        ),
        // Tables: inline, under a header, dotted, and as blocks.
        ("a.toml", "http.client.weights = { a = 1, b = 'x' }", vec![weights("a.toml:1:36", "b", "the text \"x\"")]),
        ("a.toml", "[http.client.weights]\na = 1\nb = -1", vec![weights("a.toml:3:5", "b", "the integer `-1`")]),
        ("a.toml", "[http.client]\nweights.a = 1\nweights.b.c = 1", vec![weights("a.toml:3:9", "b", "a table")]),
        ("a.yaml", "http: {client: {weights: {a: 1, b: x}}}", vec![weights("a.yaml:1:36", "b", "the text \"x\"")]),
        (
            "a.yaml",
            "http:\n  client:\n    weights:\n      a: 1\n      b: x",
            vec![weights("a.yaml:5:10", "b", "the text \"x\"")],
        ),
        (
            "a.json",
            "{\"http\": {\"client\": {\"weights\": {\"a\": 1, \"b\": \"x\"}}}}",
            vec![weights("a.json:1:47", "b", "the text \"x\"")],
        ),
        // A profile's, an alias's and a number that is no value.
        ("a.toml", "[profile.p.http]\nports = [1, 'x']", vec![ports("a.toml:2:13 (profile p)", 2, "the text \"x\"")]),
        ("a.yaml", "http: {hosts: [&x y], ports: [*x]}", vec![ports("a.yaml:1:31", 1, "the text \"y\"")]),
        (
            "a.json",
            &format!("{{\"http\": {{\"ports\": [1, {digits}]}}}}"),
            vec![format!("a.json:1:24: http.ports: the integer `{digits}` is too large")],
        ),
    ] {
        assert_eq!(faults(name, text), wanted, "{text:?}");
    }
    let many = format!("http.ports = [{}]", "'x', ".repeat(1000));
    assert!((2..=25).contains(&faults("a.toml", &many).len()));
}

#[test]
fn a_repeated_key_is_an_error_in_all_formats() {
    for (name, text, wanted) in [
        ("a.toml", "[pool]\nqueue = 1\nqueue = 1\n", "a.toml:3:1: duplicate key"),
        ("a.toml", "[pool]\nqueue = 1\n[pool]\nseed = 1\n", "a.toml:3:2: duplicate key"),
        (
            "a.yaml",
            "pool:\n  queue: 1\n  \"queue\": 1\n",
            "a.yaml:3:3: `queue` is set twice in this table, first on line 2",
        ),
        ("a.yaml", "pool: {}\npool: {}\n", "a.yaml:2:1: `pool` is set twice in this table, first on line 1"),
        (
            "a.json",
            "{\"pool\": {\"queue\": 1,\n\"queue\": 1}}",
            "a.json:2:1: `queue` is set twice in this table, first on line 1",
        ),
        (
            "a.json",
            "{\"http\": {\"client\": {\"weights\": {\"a\": 1, \"\\u0061\": 1}}}}",
            "a.json:1:42: `a` is set twice in this table, first on line 1",
        ),
        ("a.yaml", "profile: {a: {}, a: {}}", "a.yaml:1:18: `a` is set twice in this table, first on line 1"),
    ] {
        assert_eq!(faults(name, text), [wanted], "{text:?}");
    }
    let found = faults("a.json", "{\"pool.queue\": 1, \"http\": {\"client.body\": 1}}");
    let wanted = [
        "a.json:1:2: no key has a dot, and `pool.queue` stands at the top; write a table `pool` that holds `queue`",
        "a.json:1:28: no key has a dot, and `client.body` stands in `http`; write a table `client` that holds `body`",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn yaml_scalars_are_those_of_the_core_schema() {
    for (scalar, wanted) in [("true", "true"), ("True", "true"), ("FALSE", "false")] {
        assert_eq!(value("a.yaml", &format!("pool: {{durable: {scalar}}}"), "pool.durable"), wanted);
    }
    for scalar in ["yes", "no", "on", "off", "y", "'true'", "tRUE", "1", "!!str true"] {
        let found = faults("a.yaml", &format!("pool: {{durable: {scalar}}}"));
        assert!(found[0].contains("pool.durable: expected `true` or `false`, found the "), "{found:?}");
    }
    for (scalar, wanted) in [("0x1F", "31"), ("0o17", "15"), ("0017", "17"), ("+5", "5")] {
        assert_eq!(value("a.yaml", &format!("pool: {{queue: {scalar}}}"), "pool.queue"), wanted);
    }
    for scalar in ["1_000", "1.0", "1e3", "0x", "0b1", "'5'", "~", "null", "", "1 2", "[5]", "{a: 5}", "-", "+"] {
        let found = faults("a.yaml", &format!("pool:\n  queue: {scalar}"));
        assert!(found.iter().all(|line| line.contains("a.yaml:2:")), "{scalar}: {found:?}");
    }
    for (scalar, wanted) in [("1", "1.0"), ("1.", "1.0"), (".5", "0.5"), ("-1.5e+3", "-1500.0"), ("1e3", "1000.0")] {
        assert_eq!(value("a.yaml", &format!("pool: {{share: {scalar}}}"), "pool.share"), wanted);
    }
    for scalar in [".inf", "-.inf", ".nan", "1e400", ".", "1e", "1e+", "1.2.3", "12:30"] {
        assert!(faults("a.yaml", &format!("pool: {{share: {scalar}}}"))[0].contains("pool.share: "));
    }
    for (scalar, wanted) in [
        ("no", "no"),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("2024-01-01", "2024-01-01"),
        ("|\n   a\n   b", "a\nb\n"),
        (">-\n   a\n   b", "a b"),
        ("a\n   b", "a b"),
    ] {
        assert_eq!(value("a.yaml", &format!("http:\n  greeting: {scalar}\n"), "http.greeting"), format!("{wanted:?}"));
    }
    for scalar in ["1", "1.0", "true", "null", "~", ""] {
        let found = faults("a.yaml", &format!("http:\n  greeting: {scalar}\n"));
        assert!(found[0].contains("http.greeting: expected text, found "), "{found:?}");
    }
}

#[test]
fn null_unsets_an_option_and_nothing_else() {
    for (name, text) in
        [("a.yaml", "http:\n  banner:\n"), ("a.yaml", "http: {banner: ~}"), ("a.json", r#"{"http": {"banner": null}}"#)]
    {
        assert_eq!(value(name, text, "http.banner"), "unset");
    }
    let found = faults("a.json", r#"{"pool": {"queue": null}, "http": null}"#);
    let wanted = [
        "a.json:1:20: pool.queue: expected an integer, 0 or more, found nothing",
        "a.json:1:27: `http` is a namespace, so a table is expected, found nothing; write `{}` after it, or leave `http` out",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn numbers_out_of_reach_are_errors() {
    let digits = "9".repeat(50);
    for (name, before, after) in [
        ("a.toml", "pool = {seed = ", "}"),
        ("a.yaml", "pool: {seed: ", "}"),
        ("a.json", "{\"pool\": {\"seed\": ", "}}"),
    ] {
        let found = faults(name, &format!("{before}{digits}{after}"));
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with(&format!("pool.seed: the integer `{digits}` is too large")), "{found:?}");
        let found = faults(name, &format!("{before}18446744073709551616{after}"));
        assert!(
            found[0].ends_with("expected an integer, 0 or more, found the integer `18446744073709551616`"),
            "{found:?}"
        );
        let share = before.replace("seed", "share");
        let found = faults(name, &format!("{share}1e400{after}"));
        assert!(found[0].ends_with("pool.share: the float `1e400` is too large"), "{found:?}");
    }
    for scalar in ["inf", "nan", "-inf"] {
        assert!(faults("a.toml", &format!("pool.share = {scalar}"))[0].contains("pool.share: expected a number"));
    }
}

#[test]
fn a_date_is_its_text() {
    assert_eq!(value("a.toml", "http.greeting = 1979-05-27", "http.greeting"), "\"1979-05-27\"");
    assert_eq!(value("a.toml", "http.greeting = 1979-05-27T07:32:00Z", "http.greeting"), "\"1979-05-27T07:32:00Z\"");
    let found = faults("a.toml", "pool.queue = 1979-05-27");
    assert_eq!(found, ["a.toml:1:14: pool.queue: expected an integer, 0 or more, found the text \"1979-05-27\""]);
}

#[test]
fn aliases_repeat_within_bounds() {
    assert_eq!(value("a.yaml", "pool: {queue: &q 5, seed: *q}", "pool.seed"), "5");
    let cfg =
        loader().text("a.yaml", "http:\n  client: {weights: &w {a: 1}}\nprofile: {p: {http: {client: {weights: *w}}}}");
    let cfg = cfg.profile("p").load().unwrap();
    let explanation = cfg.explain("http.client.weights").unwrap();
    assert_eq!(explanation.steps().last(), Some(("a.yaml:3:40 (profile p)", "{ a = 1 }")));
    let bomb: Vec<_> = (1..30).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
    let text = "x".repeat(1 << 19);
    for bomb in [format!("a0: &a0 [x]\n{}", bomb.concat()), format!("a: &a {text}\nb: [*a, *a, *a]")] {
        let found = faults("a.yaml", &bomb);
        let wanted = "aliases repeat more than a configuration file can mean";
        assert!(found.iter().any(|line| line.ends_with(wanted)), "{found:?}");
    }
}

#[test]
fn the_schema_that_editors_look_for_sets_nothing() {
    for (name, text) in [
        ("a.json", r#"{"$schema": "./app.schema.json", "pool": {"queue": 5}}"#),
        ("a.yaml", "$schema: ./app.schema.json\npool: {queue: 5}\n"),
        ("a.toml", "\"$schema\" = './app.schema.json'\n[pool]\nqueue = 5\n"),
    ] {
        assert_eq!(value(name, text, "pool.queue"), "5", "{name}");
    }
    let here = "`$schema` names the schema of this file for editors, found an integer";
    assert_eq!(faults("a.json", r#"{"$schema": 5}"#), [format!("a.json:1:2: {here}")]);
    // It belongs to the file, not to a table in it.
    assert_eq!(
        faults("a.yaml", "pool: {$schema: x}"),
        ["a.yaml:1:8: no setting is called `pool.$schema`; did you mean `pool.share`?"]
    );
    assert_eq!(
        faults("a.json", r#"{"profile": {"p": {"$schema": "x"}}}"#),
        ["a.json:1:20 (profile p): no setting is called `$schema`"]
    );
}
