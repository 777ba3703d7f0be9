//! The whole schema: its size, every setting through every source, dumps, and what it costs to resolve.

use std::collections::BTreeSet;
use std::time::Instant;

use config_scale::{Args, was_chosen};
use kitbag::__private::{AnyLeaf, Erased};
use kitbag::{Class, ConfigNamespaces, Context, LeafInfo, Loader, NamespaceInfo, Start, Value};

fn leaves(namespace: &'static NamespaceInfo) -> Vec<&'static LeafInfo> {
    namespace.leaves.iter().chain(namespace.children.iter().flat_map(leaves)).collect()
}

fn settings() -> Vec<&'static LeafInfo> {
    leaves(&Args::SCHEMA).into_iter().filter(|leaf| leaf.class != Class::Derived).collect()
}

fn loader() -> Loader<Args> {
    Args::loader().facts(kitbag::Facts::for_test())
}

/// Defaults, with the one setting that has none.
fn defaults() -> Context<Args> {
    Args::for_test(|o| {
        o.model().model_path("dummy");
    })
}

#[test]
fn the_schema_has_every_field_of_the_list() {
    // The list has 546 fields; three of them only say whether another was given, which is asked of its origin.
    let table = include_str!("../fields.tsv");
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let fields: BTreeSet<_> =
        rows.iter().filter(|row| row[2] != "Derived").map(|row| format!("{}.{}", row[1], row[0])).collect();
    assert_eq!(fields.len(), 546);
    let declared: BTreeSet<_> = settings().iter().map(|leaf| leaf.path.to_owned()).collect();
    assert_eq!(declared.len(), 543);
    let asked: Vec<_> = fields.difference(&declared).cloned().collect();
    assert_eq!(
        asked,
        [
            "memory._radix_eviction_policy_explicitly_set",
            "schedule._swa_full_tokens_ratio_explicitly_set",
            "spec._speculative_draft_quantization_explicitly_set"
        ]
    );
    assert!(declared.is_subset(&fields));
    let namespaces: BTreeSet<_> =
        settings().iter().map(|leaf| leaf.path.rsplit_once('.').expect("a leaf has a namespace").0).collect();
    assert_eq!(namespaces.len(), 21);
    assert_eq!(leaves(&Args::SCHEMA).len() - declared.len(), 23, "derived values");
}

#[test]
fn who_chose_a_value_is_asked_of_its_origin() {
    let paths =
        ["memory.radix_eviction_policy", "schedule.swa_full_tokens_ratio", "spec.speculative_draft_model_quantization"];
    let silent = defaults();
    assert!(paths.iter().all(|path| !was_chosen(&silent, path).expect("a leaf")));
    // The default itself, given by somebody, is chosen.
    let given = loader().args(["scale", "--model-path", "m", "--radix-eviction-policy", "lru"]).load().expect("valid");
    assert_eq!(given.value(paths[0]), silent.value(paths[0]));
    assert!(was_chosen(&given, paths[0]).expect("a leaf"));
    assert!(!was_chosen(&given, paths[1]).expect("a leaf"));
    assert!(was_chosen(&given, "memory.radix_evicton_policy").is_err());
}

/// A value as a file, and as a variable or flag.
struct Sample {
    leaf: &'static LeafInfo,
    value: Value,
    toml: String,
    text: String,
}

/// The first value that the leaf accepts, is not its default and reads back from text as itself.
fn sample(leaf: &'static LeafInfo, default: &Value) -> Sample {
    let candidates =
        ["true", "false", "2", "1", "3", "16", "0.25", "0.5", "7s", "2MiB", "k=v", "text", "a/b", "1,2", "4", "64"];
    let choices = leaf.ops.ty.choices().unwrap_or_default();
    let of_text = |text: &&str| -> Option<(String, Erased)> {
        let value = leaf.ops.ty.parse_text(text)?;
        let in_range = leaf.ops.range.is_none_or(|range| range(Some(&value)).is_none());
        // A choice of one is its own default, and there is nothing else to give.
        let other = choices.len() == 1 || value.to_value() != *default;
        (in_range && other).then(|| ((*text).to_owned(), value))
    };
    let (text, value) =
        choices.iter().chain(&candidates).find_map(of_text).unwrap_or_else(|| panic!("no sample for {leaf:?}"));
    let value = AnyLeaf::to_value(&*value);
    Sample { leaf, toml: toml(&value), value, text }
}

