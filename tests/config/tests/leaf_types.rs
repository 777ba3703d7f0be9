//! Every type that may be a leaf: what each source may say, what is read, and what is refused in which words.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::num::NonZero;
use std::time::Duration;

use kitbag::{ByteSize, Choice, ConfigChoice, ConfigNamespaces, Fault, Leaf, Secret, Serde, Value};
use serde::{Deserialize, Serialize};

/// What a text of a flag or variable, and what a file's value stands for; both print the same again.
#[track_caller]
fn reads<T: Leaf>(text: &str, value: &Value, expected: &T) {
    assert_eq!(T::from_text(text).as_ref(), Some(expected), "text {text}");
    assert_eq!(T::from_value(value).as_ref(), Some(expected), "value {value}");
    let shown = expected.to_value();
    assert_eq!(T::from_value(&shown).as_ref(), Some(expected), "shown as {shown}");
}

#[track_caller]
fn refuses<T: Leaf + Debug>(texts: &[&str], values: &[Value]) {
    for text in texts {
        assert_eq!(T::from_text(text), None, "text {text}");
    }
    for value in values {
        assert_eq!(T::from_value(value), None, "value {value}");
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value::List(values.into_iter().collect())
}

#[test]
fn integers_of_all_widths() {
    macro_rules! whole_range {
        ($($type:ty),+) => {$(
            for end in [<$type>::MIN, <$type>::MAX, 7] {
                reads(&end.to_string(), &end.to_value(), &end);
            }
        )+};
    }
    whole_range!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);
    reads("1_000", &Value::Integer(1000), &1000_u16);
    refuses::<u8>(&["256", "-1", "", "_1", "1_", "1.0"], &[Value::Integer(256), Value::Float(1.0), text("1")]);
    refuses::<i128>(&["170141183460469231731687303715884105728"], &[text("x"), Value::Float(1e30)]);
}

/// What a reader of JSON would make a float of is text.
#[test]
fn integers_beyond_64_bits_are_text() {
    assert_eq!((u128::from(u64::MAX)).to_value(), Value::Integer(u64::MAX.into()));
    assert_eq!((u128::from(u64::MAX) + 1).to_value(), text("18446744073709551616"));
    assert_eq!(i128::MIN.to_value(), text("-170141183460469231731687303715884105728"));
    // A TOML file may still write the number itself.
    assert_eq!(u128::from_value(&Value::Integer(1 << 64)), Some(1 << 64));
}

#[test]
fn integers_that_are_not_zero() {
    reads("5", &Value::Integer(5), &NonZero::<u8>::new(5).unwrap());
    reads("-5", &Value::Integer(-5), &NonZero::<i64>::new(-5).unwrap());
    reads(&u128::MAX.to_string(), &text(&u128::MAX.to_string()), &NonZero::<u128>::MAX);
    refuses::<NonZero<u32>>(&["0", "-1", "00"], &[Value::Integer(0), Value::Integer(-1)]);
    refuses::<NonZero<i32>>(&["0"], &[Value::Integer(0)]);
}

#[test]
fn characters() {
    reads("é", &text("é"), &'é');
    reads(",", &text(","), &',');
    refuses::<char>(&["", "ab", "e\u{301}"], &[text(""), text("ab"), Value::Integer(1)]);
    assert_eq!(Option::<char>::from_text(""), Some(None));
}

#[test]
fn addresses() {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
    let v4 = Ipv4Addr::new(10, 0, 0, 1);
    reads("10.0.0.1", &text("10.0.0.1"), &v4);
    reads("10.0.0.1", &text("10.0.0.1"), &IpAddr::from(v4));
    reads("10.0.0.1:80", &text("10.0.0.1:80"), &SocketAddrV4::new(v4, 80));
    reads("10.0.0.1:80", &text("10.0.0.1:80"), &SocketAddr::from((v4, 80)));
    reads("::1", &text("::1"), &Ipv6Addr::LOCALHOST);
    reads("[::1]:80", &text("[::1]:80"), &SocketAddrV6::new(Ipv6Addr::LOCALHOST, 80, 0, 0));
    refuses::<Ipv4Addr>(&["::1", "10.0.0.1:80", "10.0.0.256", "host"], &[text("::1")]);
    refuses::<Ipv6Addr>(&["10.0.0.1", "[::1]"], &[text("10.0.0.1")]);
    refuses::<SocketAddrV4>(&["[::1]:80", "10.0.0.1"], &[]);
    refuses::<SocketAddrV6>(&["10.0.0.1:80", "::1"], &[]);
}

#[test]
fn floats_are_finite_and_may_be_written_without_a_point() {
    reads("0.1", &Value::Float(0.1), &0.1_f32);
    assert_eq!(0.1_f32.to_value(), Value::Float(0.1));
    reads("2", &Value::Integer(2), &2.0_f64);
    refuses::<f32>(&["nan", "inf", "1e39", "x"], &[Value::Float(f64::INFINITY), Value::Float(1e39), text("1.0")]);
}

