//! Command lines: values that look like flags, flags that look like values, and what is wrong with either.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use config_tests::Device;
use kitbag::clap::Command;
use kitbag::{ByteSize, ConfigNamespaces, Errors, Facts, Loader, Secret};

/// A service.
#[derive(ConfigNamespaces)]
#[config(env = "APP", retired(pool.threads = "use pool.workers"))]
struct Args {
    /// How long a client may wait.
    #[config(ns = "http", default = "1.5s")]
    patience: Duration,
    /// Greeting.
    #[config(ns = "http", default = "")]
    greeting: String,
    /// Banner.
    #[config(ns = "http")]
    banner: Option<String>,
    /// Largest body.
    #[config(ns = "http", default = ByteSize(64 << 10))]
    body: ByteSize,
    /// Worker threads.
    #[config(ns = "pool", default = 4, range = 1..=64)]
    workers: usize,
    /// Offset.
    #[config(ns = "pool", default = 0, alias = "pool.shift")]
    offset: i64,
    /// Share of jobs.
    #[config(ns = "pool", default = 0.5)]
    share: f64,
    /// Keep jobs on disk.
    #[config(ns = "pool", default = false)]
    durable: bool,
    /// Sizes of batches.
    #[config(ns = "many", default = "1,2,4")]
    sizes: Vec<i32>,
    /// Weights by name.
    #[config(ns = "many", default = "a=0.5,b=1")]
    weights: BTreeMap<String, f32>,
    /// Devices to try in turn.
    #[config(ns = "many", default = "cpu,cuda-graph")]
    devices: Vec<Device>,
    /// Hosts.
    #[config(ns = "many", default = "")]
    hosts: Vec<String>,
    /// Folder of pictures.
    #[config(ns = "store", default = "out/pictures")]
    folder: PathBuf,
    /// Token of the store.
    #[config(ns = "store", secret)]
    token: Option<Secret<String>>,
}

fn loader<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Loader<Args> {
    let args = args.into_iter().map(Into::into);
    Args::loader().facts(Facts::for_test()).args(std::iter::once("app".into()).chain(args))
}

fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn faults<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Vec<String> {
    lines(&loader(args).load().map(|_| ()).unwrap_err())
}

/// The value of a leaf, in the words of explain.
fn value(args: &[&str], leaf: &str) -> String {
    let cfg = loader(args).load().unwrap_or_else(|errors| panic!("{args:?}: {errors}"));
    cfg.explain(leaf).unwrap().value().to_owned()
}

#[test]
fn a_value_may_begin_with_a_dash() {
    for (args, leaf, wanted) in [
        (["--offset", "-5"], "pool.offset", "-5"),
        (["--shift", "-5"], "pool.offset", "-5"),
        (["--share", "-0.5e-3"], "pool.share", "-0.0005"),
        (["--sizes", "-1,-2"], "many.sizes", "[-1, -2]"),
        (["--greeting", "-hello-"], "http.greeting", "\"-hello-\""),
        (["--greeting", "-"], "http.greeting", "\"-\""),
        (["--greeting", ""], "http.greeting", "\"\""),
        (["--banner", "-x=y"], "http.banner", "\"-x=y\""),
        (["--hosts", "-a,-b"], "many.hosts", "[\"-a\", \"-b\"]"),
        (["--folder", "-"], "store.folder", "\"-\""),
    ] {
        assert_eq!(value(&args, leaf), wanted, "{args:?}");
    }
    // Two dashes need an equals sign.
    for (arg, leaf, wanted) in [
        ("--greeting=--workers", "http.greeting", "\"--workers\""),
        ("--greeting=-h", "http.greeting", "\"-h\""),
        ("--greeting=a=b", "http.greeting", "\"a=b\""),
        ("--greeting==", "http.greeting", "\"=\""),
        ("--offset=-5", "pool.offset", "-5"),
    ] {
        assert_eq!(value(&[arg], leaf), wanted, "{arg}");
    }
    let duration = "expected a duration such as `250ms`, `1.5s`, `1m30s` or `2h`";
    for (args, wanted) in [
        (["--patience", "-1s"], format!("--patience: http.patience: {duration}, found `-1s`")),
        (["--patience", "-1"], format!("--patience: http.patience: {duration}, found `-1`")),
        (["--workers", "-1"], "--workers: pool.workers: expected an integer, 0 or more, found `-1`".to_owned()),
        (["--workers", "-x"], "--workers: pool.workers: expected an integer, 0 or more, found `-x`".to_owned()),
    ] {
        assert_eq!(faults(args), [wanted], "{args:?}");
    }
    assert!(faults(["--body", "-1KiB"])[0].contains("http.body: expected ") && faults(["--body", "-1KiB"]).len() == 1);
}

