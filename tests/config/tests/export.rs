//! What is made from a schema agrees with what the loader does with it.

use std::collections::BTreeMap;
use std::fmt::Write;

use config_tests::exported::{Kinds, documents};
use kitbag::clap::Command;
use kitbag::{Class, ConfigNamespaces, Facts, LeafInfo, Loader, NamespaceInfo, export};
use regex::Regex;
use serde_json::Value;

#[test]
fn documents_are_as_expected() {
    let expected = [
        include_str!("export/reference.md"),
        include_str!("export/schema.json"),
        include_str!("export/template.toml"),
        include_str!("export/leaves.txt"),
    ];
    for ((name, text), expected) in documents().iter().zip(expected) {
        let lines = text.lines().zip(expected.lines()).enumerate();
        let first = lines.into_iter().find(|(_, (now, expected))| now != expected);
        let line = first.map_or(text.lines().count().min(expected.lines().count()), |(line, _)| line);
        assert!(
            text == expected,
            "tests/export/{name} differs from line {} on:\n-{}\n+{}\n\
             If the change is meant, run `cargo run -p config-tests --example bless_export`.",
            line + 1,
            expected.lines().nth(line).unwrap_or_default(),
            text.lines().nth(line).unwrap_or_default(),
        );
    }
}

/// A loader of everything that has no default.
fn loader() -> Loader<Kinds> {
    Kinds::loader().facts(Facts::for_test()).env([("KINDS_SCALAR_NEEDED", "n"), ("KINDS_OWN_TOKEN", "t")])
}

fn leaves(namespace: &NamespaceInfo) -> Vec<&'static LeafInfo> {
    namespace.leaves.iter().chain(namespace.children.iter().flat_map(leaves)).collect()
}

fn settings() -> impl Iterator<Item = &'static LeafInfo> {
    leaves(&Kinds::SCHEMA).into_iter().filter(|leaf| leaf.class != Class::Derived)
}

#[test]
fn the_template_sets_what_holds_anyway() {
    let template = export::toml_template::<Kinds>();
    let is_setting = |line: &&str| line.starts_with('#') && line[1..].starts_with(|c: char| !c.is_whitespace());
    let uncommented = template.lines().map(|line| if is_setting(&line) { &line[1..] } else { line });
    let uncommented: String = uncommented.collect::<Vec<_>>().join("\n");
    // All but the rule and the two that are required.
    assert_eq!(template.lines().filter(is_setting).count(), settings().count() - 3);

    let defaults = loader().load().unwrap();
    for text in [template, uncommented] {
        let cfg = loader().text("template.toml", text).load().unwrap();
        assert_eq!(cfg.values(), defaults.values());
    }
}

#[test]
fn every_leaf_is_in_every_document() {
    for leaf in settings() {
        let key = leaf.path.rsplit('.').next().unwrap();
        for (name, text) in documents() {
            assert!(text.contains(leaf.path) || text.contains(key), "{} is missing in {name}", leaf.path);
        }
        let listed = export::listing::<Kinds>().lines().any(|line| line.starts_with(&format!("{}: ", leaf.path)));
        assert!(listed, "{}", leaf.path);
    }
    assert_eq!(export::listing::<Kinds>().lines().count(), Kinds::SCHEMA.len() + 4);
}

/// Where the schema accepts what the loader does not, since JSON Schema cannot say it or the leaf does not.
const LAX: &[(&str, &str)] = &[
    // A type that does not say its shape.
    ("own.share", "*"),
    // Any integer may be written with a point in JSON.
    ("*", "5.0"),
    ("*", "-3e0"),
    // A check that is a function.
    ("own.pairs", "*"),
    ("own.singles", "*"),
    // Ranges of durations and sizes.
    ("unit.delay", "\"0s\""),
    ("unit.delay", "\"2 h\""),
    ("unit.delay", "\"1.5m\""),
    ("unit.block", "0"),
    ("unit.block", "\"0\""),
    // A hole in the middle.
    ("scalar.step", "0"),
    // Patterns do not calculate.
    ("unit.listen", "\"1.2.3.999:80\""),
    ("unit.resolver", "\"1.2.3.999\""),
    ("unit.resolver", "\"::1::\""),
    ("unit.resolver_v4", "\"1.2.3.999\""),
    ("unit.resolver_v6", "\"::1::\""),
    ("unit.listen_v4", "\"1.2.3.999:80\""),
];