#[test]
fn sets_hold_an_entry_once_and_show_their_entries_in_order() {
    let numbers = [10, 9, 100].map(Value::Integer);
    reads("10,9,100,9", &list(numbers.clone()), &BTreeSet::from([9_u32, 10, 100]));
    reads("10, 9, 100,9", &list(numbers), &HashSet::from([9_u32, 10, 100]));
    let ordered = list([9, 10, 100].map(Value::Integer));
    assert_eq!(HashSet::from([100_u32, 9, 10]).to_value(), ordered);
    assert_eq!(BTreeSet::from([100_u32, 9, 10]).to_value(), ordered);
    let words = HashSet::from(["b".to_owned(), "a".to_owned()]);
    assert_eq!(words.to_value(), list([text("a"), text("b")]));
    reads("", &list([]), &HashSet::<u8>::new());
    refuses::<BTreeSet<u8>>(&["1,,2", "1;2"], &[Value::Integer(1), list([text("1")])]);
    let faults = BTreeSet::<u8>::faults(&list([Value::Integer(1), text("x")]));
    let wanted = Fault::new("expected an integer from 0 to 255, found the text \"x\"");
    assert_eq!(faults, [wanted.in_entry(1)]);
}

#[test]
fn maps_of_both_kinds_are_tables() {
    let table =
        Value::Table(BTreeMap::from([("a".to_owned(), Value::Integer(1)), ("b".to_owned(), Value::Integer(2))]));
    let pairs = [("a".to_owned(), 1_u8), ("b".to_owned(), 2)];
    reads("a=1, b=2", &table.clone(), &BTreeMap::from(pairs.clone()));
    reads("b=2,a=1", &table.clone(), &HashMap::from(pairs.clone()));
    assert_eq!(HashMap::from(pairs).to_value(), table);
    refuses::<HashMap<String, u8>>(&["a=1,a=2", "a", "a=x"], &[list([])]);
    let faults = HashMap::<String, u8>::faults(&Value::Table([("k".to_owned(), text("x"))].into()));
    let wanted = Fault::new("expected an integer from 0 to 255, found the text \"x\"");
    assert_eq!(faults, [wanted.in_key("k")]);
}

/// A choice that can be in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ConfigChoice)]
enum Step {
    Load,
    Run,
}

/// Types that only some programs need.
#[derive(ConfigNamespaces)]
#[config(env = "TYPES")]
struct Args {
    /// Places, at least one.
    #[config(ns = "work", default = 4, range = 1..=8, hot)]
    places: NonZero<usize>,
    /// Largest batch, if there is one.
    #[config(ns = "work", range = 2..)]
    batch: Option<std::num::NonZeroU16>,
    /// Steps to take.
    #[config(ns = "work", default = "run")]
    steps: BTreeSet<Step>,
    /// Limits by name.
    #[config(ns = "work", default = "a=1KiB")]
    limits: HashMap<String, ByteSize>,
    /// Separator.
    #[config(ns = "work", default = ',', hot)]
    separator: char,
    /// Seed.
    #[config(ns = "work", default = 340_282_366_920_938_463_463_374_607_431_768_211_455)]
    seed: u128,
}

#[test]
fn sources_replace_sets_and_maps_whole() {
    let loader = Args::loader().text("a.toml", "[work]\nsteps = ['load', 'run']\n[work.limits]\nb = 1\nc = '1MiB'");
    let cfg = loader.load().unwrap();
    assert_eq!(*cfg.pin().work().steps(), BTreeSet::from([Step::Load, Step::Run]));
    assert_eq!(cfg.pin().work().limits().len(), 2); // `a` of the default is gone
    let cfg = loader.clone().env([("TYPES_WORK_STEPS", "load")]).args(["types", "--limits", "d=2"]).load().unwrap();
    assert_eq!(cfg.pin().work().steps().iter().map(|step| step.name()).collect::<Vec<_>>(), ["load"]);
    assert_eq!(*cfg.pin().work().limits(), HashMap::from([("d".to_owned(), ByteSize(2))]));
}

#[test]
fn ranges_of_non_zero_integers_are_plain() {
    let load = |args: [&str; 3]| Args::loader().args(args).load().map_err(|errors| errors.to_string());
    let cfg = load(["types", "--places", "8"]).unwrap();
    assert_eq!(cfg.pin().work().places().get(), 8);
    let refused = |args, text: &str| {
        let errors = load(args).unwrap_err();
        assert!(errors.contains(text), "{errors}");
    };
    refused(["types", "--places", "9"], "--places: work.places: 9 is outside 1..=8");
    refused(["types", "--places", "0"], "--places: work.places: expected an integer, 1 or more, found `0`");
    refused(["types", "--batch", "1"], "--batch: work.batch: 1 is outside 2..");
    refused(["types", "--separator", "ab"], "--separator: work.separator: expected one character, found `ab`");
    assert!(cfg.override_with("more", |o| o.work().places(NonZero::<usize>::MAX)).is_err());
}