/// The same for a command of the program's own, which clap parses. It cannot tell text from a flag that begins with a
/// dash, so that text needs the equals sign there.
#[test]
fn a_dash_reaches_the_leaf_in_a_command_of_the_programs_own() {
    let parse = |args: &[&str]| {
        let command =
            Args::augment(Command::new("app").arg(kitbag::clap::Arg::new("verbose").long("verbose").num_args(0)));
        command.try_get_matches_from(std::iter::once(&"app").chain(args))
    };
    let load = |args: &[&str]| Args::loader().matches(&parse(args).unwrap()).load();
    assert_eq!(load(&["--offset", "-5"]).unwrap().pin().pool().offset(), -5);
    assert_eq!(load(&["--sizes", "-1,2"]).unwrap().pin().many().sizes(), [-1, 2]);
    assert_eq!(load(&["--greeting=-x"]).unwrap().pin().http().greeting(), "-x");
    let errors = lines(&load(&["--patience", "-1s"]).unwrap_err());
    assert!(errors.len() == 1 && errors[0].ends_with("or `2h`, found `-1s`"), "{errors:?}");
    // What looks like a flag is one where text is due.
    for args in [["--greeting", "--verbose"], ["--hosts", "--workers=3"], ["--banner", "-x"]] {
        assert!(parse(&args).is_err(), "{args:?}");
    }
    let two = |config: [&str; 2]| load(&["--config", config[0], "--config", config[1]]).unwrap_err().to_string();
    let found = two(["none-1.toml", "none-2.toml"]);
    assert!(found.contains("none-1.toml: cannot read") && found.contains("none-2.toml: cannot read"), "{found}");
}

#[test]
fn a_forgotten_value_is_said_and_the_rest_is_read() {
    assert_eq!(faults(["--workers"]), ["--workers: a value is missing"]);
    assert_eq!(
        faults(["--patience", "--workers", "90"]),
        ["--patience: a value is missing", "--workers: pool.workers: 90 is outside 1..=64"]
    );
    assert_eq!(
        faults(["--greeting", "--hullo", "--offset", "x"]),
        [
            "--greeting: a value is missing; a value that begins with two dashes is written `--greeting=--…`",
            "--hullo: no such flag",
            "--offset: pool.offset: expected an integer, found `x`",
        ]
    );
    assert_eq!(faults(["--config"]), ["--config: a value is missing"]);
    assert_eq!(faults(["--config="]), ["--config: names no file"]);
}

#[test]
fn flags_that_are_not_known() {
    for (args, wanted) in [
        (vec!["--worker", "3"], "--worker: no such flag; did you mean `--workers`?"),
        (vec!["--work=3"], "--work: no such flag; did you mean `--workers`?"),
        (vec!["--Workers=3"], "--Workers: no such flag; did you mean `--workers`?"),
        (vec!["-workers", "3"], "-workers: no such flag; did you mean `--workers`?"),
        (vec!["--pool.workers", "3"], "--pool.workers: no such flag; did you mean `--workers`?"),
        (vec!["--pool-workers=3"], "--pool-workers: no such flag; did you mean `--workers`?"),
        (vec!["--no-workers"], "--no-workers: no such flag; only a switch has a `--no-…`, and `--workers` has a value"),
        (vec!["--no-no-durable"], "--no-no-durable: no such flag"),
        (vec!["-x"], "-x: no such flag"),
        (vec!["-5"], "-5: no such flag"),
        (vec!["--=3"], "--: no such flag"),
        (vec!["---workers", "3"], "---workers: no such flag; did you mean `--workers`?"),
        (vec!["--version"], "--version: no such flag"),
        (vec!["word"], "word: unexpected argument"),
        (vec!["-"], "-: unexpected argument"),
        (vec![""], "\"\": unexpected argument"),
        (vec!["--", "--workers"], "--workers: unexpected argument"),
        (vec!["--threads=3"], "--threads: pool.threads: this setting is gone: use pool.workers"),
        (vec!["--threads"], "--threads: pool.threads: this setting is gone: use pool.workers"),
        (vec!["--threads", "3"], "--threads: pool.threads: this setting is gone: use pool.workers"),
    ] {
        assert_eq!(faults(args.clone()), [wanted], "{args:?}");
    }
    // No abbreviations: `--work` could mean another flag tomorrow.
    assert!(loader(["--"]).load().is_ok());
}