fn toml(value: &Value) -> String {
    match value {
        Value::Unset => "\"\"".to_owned(),
        Value::Table(entries) => {
            let entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::List(values) => format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// What has to be set as well, so that the rules hold.
fn companions(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "parallel.attn_dp_size" | "parallel.attn_cp_size" | "parallel.moe_dp_size" | "parallel.ep_size" => {
            &[("parallel.tp_size", "2")]
        }
        "parallel.node_rank" => &[("parallel.nnodes", "3")],
        _ => &[],
    }
}

/// Each setting alone, through one source; nothing but it, its companions and derived values may change.
fn walk(source: &str, give: impl Fn(Loader<Args>, &[(String, String, String)]) -> Loader<Args>) {
    let base = defaults();
    let before = base.values();
    let derived: BTreeSet<_> =
        leaves(&Args::SCHEMA).iter().filter(|leaf| leaf.class == Class::Derived).map(|leaf| leaf.path).collect();
    let mut set = 0;
    for leaf in settings() {
        let default = base.value(leaf.path).expect("a leaf");
        let sample = sample(leaf, &default);
        let mut given = vec![(leaf.path.to_owned(), sample.toml.clone(), sample.text.clone())];
        given.extend(
            companions(leaf.path)
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned(), (*text).to_owned())),
        );
        if leaf.path != "model.model_path" {
            given.push(("model.model_path".to_owned(), "\"dummy\"".to_owned(), "dummy".to_owned()));
        }
        let cfg = give(loader(), &given).load().unwrap_or_else(|errors| panic!("{source}: {}: {errors}", leaf.path));
        assert_eq!(cfg.value(leaf.path).as_ref(), Some(&sample.value), "{source}: {}", sample.leaf.path);
        assert!(was_chosen(&cfg, leaf.path).expect("a leaf"), "{source}: {}", leaf.path);
        for ((path, old), (_, new)) in before.iter().zip(cfg.values()) {
            let expected = given.iter().any(|(given, ..)| given == path) || derived.contains(path);
            assert!(expected || *old == new, "{source}: setting {} changed {path}", leaf.path);
        }
        set += 1;
    }
    assert_eq!(set, 543);
}

#[test]
fn every_setting_is_read_from_a_file() {
    walk("file", |loader, given| {
        let lines: Vec<_> = given.iter().map(|(path, toml, _)| format!("{path} = {toml}")).collect();
        loader.text("scale.toml", lines.join("\n"))
    });
}

#[test]
fn every_setting_is_read_from_the_environment() {
    walk("environment", |loader, given| {
        loader.env(
            given
                .iter()
                .map(|(path, _, text)| (format!("SCALE_{}", path.replace('.', "_").to_uppercase()), text.clone())),
        )
    });
}

#[test]
fn every_setting_is_read_from_a_flag() {
    let flags: std::collections::BTreeMap<_, _> = settings().iter().map(|leaf| (leaf.path, leaf.flag)).collect();
    assert_eq!(flags.values().collect::<BTreeSet<_>>().len(), 543);
    walk("flag", |loader, given| {
        let given = given.iter().map(|(path, _, text)| format!("--{}={text}", flags[path.as_str()]));
        loader.args(std::iter::once("scale".to_owned()).chain(given))
    });
}

#[test]
fn all_settings_at_once_survive_a_round_trip() {
    let base = defaults();
    let fixed = ["parallel.attn_dp_size", "parallel.attn_cp_size", "parallel.node_rank", "parallel.moe_dp_size"];
    let chosen: Vec<_> = settings()
        .into_iter()
        .filter(|leaf| !fixed.contains(&leaf.path))
        .map(|leaf| sample(leaf, &base.value(leaf.path).expect("a leaf")))
        .collect();
    let text: Vec<_> = chosen.iter().map(|sample| format!("{} = {}", sample.leaf.path, sample.toml)).collect();
    let cfg = loader().text("all.toml", text.join("\n")).load().expect("valid");
    // The dump of what was resolved, read again, resolves to the same.
    let derived: Vec<_> = leaves(&Args::SCHEMA).into_iter().filter(|leaf| leaf.class == Class::Derived).collect();
    let dump: Vec<_> = cfg
        .values()
        .into_iter()
        .filter(|(path, _)| !derived.iter().any(|leaf| leaf.path == *path))
        .map(|(path, value)| format!("{path} = {}", toml(&value)))
        .collect();
    let again = loader().text("dump.toml", dump.join("\n")).load().expect("valid");
    assert_eq!(cfg.values(), again.values());
    assert!(chosen.iter().all(|sample| again.value(sample.leaf.path).as_ref() == Some(&sample.value)));
}

#[test]
fn every_default_is_valid() {
    let cfg = defaults();
    for leaf in settings() {
        if let Start::Default { text, .. } = leaf.start {
            let shown = cfg.value(leaf.path).expect("a leaf");
            assert!(shown != Value::Unset, "{}: default {text} is unset", leaf.path);
        }
    }
}

#[test]
fn time_to_resolve_and_publish_is_shown() {
    let start = Instant::now();
    let resolved = loader().args(["scale", "--model-path", "m"]).resolve().expect("valid");
    let middle = Instant::now();
    let cfg = resolved.publish();
    println!("resolve {:?}, publish {:?}, {} values", middle - start, middle.elapsed(), cfg.values().len());
}