#[test]
fn the_json_schema_agrees_with_the_loader() {
    let schema: Value = serde_json::from_str(&export::json_schema::<Kinds>()).unwrap();
    let literals = [
        "true",
        "0",
        "1",
        "-1",
        "5",
        "5.0",
        "9",
        "10",
        "100",
        "101",
        "255",
        "256",
        "65536",
        "4294967295",
        "4294967296",
        "-3e0",
        "0.5",
        "1.5",
        "1e300",
        "\"\"",
        "\"a\"",
        "\"5\"",
        "\"cpu\"",
        "\"Cpu\"",
        "\"40%\"",
        "\"0s\"",
        "\"250ms\"",
        "\"2 h\"",
        "\"1.5m\"",
        "\"1w\"",
        "\"-1s\"",
        "\"4096\"",
        "\"0\"",
        "\"64KiB\"",
        "\"1.5 GB\"",
        "\"1.5 gb\"",
        "\"9B\"",
        "\"127.0.0.1:80\"",
        "\"127.0.0.1\"",
        "\"[::1]:80\"",
        "\"::1\"",
        "\"::1::\"",
        "\"1.2.3.999\"",
        "\"1.2.3.999:80\"",
        "\"host:80\"",
        "\"fe80::1\"",
        "\"10.0.0.1\"",
        "\"é\"",
        "\"ab\"",
        "\"-5\"",
        "\"1_000\"",
        "\"_1\"",
        "[1, 1]",
        "[0]",
        "[]",
        "[1, 2]",
        "[1, \"a\"]",
        "[\"cpu\"]",
        "[\"a\"]",
        "[[]]",
        "{}",
        "{ a = 1 }",
        "{ a = 0.5, \"b c\" = 2 }",
        "{ a = \"b\" }",
    ];
    let former = ["many.batches", "batch.sizes", "own.singles", "scalar.legacy"];
    let mut faults = String::new();
    let (mut accepted, mut used) = (0, vec![false; LAX.len()]);
    for path in settings().map(|leaf| leaf.path).chain(former) {
        let (namespace, key) = path.rsplit_once('.').unwrap();
        for literal in literals {
            let text = format!("[{namespace}]\n{key} = {literal}");
            // Not `load`: rules over several leaves are not what a schema can say.
            let loaded = loader().text("a.toml", text.clone()).record().is_ok();
            let valid = is_valid(&schema, &json(&text));
            accepted += usize::from(loaded);
            let is_lax =
                |(leaf, value): &(&str, &str)| (*leaf == path || *leaf == "*") && (*value == literal || *value == "*");
            match (loaded, valid, LAX.iter().position(is_lax)) {
                (false, true, Some(index)) => used[index] = true,
                _ if loaded == valid => {}
                _ => writeln!(faults, "{path} = {literal}: loaded {loaded}, valid {valid}").unwrap(),
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    let idle: Vec<_> = LAX.iter().zip(used).filter(|(_, used)| !used).map(|(lax, _)| lax).collect();
    assert!(idle.is_empty(), "no longer lax: {idle:?}");
    assert!(accepted > 150, "{accepted}");
}

#[test]
fn the_json_schema_knows_names_and_defaults() {
    let schema: Value = serde_json::from_str(&export::json_schema::<Kinds>()).unwrap();
    for (document, expected) in [
        ("", true),
        ("[pool]\nsize = 1", false),
        ("exec = 1", false),
        ("[exec]\ndevcie = \"cpu\"", false),
        ("[exec]\ndevice = \"cpu\"\n[exec.kernel]\nblock_rows = 32", true),
        ("[exec]\nkernel = 1", false),
        ("[schedule]\npages = 1", false),
        ("[exec]\ndevice = \"cpu\"\n[scalar]\nmaybe = 12", false),
    ] {
        assert_eq!(loader().text("a.toml", document).load().is_ok(), expected, "{document}");
        assert_eq!(is_valid(&schema, &json(document)), expected, "{document}");
    }
    for leaf in settings() {
        let property = leaf.path.split('.').fold(&schema, |schema, key| &schema["properties"][key]);
        assert!(property.is_object(), "{}", leaf.path);
        if let Some(default) = property.get("default") {
            assert!(is_valid(property, default), "{}: {default}", leaf.path);
        }
    }
    let property = |namespace: &str, leaf: &str| schema["properties"][namespace]["properties"][leaf].clone();
    assert_eq!(property("own", "token")["writeOnly"], true);
    assert_eq!(property("own", "token")["default"], Value::Null);
    assert_eq!(property("own", "old")["deprecated"], true);
    assert!(is_valid(&property("scalar", "maybe"), &Value::Null));
    assert_eq!(property("exec", "threads").get("default"), None);
}

#[test]
fn the_json_schema_knows_includes_and_profiles() {
    let schema: Value = serde_json::from_str(&export::json_schema::<Kinds>()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), "exec.device = 'cpu'").unwrap();
    for (document, expected) in [
        ("include = 'base.toml'", true),
        ("include = ['base.toml', 'base.toml']", true),
        ("include = []", true),
        ("include = ''", false),
        ("include = ['']", false),
        ("include = 3", false),
        ("include = [['base.toml']]", false),
        ("include = { if_present = 'none.toml' }", true),
        ("include = ['base.toml', { if_present = 'none.toml' }]", true),
        ("include = { if_present = '' }", false),
        ("include = { if_presnt = 'base.toml' }", false),
        ("include = [{}]", false),
        ("'$schema' = 'kinds.schema.json'", true),
        ("'$schema' = 3", false),
        ("[exec]\n'$schema' = 'kinds.schema.json'", false),
        ("[profile.prod]\n'$schema' = 'kinds.schema.json'", false),
        ("include = 'base.toml'\n[exec]\ndevice = 'auto'\n[profile.prod.exec]\ndevice = 'cpu'\n[profile.dev]", true),
        ("[profile.prod.exec.kernel]\nblock_rows = 32\n[profile.prod.batch]\nsizes = [1]", true),
        ("[profile.prod.exec.kernel]\nblock_rows = 1000", false),
        ("[profile.prod.exec]\ndevcie = 'cpu'", false),
        ("[profile.prod]\ninclude = 'base.toml'", false),
        ("[profile.prod.profile.dev]", false),
        ("profile = 'prod'", false),
        ("profile.prod = 'x'", false),
        ("[exec]\ninclude = 'base.toml'", false),
    ] {
        let loaded = loader().text(folder.path().join("a.toml"), document).record();
        assert_eq!(loaded.is_ok(), expected, "{document}: {:?}", loaded.err());
        assert_eq!(is_valid(&schema, &json(document)), expected, "{document}");
    }
}

fn json(toml: &str) -> Value {
    toml::from_str(toml).unwrap()
}

/// The part of JSON Schema that is in use. A keyword that is not known here is a fault, not a success.
fn is_valid(schema: &Value, value: &Value) -> bool {
    is_valid_in(schema, schema, value)
}

/// `root`: the document that references are looked up in.
fn is_valid_in(root: &Value, schema: &Value, value: &Value) -> bool {
    let is_valid = |schema: &Value, value: &Value| is_valid_in(root, schema, value);
    let number = |end: &Value| end.as_f64().unwrap();
    let integer = |number: &Value| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    // Integers are compared as such: floats have too few digits for them.
    let compare = |end: &Value| match (integer(value), integer(end)) {
        (Some(value), Some(end)) => Some(value.cmp(&end)),
        _ => value.as_f64().map(|value| value.total_cmp(&number(end))),
    };
    schema.as_object().unwrap().iter().all(|(keyword, argument)| match keyword.as_str() {
        "$schema" | "$defs" | "description" | "default" | "deprecated" | "writeOnly" => true,
        "$ref" => {
            let target = root.pointer(argument.as_str().unwrap().strip_prefix('#').unwrap());
            is_valid(target.expect("a reference leads somewhere"), value)
        }
        "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= argument.as_u64().unwrap()),
        "type" => match argument.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            "integer" => integer(value).is_some() || value.as_f64().is_some_and(|value| value.fract() == 0.0),
            other => panic!("type {other}"),
        },
        "enum" => argument.as_array().unwrap().contains(value),
        "anyOf" => argument.as_array().unwrap().iter().any(|schema| is_valid(schema, value)),
        "minimum" => compare(argument).is_none_or(std::cmp::Ordering::is_ge),
        "maximum" => compare(argument).is_none_or(std::cmp::Ordering::is_le),
        "exclusiveMaximum" => compare(argument).is_none_or(std::cmp::Ordering::is_lt),
        "pattern" => {
            let pattern = Regex::new(argument.as_str().unwrap()).unwrap();
            value.as_str().is_none_or(|text| pattern.is_match(text))
        }
        "items" => value.as_array().is_none_or(|values| values.iter().all(|value| is_valid(argument, value))),
        "properties" => value.as_object().is_none_or(|members| {
            let known = |(key, value)| argument.get(key).is_none_or(|schema| is_valid(schema, value));
            members.iter().all(known)
        }),
        "required" => value.as_object().is_none_or(|members| {
            let names = argument.as_array().unwrap().iter();
            names.map(|name| name.as_str().unwrap()).all(|name| members.contains_key(name))
        }),
        "additionalProperties" => value.as_object().is_none_or(|members| {
            let mut others =
                members.iter().filter(|(key, _)| schema.get("properties").is_none_or(|p| p.get(key).is_none()));
            others.all(|(_, value)| if argument == false { false } else { is_valid(argument, value) })
        }),
        other => panic!("keyword {other}"),
    })
}

#[test]
fn the_man_page_lists_every_flag_under_its_namespace() {
    let page = export::man::<Kinds>(Command::new("kinds").about("Shows what there is").version("1.2.3"));
    let plain = page.replace('\\', "");
    for text in [".TH kinds 1", "Shows what there is", "v1.2.3", "--config", "KINDS_CONFIG", "exec.kernel"] {
        assert!(plain.to_lowercase().contains(&text.to_lowercase()), "{text} is missing in\n{page}");
    }
    for leaf in settings() {
        assert!(plain.contains(&format!("--{}", leaf.flag)), "--{} is missing", leaf.flag);
    }
    assert!(!plain.contains("--no-verbose"));
}

#[test]
fn shells_complete_flags_and_choices() {
    use export::Shell;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
        let script = export::completion::<Kinds>(Command::new("kinds"), shell);
        assert!(script.contains("kinds"), "{shell}");
        for leaf in settings() {
            assert!(script.contains(leaf.flag), "{shell} does not know --{}", leaf.flag);
        }
        // The scripts of these two have no place for the values of a flag.
        let has_values = !matches!(shell, Shell::PowerShell | Shell::Elvish);
        assert!(!has_values || script.contains("cuda-graph"), "{shell} does not know the choices");
    }
}