#[test]
fn a_flag_given_twice_is_an_error() {
    assert_eq!(faults(["--workers", "3", "--workers=3"]), ["--workers: given twice"]);
    assert_eq!(faults(["--durable", "--durable=false"]), ["--durable: given twice"]);
    assert_eq!(faults(["--durable", "--no-durable"]), ["--no-durable: cannot be used with `--durable`"]);
    assert_eq!(faults(["--no-durable", "--durable"]), ["--durable: cannot be used with `--no-durable`"]);
    assert_eq!(
        faults(["--offset", "1", "--shift", "1"]),
        ["--shift: pool.offset: given twice; the other name is at --offset"]
    );
    assert_eq!(faults(["--profile", "a", "--profile", "b"])[0], "--profile: given twice");
}

#[test]
fn switches() {
    for (args, wanted) in [
        (vec!["--no-durable=true"], "--no-durable: takes no value; write `--durable=true` or `--durable=false`"),
        (vec!["--no-durable="], "--no-durable: takes no value; write `--durable=true` or `--durable=false`"),
        (vec!["--durable", "false"], "false: unexpected argument; write `--durable=false`"),
        (vec!["--durable="], "--durable: pool.durable: expected `true` or `false`, found ``"),
        (vec!["--durable=False"], "--durable: pool.durable: expected `true` or `false`, found `False`"),
    ] {
        assert_eq!(faults(args.clone()), [wanted], "{args:?}");
    }
}

#[test]
fn an_empty_value_reaches_its_leaf() {
    assert_eq!(value(&["--banner=x", "--sizes="], "many.sizes"), "[]");
    assert_eq!(value(&["--banner="], "http.banner"), "unset");
    assert_eq!(faults(["--workers="]), ["--workers: pool.workers: expected an integer, 0 or more, found ``"]);
}

/// A first argument that is dropped would be a setting that is lost.
#[test]
fn a_flag_in_place_of_the_programs_name_is_an_error() {
    let wanted = "--workers: a flag stands where the program's name belongs; \
                  the program's name comes first, then its arguments";
    assert!(lines(&Args::loader().args(["--workers", "3"]).load().unwrap_err()).contains(&wanted.to_owned()));
    assert!(
        Args::loader().args(["--workers=3"]).load().unwrap_err().to_string().contains("--workers=3: a flag stands")
    );
    for args in [vec![], vec![""], vec!["-app"], vec!["./app"]] {
        assert_eq!(Args::loader().args(args).load().unwrap().pin().pool().workers(), 4);
    }
}