#[test]
fn a_child_process_gets_them_back() {
    let cfg = Args::loader().args(["types", "--steps", "run,load", "--batch", "7"]).load().unwrap();
    let json = serde_json::to_string(&cfg.snapshot()).unwrap();
    let child = serde_json::from_str::<kitbag::Snapshot>(&json).unwrap().publish::<Args>().unwrap();
    assert_eq!(child.values(), cfg.values());
    assert_eq!(child.pin().work().seed(), u128::MAX);
    assert_eq!(child.fingerprint(), cfg.fingerprint());
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Store {
    #[default]
    Memory,
    Disk {
        folder: String,
        max_files: Option<u32>,
    },
}

/// Types with serde.
#[derive(ConfigNamespaces)]
#[config(env = "SERDE", validate(has_folder(io.store)))]
struct BySerde {
    /// Where data goes.
    #[config(ns = "io", default = Serde(Store::default()), hot)]
    store: Serde<Store>,
    /// Where it goes if that is full.
    #[config(ns = "io")]
    spare: Serde<Option<Store>>,
    /// By customer.
    #[config(ns = "io", default = "")]
    by_customer: BTreeMap<String, Serde<Store>>,
    /// Who may read it.
    #[config(ns = "io")]
    reader: Option<Secret<Serde<(String, u32)>>>,
}

fn has_folder(store: &Store) -> Result<(), String> {
    match store {
        Store::Disk { folder, .. } if folder.is_empty() => Err("a folder has a name".to_owned()),
        _ => Ok(()),
    }
}

#[test]
fn types_with_serde_come_from_every_source() {
    let disk = |folder: &str, max_files| Store::Disk { folder: folder.to_owned(), max_files };
    let toml = "[io]\nstore = { disk = { folder = 'a', max_files = 3 } }\nby_customer = { x = 'memory' }";
    let yaml = "io:\n  store:\n    disk:\n      folder: a\n      max_files: 3\n  by_customer:\n    x: memory\n";
    let json = r#"{"io": {"store": {"disk": {"folder": "a", "max_files": 3}}, "by_customer": {"x": "memory"}}}"#;
    for (name, text) in [("a.toml", toml), ("a.yaml", yaml), ("a.json", json)] {
        let cfg = BySerde::loader().text(name, text).load().unwrap();
        let now = cfg.pin();
        assert_eq!(**now.io().store(), disk("a", Some(3)), "{name}");
        assert_eq!(now.io().spare(), &None);
        assert_eq!(*now.io().by_customer()["x"], Store::Memory);
    }
    let env = [("SERDE_IO_SPARE", r#"{"disk": {"folder": "b"}}"#), ("SERDE_IO_READER", r#"["who", 1]"#)];
    let cfg = BySerde::loader().env(env).args(["x", "--store=memory"]).load().unwrap();
    assert_eq!(cfg.pin().io().spare(), &Some(disk("b", None)));
    assert_eq!(cfg.explain("io.store").unwrap().value(), "\"memory\"");
    let guard = cfg.override_with("test", |o| o.io().store(disk("c", None))).unwrap();
    assert!(cfg.override_with("test", |o| o.io().store(disk("", None))).is_err());

    let json = serde_json::to_string(&cfg.snapshot()).unwrap();
    let child = serde_json::from_str::<kitbag::Snapshot>(&json).unwrap().publish::<BySerde>().unwrap();
    assert_eq!(child.values(), cfg.values());
    let reader = child.pin().io().reader().map(|reader| reader.expose().0.clone());
    assert_eq!(reader, Some(("who".to_owned(), 1)));
    drop(guard);
    assert_eq!(**cfg.pin().io().store(), Store::Memory);
}

#[test]
fn faults_of_types_with_serde_say_where_and_show_no_secret() {
    let errors = |text: &str| BySerde::loader().text("a.toml", text).load().unwrap_err().to_string();
    let refused = |text: &str, expected: &str| {
        let errors = errors(text);
        assert!(errors.contains(expected), "{errors}");
    };
    refused(
        "[io]\nstore = { disk = { folder = 1 } }",
        "a.toml:2:29: io.store: `disk.folder`: invalid type: integer `1`, expected a string",
    );
    refused(
        "[io]\nstore = { disk = { folder = 'a', maxfiles = 1 } }",
        "`disk.maxfiles`: no such field; did you mean `max_files`?",
    );
    refused("[io]\nstore = 'dsk'", "io.store: unknown variant `dsk`, expected `memory` or `disk`");
    refused("[io]\nby_customer = { x = { disk = {} } }", "io.by_customer: `x.disk`: missing field `folder`");
    let secret = errors("[io]\nreader = ['hunter2', 'hunter2']");
    assert!(secret.contains("io.reader: expected a secret") && !secret.contains("hunter2"), "{secret}");
}

#[test]
fn durations_may_have_several_parts() {
    for (text, milliseconds) in [("1m30s", 90_000), ("2h 30m", 9_000_000), ("1d2h3m4s5ms", 93_784_005), ("1.5s", 1_500)]
    {
        reads(text, &Value::Text(text.to_owned()), &Duration::from_millis(milliseconds));
    }
    // Parts out of order, the same unit twice, a part without a unit, less than nothing, more than there is.
    let texts = ["30s1m", "1s1s", "1m30", "1m-30s", "", "1m30s ", "1d18446744073709551615s1h"];
    refuses::<Duration>(&texts, &[Value::Integer(5)]);
}

/// Which hand.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
enum Hand {
    Left,
    Right,
}

/// The only way.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
enum Way {
    Only,
}

/// What changes while it runs.
#[derive(ConfigNamespaces)]
struct Changing {
    /// Hand.
    #[config(ns = "live", hot)]
    hand: Option<Hand>,
    /// Share.
    #[config(ns = "live", hot)]
    share: Option<f64>,
    /// Shares.
    #[config(ns = "live", default = "", hot)]
    shares: Vec<f64>,
}

#[test]
fn a_change_of_an_optional_choice_is_seen_and_the_same_again_is_none() {
    let cfg = Changing::for_test(|_| {});
    for (text, hand) in [("left", Hand::Left), ("right", Hand::Right)] {
        let before = cfg.pin();
        cfg.override_by_name("admin", &[("live.hand", text)]).unwrap();
        let now = cfg.pin();
        assert!(now.live().hand() == Some(hand) && now.live().hand() != None);
        assert!(now.live().hand() == cfg.pin().live().hand() && now.live().hand() != before.live().hand());
        let again = cfg.plan_by_name("admin", &[("live.hand", text)]).unwrap();
        assert_eq!(again.changes().count(), 0, "{again}");
    }
    assert!(cfg.override_by_name("admin", &[("live.hand", "middle")]).is_err());
    assert_eq!((Hand::expected().as_str(), Way::expected().as_str()), ("one of `left`, `right`", "`only`"));
}

#[test]
fn what_no_source_could_give_is_refused_from_code_too() {
    let cfg = Changing::for_test(|_| {});
    assert!(cfg.override_with("x", |o| o.live().share(Some(f64::NAN))).is_err());
    assert!(cfg.override_with("x", |o| o.live().shares(vec![1.0, f64::INFINITY])).is_err());
    // The last word of a change counts, and is the only one.
    let _guard = cfg.override_with("x", |o| {
        o.live().share(Some(1.0));
        o.live().share(None);
        o.live().share(Some(2.0));
    });
    let explanation = cfg.explain("live.share").unwrap();
    assert_eq!(explanation.steps().filter(|(origin, _)| origin.starts_with("override")).count(), 1, "{explanation}");
    assert!(cfg.pin().live().share() == Some(2.0));
}

/// Defaults that are none.
#[derive(ConfigNamespaces)]
struct Mistaken {
    /// Text that is no number.
    #[config(ns = "wrong", default = "many")]
    number: usize,
    /// Beyond its range.
    #[config(ns = "wrong", default = 99, range = 1..=9)]
    digit: u8,
}

#[test]
fn a_default_that_is_no_value_of_its_setting_is_told() {
    let errors = Mistaken::loader().load().unwrap_err();
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "the schema's default: wrong.number: expected an integer, 0 or more, found `many`",
            "the schema's default: wrong.digit: 99 is outside 1..=9",
        ]
    );
}

#[test]
fn units_at_their_ends() {
    reads("0s", &text("0s"), &Duration::ZERO);
    refuses::<Duration>(&["infs", "nans", "-1s", "1x"], &[text("infs")]);
    for (duration, shown) in [
        (Duration::from_nanos(1500), "1500ns"),
        (Duration::from_micros(1500), "1500us"),
        (Duration::from_millis(1500), "1500ms"),
    ] {
        assert_eq!(duration.to_value(), text(shown));
    }
    for (bytes, shown) in [(0, "0B"), (1023, "1023B"), (1024, "1KiB"), (1025, "1025B"), (3 << 20, "3MiB")] {
        assert_eq!(ByteSize(bytes).to_string(), shown);
    }
    refuses::<ByteSize>(&["1XB", "-1B", "1e30TiB"], &[text("1XB")]);
    refuses::<std::path::PathBuf>(&[""], &[text("")]);
}