/// Text that is whole lines is written with `print!`, whichever it is.
#[test]
fn every_document_ends_with_one_newline() {
    let cfg = loader().load().unwrap();
    let mut texts: Vec<_> = documents().into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    for leaf in leaves(&Kinds::SCHEMA) {
        texts.push((format!("explain {}", leaf.path), cfg.explain(leaf.path).unwrap().to_string()));
    }
    let nothing = cfg.plan_by_name("nothing", &[]).unwrap();
    let change = cfg.plan_by_name("change", &[("schedule.chunk", "7")]).unwrap();
    let refused = cfg.plan_by_name("refused", &[("schedule.chunk", "0")]).unwrap();
    texts.extend([&nothing, &change, &refused].map(|plan| ("plan".to_owned(), plan.to_string())));
    texts.push(("man".to_owned(), export::man::<Kinds>(Command::new("kinds"))));
    for shell in [export::Shell::Bash, export::Shell::Fish, export::Shell::Zsh] {
        texts.push((shell.to_string(), export::completion::<Kinds>(Command::new("kinds"), shell)));
    }
    for (name, text) in texts {
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name} ends with {:?}", text.lines().last());
    }
}

#[derive(ConfigNamespaces)]
struct Bare {
    /// Jobs that may wait.
    #[config(ns = "pool", default = 1)]
    queue: usize,
}