#[cfg(unix)]
#[test]
fn what_is_not_utf_8() {
    use std::os::unix::ffi::OsStringExt;
    let odd = |text: &[u8]| OsString::from_vec(text.to_vec());
    assert_eq!(faults([odd(b"--greeting=\xff")]), ["--greeting: http.greeting: the value is not UTF-8"]);
    assert_eq!(faults([odd(b"--greeting"), odd(b"-\xff")]), ["--greeting: http.greeting: the value is not UTF-8"]);
    assert_eq!(faults([odd(b"--sh\xffift=3")]), ["--sh\u{fffd}ift: no such flag"]);
    assert_eq!(faults([odd(b"\xff")]), ["\u{fffd}: unexpected argument"]);
    assert_eq!(faults([odd(b"--profile=\xff")]), ["--profile: no file has a profile `\u{fffd}`"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(odd(b"\xff.toml"));
    std::fs::write(&file, "[pool]\nworkers = 9").unwrap();
    let mut config = OsString::from("--config=");
    config.push(&file);
    assert_eq!(loader([config]).load().unwrap().pin().pool().workers(), 9);
}

#[test]
fn config_may_be_given_several_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = path("one.toml", "[pool]\nworkers = 11\noffset = 1");
    let two = path("two.yaml", "pool: {workers: 12}\nprofile: {p: {pool: {offset: 3}}}");
    for args in [
        vec!["--config".to_owned(), one.clone(), "--config".into(), two.clone()],
        vec![format!("--config={one}"), format!("--config={two}")],
        vec![format!("--config={one}"), "--config".into(), two.clone()],
    ] {
        let cfg = loader(args.clone()).load().unwrap();
        assert_eq!((cfg.pin().pool().workers(), cfg.pin().pool().offset()), (12, 1), "{args:?}");
        let chain = cfg.explain("pool.workers").unwrap();
        let origins: Vec<_> = chain.steps().map(|(origin, value)| (origin.to_owned(), value.to_owned())).collect();
        let wanted = [("default".to_owned(), "4"), (format!("{one}:2:11"), "11"), (format!("{two}:1:17"), "12")];
        assert_eq!(origins, wanted.map(|(origin, value)| (origin, value.to_owned())));
        let with_profile = loader(args.into_iter().chain(["--profile=p".to_owned()])).load().unwrap();
        assert_eq!(with_profile.pin().pool().offset(), 3);
    }
    let swapped = loader(["--config", &two, "--config", &one]).load().unwrap();
    assert_eq!(swapped.pin().pool().workers(), 11);
    // After the program's own file, and in place of the variable's.
    let all = loader(["--config", &two]).env([("APP_CONFIG", "none.toml")]).file(&one).load().unwrap();
    assert_eq!(all.pin().pool().workers(), 12);
    // A comma is part of a name: names with one could not be given otherwise.
    assert_eq!(faults(["--config", "a.toml,b.toml"]), ["a.toml,b.toml: cannot read: no such file"]);
    let files = loader(["--config", &one, "--config", &two]).record().unwrap().files().to_vec();
    assert_eq!(files, [PathBuf::from(&one), PathBuf::from(&two)]);
}

#[test]
fn help_shows_defaults_as_a_user_types_them() {
    let help = loader(["--greeting", "-x", "-h"]).load().unwrap_err();
    assert!(help.is_help());
    let help = help.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for (flag, default) in [
        ("patience", "1.5s"),
        ("greeting", "\"\""),
        ("body", "64KiB"),
        ("workers", "4"),
        ("share", "0.5"),
        ("durable", "false"),
        ("sizes", "1,2,4"),
        ("weights", "a=0.5,b=1"),
        ("devices", "cpu,cuda-graph"),
        ("hosts", "\"\""),
        ("folder", "out/pictures"),
    ] {
        let (_, rest) = help.split_once(&format!("--{flag}")).unwrap();
        let (_, rest) = rest.split_once("[default: ").unwrap();
        assert_eq!(rest.split_once(']').unwrap().0, default, "{flag}");
        if default != "\"\"" {
            // What is shown can be typed.
            let leaf = Args::SCHEMA.children.iter().flat_map(|ns| ns.leaves).find(|leaf| leaf.flag == flag).unwrap();
            let by_default = value(&[], leaf.path);
            assert_eq!(value(&[&format!("--{flag}={default}")], leaf.path), by_default);
        }
    }
    assert!(help.contains("app [OPTIONS]"), "{help}");
}

/// Random command lines: no panic, and each argument is either used or spoken of.
#[test]
fn no_argument_is_lost() {
    let words = [
        "--workers",
        "--workers=3",
        "3",
        "--durable",
        "--no-durable",
        "--durable=maybe",
        "--greeting",
        "-1",
        "--",
        "-",
        "",
        "--config",
        "--profile=p",
        "--threads",
        "--shift",
        "=",
        "--=",
        "-h=1",
        "--sizes",
        "1,x",
        "--no-workers",
        "x",
    ];
    let mut seed = 0x1234_5678_u64;
    println!("seed {seed:#x}");
    for _ in 0..2000 {
        let mut next = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below as u64) as usize
        };
        let args: Vec<_> = (0..=next(5)).map(|_| words[next(words.len())]).collect();
        match loader(args.clone()).record() {
            Ok(record) => {
                let given =
                    record.entries().filter(|(_, origin, _)| matches!(origin, kitbag::Origin::Flag { .. })).count();
                let flags = args.iter().filter(|arg| arg.len() > 2 && arg.starts_with("--")).count();
                // A dashed word may be a value: `--greeting -1`, never `--greeting --workers`.
                assert_eq!(given, flags, "{args:?}");
            }
            Err(errors) => assert!(errors.iter().all(|error| error.place().is_some()), "{args:?}: {errors}"),
        }
    }
}