#[test]
fn without_a_prefix_and_a_doc_comment_documents_do_not_speak_of_them() {
    let text = export::markdown::<Bare>();
    assert!(!text.contains("variable"), "{text}");
    let columns = |part: &str| text.lines().find(|line| line.starts_with(part)).map(|line| line.matches('|').count());
    assert!(columns("| setting").is_some() && columns("| setting") == columns("| `queue`"), "{text}");
    assert!(export::toml_template::<Bare>().starts_with("# Settings are commented out"));
}

#[test]
fn a_line_of_toml_is_read_back_whatever_is_in_it() {
    let text = |text: &str| kitbag::Value::Text(text.to_owned());
    let keys = ["plain", "with-dash", "", "with space", "with.dot", "ä", "\u{1}", "\"", "\\"];
    let table: BTreeMap<String, kitbag::Value> = keys.iter().map(|key| ((*key).to_owned(), text(key))).collect();
    for value in [kitbag::Value::Table(table), kitbag::Value::Table(BTreeMap::default()), kitbag::Value::List(vec![])] {
        let line = export::toml_line("a.b", &value);
        let read: toml::Table = line.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(serde_json::to_value(&read["a"]["b"]).unwrap(), serde_json::to_value(&value).unwrap(), "{line}");
    }
    let dashed = kitbag::Value::Table([("a-b".to_owned(), kitbag::Value::Bool(true))].into());
    assert_eq!(export::toml_line("x", &dashed), "x = { a-b = true }");
    assert_eq!(export::toml_line("x", &kitbag::Value::Table(BTreeMap::default())), "x = {}");
}
