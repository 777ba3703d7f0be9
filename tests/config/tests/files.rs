//! Files: formats, includes, profiles, and everything that can be wrong with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag::{ByteSize, ConfigNamespaces, Errors, Facts, Loader, Origin, Secret};

/// A service.
#[derive(ConfigNamespaces)]
#[config(env = "APP", derived(pool.total: usize = total(pool.queue)))]
struct Args {
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, range = 0..=9999)]
    queue: usize,
    /// Keep jobs on disk.
    #[config(ns = "pool", default = false)]
    durable: bool,
    /// Seed.
    #[config(ns = "pool", default = 7)]
    seed: u64,
    /// Offset.
    #[config(ns = "pool", default = 0)]
    offset: i64,
    /// Share of jobs.
    #[config(ns = "pool", default = 0.5)]
    share: f64,
    /// Greeting.
    #[config(ns = "http", default = "hello")]
    greeting: String,
    /// Banner.
    #[config(ns = "http", default = "none")]
    banner: Option<String>,
    /// Hosts.
    #[config(ns = "http", default = "")]
    hosts: Vec<String>,
    /// Ports.
    #[config(ns = "http", default = "")]
    ports: Vec<u16>,
    /// How long a client may wait.
    #[config(ns = "http.client", default = "1s")]
    patience: Duration,
    /// Largest body.
    #[config(ns = "http.client", default = "1MiB")]
    body: ByteSize,
    /// Weights by name.
    #[config(ns = "http.client", default = "")]
    weights: BTreeMap<String, u32>,
    /// Number that opens the door.
    #[config(ns = "door", secret)]
    pin: Option<Secret<u32>>,
}

fn total(queue: usize) -> usize {
    queue + 1
}

fn loader() -> Loader<Args> {
    Args::loader().facts(Facts::for_test())
}

fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn faults(name: &str, text: &str) -> Vec<String> {
    match loader().text(name, text).load() {
        Ok(_) => panic!("{name} was accepted: {text:?}"),
        Err(errors) => lines(&errors),
    }
}

/// The value of a leaf after reading a text.
fn value(name: &str, text: &str, leaf: &str) -> String {
    let cfg = loader().text(name, text).load().unwrap_or_else(|errors| panic!("{text:?}: {errors}"));
    cfg.explain(leaf).unwrap().value().to_owned()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Without this folder's own name.
    fn short(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }

    fn faults(&self, name: &str) -> Vec<String> {
        let errors = loader().file(self.path(name)).load().map(|_| ()).unwrap_err();
        errors.iter().map(|error| self.short(&error.to_string())).collect()
    }
}

const ALL_TOML: &str = r#"# Everything.
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

const ALL_YAML: &str = r#"# Everything.
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

const ALL_JSON: &str = r#"{
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
fn an_optional_file_may_be_absent_and_nothing_else() {
    let folder = Folder::of(&[
        ("system.toml", "[pool]\nqueue = 1\nseed = 1"),
        ("user.yaml", "include: more.toml\npool: {queue: 2}\nprofile: {p: {pool: {seed: 3}}}"),
        ("more.toml", "pool.offset = 4"),
        ("broken.toml", "pool = "),
        ("wrong.toml", "pool.queu = 1"),
        ("empty.toml", ""),
        ("half.toml", "include = 'none.toml'"),
        ("folder.toml/x", ""),
    ]);
    let with = |name: &str| loader().file(folder.path("system.toml")).file_if_present(folder.path(name));
    let fault = |name: &str| folder.short(&with(name).load().map(|_| ()).unwrap_err().to_string());

    // Absent: as if it had not been asked for; and so is its folder.
    for name in ["none.toml", "none/none.toml"] {
        let record = with(name).record().unwrap();
        assert_eq!(record.files(), [folder.path("system.toml")]);
        let cfg = record.resolve(&Facts::for_test()).unwrap().publish();
        assert_eq!(cfg.explain("pool.queue").unwrap().steps().count(), 2);
    }
    // Present: a file like any other, in its rank.
    let cfg = with("user.yaml").profile("p").load().unwrap();
    let now = cfg.pin();
    assert_eq!((now.pool().queue(), now.pool().seed(), now.pool().offset()), (2, 3, 4));
    let chain = folder.short(&cfg.explain("pool.queue").unwrap().to_string());
    assert_eq!(chain, "pool.queue = 2\n  default: 32\n  system.toml:2:9: 1\n> user.yaml:2:15: 2");
    let below = loader().file_if_present(folder.path("user.yaml")).file(folder.path("system.toml")).load().unwrap();
    assert_eq!(below.pin().pool().queue(), 1);

    // There and not readable, or not valid.
    assert_eq!(fault("broken.toml").matches("broken.toml:1:").count(), 1);
    assert!(
        fault("wrong.toml").contains("wrong.toml:1:6: no setting is called `pool.queu`; did you mean `pool.queue`?")
    );
    assert!(fault("empty.toml").contains("empty.toml: the file is empty"));
    assert!(fault("half.toml").contains("half.toml:1:11: cannot read: no such file (half.toml -> none.toml)"));
    assert!(fault("folder.toml").contains("folder.toml: this is a folder, not a file"));
    // Its name says the format; a slip there is one although there is no such file yet.
    assert!(fault("none").contains("none: the format of a file is told by its name"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path("gone.toml"), folder.path("link.toml")).unwrap();
        assert!(fault("link.toml").contains("link.toml: cannot read: no such file"));
        // A file where its folder should be.
        assert!(fault("system.toml/user.toml").contains("system.toml/user.toml: cannot read: "));
    }
}

/// One file of the precedence matrix.
fn write(format: &str, include: Option<&str>, top: Option<u32>, profile: Option<u32>) -> String {
    // An unchosen profile in each, which must not win.
    match format {
        "toml" => {
            let include = include.map(|file| format!("include = '{file}'\n")).unwrap_or_default();
            let top = top.map(|queue| format!("[pool]\nqueue = {queue}\n")).unwrap_or_default();
            let profile = profile.map(|queue| format!("[profile.prod.pool]\nqueue = {queue}\n")).unwrap_or_default();
            format!("{include}{top}{profile}[profile.other.pool]\nqueue = 666\n")
        }
        "yaml" => {
            let include = include.map(|file| format!("include: [{file}]\n")).unwrap_or_default();
            let top = top.map(|queue| format!("pool:\n  queue: {queue}\n")).unwrap_or_default();
            let profile = profile.map(|queue| format!("  prod: {{pool: {{queue: {queue}}}}}\n")).unwrap_or_default();
            format!("{include}{top}profile:\n{profile}  other: {{pool: {{queue: 666}}}}\n")
        }
        _ => {
            let include = include.map(|file| format!("\"include\": \"{file}\", ")).unwrap_or_default();
            let top = top.map(|queue| format!("\"pool\": {{\"queue\": {queue}}}, ")).unwrap_or_default();
            let profile =
                profile.map(|queue| format!("\"prod\": {{\"pool\": {{\"queue\": {queue}}}}}, ")).unwrap_or_default();
            format!("{{{include}{top}\"profile\": {{{profile}\"other\": {{\"pool\": {{\"queue\": 666}}}}}}}}")
        }
    }
}

#[test]
fn precedence_over_formats_includes_and_profiles() {
    let names = ["base", "base prod", "app", "app prod", "late", "late prod", "APP_POOL_QUEUE", "--queue"];
    for formats in [["toml", "yaml", "json"], ["yaml", "json", "toml"], ["json", "toml", "yaml"]] {
        let [base, app, late] = [("base", formats[0]), ("app", formats[1]), ("late", formats[2])]
            .map(|(name, format)| format!("{name}.{format}"));
        for subset in 0..1 << names.len() {
            let given = |bit: u32| (subset & (1 << bit) != 0).then_some(bit + 1);
            let folder = Folder::of(&[
                (&base, &write(formats[0], None, given(0), given(1))),
                (&app, &write(formats[1], Some(&base), given(2), given(3))),
                (&late, &write(formats[2], None, given(4), given(5))),
            ]);
            let mut loader = loader().file(folder.path(&app)).file(folder.path(&late));
            if [1, 3, 5].into_iter().any(|bit| given(bit).is_some()) {
                loader = loader.profile("prod");
            }
            if let Some(queue) = given(6) {
                loader = loader.env([("APP_POOL_QUEUE", queue.to_string())]);
            }
            if let Some(queue) = given(7) {
                loader = loader.args(["app", "--queue", &queue.to_string()]);
            }
            let cfg = loader.load().unwrap();
            let explanation = cfg.explain("pool.queue").unwrap();
            let steps: Vec<_> = explanation
                .steps()
                .map(|(origin, value)| {
                    let origin = folder.short(origin);
                    let file = origin.split('.').next().unwrap().to_owned();
                    let profile = if origin.ends_with(" (profile prod)") { " prod" } else { "" };
                    (format!("{file}{profile}"), value.to_owned())
                })
                .collect();
            let wanted =
                (0..8).filter_map(given).map(|queue| (names[queue as usize - 1].to_owned(), queue.to_string()));
            let wanted: Vec<_> = std::iter::once(("default".to_owned(), "32".to_owned())).chain(wanted).collect();
            assert_eq!(steps, wanted, "{formats:?}, subset {subset:b}");
            assert_eq!(cfg.pin().pool().queue().to_string(), wanted.last().unwrap().1);
        }
    }
}

#[test]
fn explain_shows_file_and_profile() {
    let text = "[pool]\nqueue = 1\n\n[profile.prod]\n[profile.prod.pool]\nseed = 1\nqueue = 2\n";
    let loader = loader().text("app.toml", text).args(["app", "--profile", "prod"]);
    let wanted = "pool.queue = 2\n  default: 32\n  app.toml:2:9: 1\n> app.toml:7:9 (profile prod): 2";
    assert_eq!(loader.load().unwrap().explain("pool.queue").unwrap().to_string(), wanted);
}

#[test]
fn the_profile_is_named_by_flag_variable_or_program() {
    let text = "[profile]\na.pool.queue = 1\nb.pool.queue = 2\nc.pool.queue = 3\n";
    let queue = |loader: Loader<Args>| loader.text("app.toml", text).load().unwrap().pin().pool().queue();
    let (program, variable) = (loader().profile("a"), [("APP_PROFILE", "b")]);
    assert_eq!(queue(loader()), 32);
    assert_eq!(queue(program.clone()), 1);
    assert_eq!(queue(program.clone().env(variable)), 2);
    assert_eq!(queue(program.clone().env(variable).args(["app", "--profile=c"])), 3);
    assert_eq!(queue(program.clone().env([("APP_PROFILE", "")])), 1);
    let command = Args::augment(kitbag::clap::Command::new("app"));
    assert_eq!(queue(program.matches(&command.get_matches_from(["app", "--profile", "c"]))), 3);
}

#[test]
fn an_unknown_profile_is_an_error() {
    let text = "[profile.prod]\n[profile.dev.pool]\nqueue = 1\n";
    let fault = |loader: Loader<Args>| lines(&loader.load().unwrap_err());
    assert_eq!(
        fault(loader().text("a.toml", text).args(["app", "--profile", "prdo"])),
        ["--profile: no file has a profile `prdo`; did you mean `prod`?"]
    );
    assert_eq!(
        fault(loader().text("a.toml", text).env([("APP_PROFILE", "staging")])),
        ["APP_PROFILE: no file has a profile `staging`; there are `prod`, `dev`"]
    );
    assert_eq!(fault(loader().profile("prod")), ["Loader::profile: no file has a profile `prod`"]);
    // A file that cannot be read may have it.
    assert_eq!(fault(loader().profile("prod").file("none.toml")), ["none.toml: cannot read: no such file"]);
    // A profile without settings is one.
    loader().text("a.toml", text).profile("prod").load().unwrap();
}

#[test]
fn profiles_that_are_not_chosen_are_checked() {
    let text = "[profile.prod.pool]\nqueue = 10000\nqueu = 1\ntotal = 1\n[profile.prod]\ninclude = 'x.toml'\n";
    let wanted = [
        "a.toml:2:9 (profile prod): pool.queue: 10000 is outside 0..=9999",
        "a.toml:3:1 (profile prod): no setting is called `pool.queu`; did you mean `pool.queue`?",
        "a.toml:4:1 (profile prod): pool.total: this value is derived from others and cannot be set",
        "a.toml:6:1 (profile prod): no setting is called `include`",
    ];
    assert_eq!(faults("a.toml", text), wanted);
    assert_eq!(
        faults("a.yaml", "profile:\n  prod: 3\n"),
        ["a.yaml:2:3: `profile.prod` is a table of settings, found an integer"]
    );
    assert_eq!(
        faults("a.json", r#"{"profile": "prod"}"#),
        ["a.json:1:2: `profile` holds one table per profile, found text"]
    );
}

#[test]
fn includes_mix_formats_and_rank_below() {
    let folder = Folder::of(&[
        ("conf/app.yaml", "include:\n- ../base.toml\n- more/extra.json\npool: {seed: 3}\n"),
        ("base.toml", "include = 'root.json'\n[pool]\nqueue = 2\nseed = 2\noffset = 2\n"),
        ("root.json", r#"{"pool": {"queue": 1, "seed": 1, "offset": 1, "share": 0.125}}"#),
        ("conf/more/extra.json", r#"{"include": "../../root.json", "pool": {"offset": 4}}"#),
    ]);
    let record = loader().file(folder.path("conf/app.yaml")).record().unwrap();
    let files: Vec<_> = record.files().iter().map(|path| folder.short(&path.display().to_string())).collect();
    // `root.json` is included twice and ranks below both that include it.
    assert_eq!(files, ["conf/../root.json", "conf/../base.toml", "conf/more/extra.json", "conf/app.yaml"]);
    let cfg = record.resolve(&Facts::for_test()).unwrap().publish();
    let now = cfg.pin();
    let pool = now.pool();
    assert_eq!((pool.queue(), pool.seed(), pool.offset(), pool.share().to_string().as_str()), (2, 3, 4, "0.125"));
    let origin = folder.short(cfg.explain("pool.share").unwrap().steps().last().unwrap().0);
    assert_eq!(origin, "conf/../root.json:1:56");
}

#[test]
fn faults_of_includes_show_the_chain() {
    let folder = Folder::of(&[
        ("a.toml", "include = 'b.yaml'"),
        ("b.yaml", "include: [c.json]"),
        ("c.json", r#"{"include": ["a.toml", "none.toml", "d.ini", 3, ""]}"#),
        ("self.toml", "include = 'self.toml'"),
        ("folder.toml", "include = ['conf.d', '.', 'more.toml', '../']"),
        ("conf.d/x.toml", ""),
        ("more.toml/x.toml", ""),
        ("bad.toml", "include = 'worse.toml'\n[pool]\nqueue = 'x'"),
        ("worse.toml", "[pool]\nseed = 'y'\noffset = = 3"),
    ]);
    let format = "the format of a file is told by its name, which ends in `.toml`, `.yaml`, `.yml` or `.json`";
    assert_eq!(
        folder.faults("a.toml"),
        [
            "c.json:1:14: a file cannot include itself (a.toml -> b.yaml -> c.json -> a.toml)".to_owned(),
            "c.json:1:24: cannot read: no such file (a.toml -> b.yaml -> c.json -> none.toml)".to_owned(),
            format!("c.json:1:37: {format} (a.toml -> b.yaml -> c.json -> d.ini)"),
            "c.json:1:46: `include` names a file or a list of files, found the integer `3`".to_owned(),
            "c.json:1:49: `include` names a file or a list of files, found the text \"\"".to_owned(),
        ]
    );
    assert_eq!(folder.faults("self.toml"), ["self.toml:1:11: a file cannot include itself (self.toml -> self.toml)"]);
    let folders: Vec<_> = folder.faults("folder.toml");
    assert!(
        folders.len() == 4
            && folders.iter().all(|line| line.contains(": this is a folder, not a file (folder.toml -> "))
    );
    assert!(folders[1].starts_with("folder.toml:1:22: "), "{folders:?}");
    // What is wrong in the included file is said of that file, together with what is wrong in the including one.
    let found = folder.faults("bad.toml");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("worse.toml:3:"), "{found:?}");
    assert_eq!(found[1], "worse.toml:2:8: pool.seed: expected an integer, 0 or more, found the text \"y\"");
    assert_eq!(found[2], "bad.toml:3:9: pool.queue: expected an integer, 0 or more, found the text \"x\"");
}

#[test]
fn includes_are_bounded() {
    let folder = Folder::of(&[]);
    for depth in 0..20 {
        let next = if depth == 19 { "[pool]\nqueue = 5".to_owned() } else { format!("include = '{}.toml'", depth + 1) };
        folder.write(&format!("{depth}.toml"), next.as_bytes());
    }
    // 3 includes 4, and so on to 19: 16 includes.
    let cfg = loader().file(folder.path("3.toml")).load().unwrap();
    assert_eq!(cfg.pin().pool().queue(), 5);
    let found = folder.faults("2.toml");
    assert_eq!(found.len(), 1, "{found:?}");
    let wanted = "18.toml:1:11: files include one another more than 16 deep (2.toml -> 3.toml -> ";
    assert!(found[0].starts_with(wanted) && found[0].ends_with(" -> 18.toml -> 19.toml)"), "{found:?}");
}

#[test]
fn a_text_includes_files_beside_its_name() {
    let folder = Folder::of(&[("base.toml", "[pool]\nqueue = 5")]);
    let record = loader().text(folder.path("app.json"), r#"{"include": "base.toml"}"#).record().unwrap();
    assert_eq!(record.files(), [folder.path("base.toml")]);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = Folder::of(&[
        ("a.ini", "x"),
        ("noext", "x"),
        ("empty.toml", ""),
        ("blank.yaml", " \n\n"),
        ("comment.yaml", "# nothing\n"),
        ("comment.toml", "# nothing\n"),
        ("nothing.json", "{}"),
        ("folder.toml/x", ""),
    ]);
    folder.write("latin.toml", b"[http]\ngreeting = \"gr\xfc\xdfe\"\n");
    folder.write("utf16.json", &[0xff, 0xfe, b'{', 0, b'}', 0]);
    let format = "the format of a file is told by its name, which ends in `.toml`, `.yaml`, `.yml` or `.json`";
    let empty = "the file is empty, as if half written; one that is to set nothing holds a comment or `{}`";
    for (name, problem) in [
        ("a.ini", format),
        ("noext", format),
        ("none.toml", "cannot read: no such file"),
        ("folder.toml", "this is a folder, not a file"),
        ("empty.toml", empty),
        ("blank.yaml", empty),
        ("latin.toml", "the file is not UTF-8 (line 2, column 15)"),
        ("utf16.json", "the file is not UTF-8 (line 1, column 1)"),
    ] {
        // Nothing else is wrong: what the file may set is not reported as missing.
        assert_eq!(folder.faults(name), [format!("{name}: {problem}")]);
    }
    for name in ["comment.yaml", "comment.toml", "nothing.json"] {
        assert_eq!(loader().file(folder.path(name)).load().unwrap().pin().pool().queue(), 32);
    }
    let large = std::fs::File::create(folder.path("large.json")).unwrap();
    large.set_len((16 << 20) + 1).unwrap();
    assert_eq!(folder.faults("large.json"), ["large.json: the file is larger than 16 MiB"]);
    // Of the largest size it is read.
    folder.write("largest.json", format!("{{}}{}", " ".repeat((16 << 20) - 2)).as_bytes());
    loader().file(folder.path("largest.json")).load().unwrap();
}

#[cfg(unix)]
#[test]
fn a_device_is_no_file() {
    let folder = Folder::of(&[]);
    std::os::unix::fs::symlink("/dev/zero", folder.path("zero.toml")).unwrap();
    assert_eq!(folder.faults("zero.toml"), ["zero.toml: this is not a regular file"]);
}

#[test]
fn syntax_errors_have_places() {
    for (name, text, wanted) in [
        ("a.toml", "[pool\nqueue = 1", "a.toml:1:6: unclosed table, expected `]`"),
        ("a.toml", "[pool]\nqueue =\n", "a.toml:2:8: string values must be quoted, expected literal string"),
        ("a.toml", "[http]\ngreeting = \"x\n", "a.toml:2:14: invalid basic string, expected `\"`"),
        ("a.yaml", "pool:\n\tqueue: 1", "a.yaml:2:2: tabs disallowed within this context (block indentation)"),
        ("a.yaml", "pool: {queue: 1", "a.yaml:2:1: while parsing a flow mapping, did not find expected ',' or '}'"),
        ("a.yaml", "http:\n  greeting: a: b", "a.yaml:2:14: mapping values are not allowed in this context"),
        ("a.yaml", "http: {greeting: *x}", "a.yaml:1:18: while parsing node, found unknown anchor"),
        ("a.yaml", "pool: {}\n---\nhttp: {}", "a.yaml:2:1: a second document begins; a configuration file holds one"),
        ("a.yaml", "? [a, b]\n: 1", "a.yaml:1:3: a key is a text, not a list, a table or an alias"),
        (
            "a.yaml",
            "pool: &p {queue: 1}\n<<: *p",
            "a.yaml:2:1: `<<` (merge) is not part of YAML 1.2; write the keys, or use `include`",
        ),
        (
            "a.yaml",
            "pool: !!int {}",
            "a.yaml:1:7: a tag (`!…`) means nothing here, except `!!str`; text that begins with `!` is written in quotes",
        ),
        (
            "a.yaml",
            "http: {greeting: !env X}",
            "a.yaml:1:18: a tag (`!…`) means nothing here, except `!!str`; text that begins with `!` is written in quotes",
        ),
        ("a.yaml", "http: &h {hosts: [*h]}", "a.yaml:1:19: an alias stands inside the value that it repeats"),
        ("a.yaml", "- 1\n- 2", "a.yaml:1:1: a file holds a table of settings, found a list"),
        ("a.yaml", "hello", "a.yaml:1:1: a file holds a table of settings, found text"),
        ("a.json", "", "a.json:1:1: expected a value, found the end of the file"),
        ("a.json", "[]", "a.json:1:1: a file holds a table of settings, found a list"),
        (
            "a.json",
            "{\"pool\": {\"queue\": 1,}}",
            "a.json:1:22: expected a key in double quotes, found `}`; JSON has no comma after the last entry",
        ),
        (
            "a.json",
            "{\"http\": {\"ports\": [1,]}}",
            "a.json:1:23: expected a value, found `]`; JSON has no comma after the last entry",
        ),
        (
            "a.json",
            "{\"http\": {\"ports\": [1 2]}}",
            "a.json:1:23: expected a comma or the end of the list or table, found `2`",
        ),
        ("a.json", "{\"pool\": {\"queue\" 1}}", "a.json:1:19: expected a colon, found `1`"),
        (
            "a.json",
            "{\"pool\": {\"queue\": 012}}",
            "a.json:1:21: expected a comma or the end of the list or table, found `1`",
        ),
        ("a.json", "{\"pool\": {\"share\": 1.}}", "a.json:1:22: expected a digit"),
        (
            "a.json",
            "{\"pool\": {\"durable\": yes}}",
            "a.json:1:22: a bare word is `true`, `false` or `null`; text is quoted",
        ),
        ("a.json", "{\"http\": {\"greeting\": \"x}}", "a.json:1:23: unterminated string"),
        ("a.json", "{\"http\": {\"greeting\": \"x\n\"}}", "a.json:1:25: invalid string control character"),
        ("a.json", "{} // comment", "a.json:1:4: expected the end of the file, found `/`; JSON has no comments"),
        ("a.json", "{} {}", "a.json:1:4: expected the end of the file, found `{`"),
        (
            "a.json",
            "{\"pool\": {\"queue\": 1",
            "a.json:1:21: expected a comma or the end of the list or table, found the end of the file",
        ),
    ] {
        assert_eq!(faults(name, text), [wanted], "{text:?}");
    }
}

#[test]
fn quotes_too_many_or_too_few_are_said() {
    for (name, text, advice) in [
        ("a.toml", "http.greeting = 5", "found the integer `5`; put it in quotes"),
        ("a.yaml", "http: {greeting: 1.10}", "found the float `1.1`; put it in quotes"),
        ("a.json", "{\"http\": {\"greeting\": true}}", "found the boolean `true`; put it in quotes"),
        ("a.toml", "pool.queue = '5'", "found the text \"5\"; write it without quotes"),
        ("a.json", "{\"pool\": {\"durable\": \"true\"}}", "found the text \"true\"; write it without quotes"),
        ("a.yaml", "pool: {share: '0.5'}", "found the text \"0.5\"; write it without quotes"),
        // Where that would not help it is not said.
        ("a.yaml", "pool: {durable: yes}", "found the text \"yes\""),
        ("a.toml", "pool.queue = '-5'", "found the text \"-5\""),
        ("a.toml", "http.client.patience = 5", "found the integer `5`"),
        // Case is no reason to find nothing.
        ("a.toml", "[POOL]\nqueue = 5", "`POOL`; did you mean `pool`?"),
        ("a.json", "{'pool': {}}", "found `'`; JSON has double quotes only"),
    ] {
        let found = faults(name, text);
        assert!(found.len() == 1 && found[0].ends_with(advice), "{text:?}: {found:?}");
    }
}

#[test]
fn a_syntax_error_does_not_hide_the_rest() {
    for (name, text, place) in [
        ("a.toml", "[pool]\nqueue = 'x'\nseed = = 3\noffset = 'y'", "a.toml:3:"),
        ("a.yaml", "pool:\n  queue: x\n  durable: no\n  seed: [", "a.yaml:"),
        ("a.json", "{\"pool\": {\"queue\": \"x\",\n\"offset\": \"y\",\n \"seed\": }}", "a.json:3:10: expected a value"),
    ] {
        let found = faults(name, text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|line| line.starts_with(place)), "{found:?}");
        let wrong = found.iter().filter(|line| line.contains(": pool.queue: ") || line.contains(": pool.")).count();
        assert_eq!(wrong, 2, "{found:?}");
    }
    // What is cut off is not reported as wrong or missing.
    for (name, text) in [
        ("a.toml", "[http]\nports = [1, \"x"),
        ("a.yaml", "http:\n  ports: [1, \"x"),
        ("a.json", "{\"http\": {\"ports\": [1, \"x"),
        ("a.json", "{\"http\": {\"client\": {\"weights\": {\"a\": 1,"),
        ("a.yaml", "http: {client: {weights: {a: 1, b"),
    ] {
        let found = faults(name, text);
        assert!(found.iter().all(|line| !line.contains("http")), "{found:?}");
    }
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
fn what_was_meant_for_a_secret_is_not_shown() {
    let digits = "7".repeat(50);
    for text in [
        format!("door.pin = {digits}"),
        "door.pin = 77777777777".to_owned(),
        "door.pin = '777'".to_owned(),
        "door = 777".to_owned(),
        format!("[profile.p]\ndoor.pin = {digits}"),
    ] {
        let found = faults("a.toml", &text);
        assert!(found.len() == 1 && !found[0].contains("777"), "{found:?}");
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
fn nesting_is_bounded() {
    let deep = |name: &str, text: String| {
        let found = faults(name, &text);
        assert!(found.len() <= 100, "{} errors", found.len());
        let bounded = ["nested more than 64 deep", "recursion"];
        assert!(found.iter().any(|line| bounded.iter().any(|words| line.contains(words))), "{name}: {found:?}");
    };
    for depth in [70, 1000, 100_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        deep("a.toml", format!("[http]\nhosts = {open}{close}"));
        deep("a.toml", format!("[{}]", vec!["a"; depth + 20].join(".")));
        deep("a.toml", format!("{} = 1", vec!["a"; depth + 20].join(".")));
        deep("a.json", format!("{{\"http\": {{\"hosts\": {open}{close}}}}}"));
        deep("a.json", "{\"a\":".repeat(depth));
        deep("a.yaml", format!("http: {{hosts: {open}{close}}}"));
        deep("a.yaml", format!("http:\n  hosts:\n  {}", "- ".repeat(depth)));
    }
    // An alias brings the depth of what it repeats along.
    let chain: Vec<_> = (1..200).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    deep("a.yaml", format!("a0: &a0 []\n{}", chain.concat()));
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
fn a_file_full_of_faults_is_reported_in_part() {
    let found = faults("a.toml", &"= = =\n".repeat(10_000));
    assert!((1..=25).contains(&found.len()), "{}", found.len());
}

#[test]
fn a_loader_reads_files_anew() {
    let folder = Folder::of(&[("a.toml", "include = 'b.toml'"), ("b.toml", "[pool]\nqueue = 1")]);
    let loader = loader().env([("APP_CONFIG", folder.path("a.toml"))]);
    let again = loader.clone();
    assert_eq!(loader.load().unwrap().pin().pool().queue(), 1);
    folder.write("b.toml", b"[pool]\nqueue = 2");
    assert_eq!(loader.load().unwrap().pin().pool().queue(), 2);
    assert_eq!(again.record().unwrap().files(), [folder.path("b.toml"), folder.path("a.toml")]);
    std::fs::remove_file(folder.path("b.toml")).unwrap();
    let error = folder.short(&loader.load().unwrap_err().to_string());
    assert_eq!(error, "configuration error: a.toml:1:11: cannot read: no such file (a.toml -> b.toml)");
    folder.write("b.toml", b"");
    assert!(again.load().is_err());
}

#[test]
fn an_origin_names_its_profile() {
    let text = "[profile.p.pool]\nqueue = 100000";
    let error = loader().text("a.toml", text).load().unwrap_err();
    assert_eq!(error.iter().next().unwrap().place(), Some("a.toml:2:9 (profile p)"));
    // Patterns over a file's origin stay valid when it learns more.
    let is_file = |origin: &Origin| matches!(origin, Origin::File { path, line: 1, .. } if path == Path::new("x"));
    assert!(!is_file(&Origin::Default));
}

/// The same numbers for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A valid file, one setting on a line, with no default among the values.
fn fixture(format: &str) -> Vec<(&'static str, Option<(&'static str, &'static str)>)> {
    let set = |leaf, value| Some((leaf, value));
    match format {
        "toml" => vec![
            ("[pool]", None),
            ("queue = 1234", set("pool.queue", "1234")),
            ("durable = true", set("pool.durable", "true")),
            ("offset = -55", set("pool.offset", "-55")),
            ("", None),
            ("[http]", None),
            ("greeting = 'guten tag'", set("http.greeting", "\"guten tag\"")),
            ("ports = [80, 443] # two", set("http.ports", "[80, 443]")),
            ("[http.client]", None),
            ("body = '2MiB'", set("http.client.body", "\"2MiB\"")),
            ("weights = { left = 1, right = 2 }", set("http.client.weights", "{ left = 1, right = 2 }")),
            ("[profile.p.pool]", None),
            ("seed = 99", set("pool.seed", "99")),
            ("share = 0.75", set("pool.share", "0.75")),
        ],
        "yaml" => vec![
            ("pool:", None),
            ("  queue: 1234", set("pool.queue", "1234")),
            ("  durable: true", set("pool.durable", "true")),
            ("  offset: -55", set("pool.offset", "-55")),
            ("", None),
            ("http:", None),
            ("  greeting: guten tag", set("http.greeting", "\"guten tag\"")),
            ("  ports: [80, 443] # two", set("http.ports", "[80, 443]")),
            ("  client:", None),
            ("    body: 2MiB", set("http.client.body", "\"2MiB\"")),
            ("    weights: {left: 1, right: 2}", set("http.client.weights", "{ left = 1, right = 2 }")),
            ("profile:", None),
            ("  p:", None),
            ("    pool:", None),
            ("      seed: 99", set("pool.seed", "99")),
            ("      share: 0.75", set("pool.share", "0.75")),
        ],
        _ => vec![
            ("{\"pool\": {", None),
            ("\"queue\": 1234,", set("pool.queue", "1234")),
            ("\"durable\": true,", set("pool.durable", "true")),
            ("\"offset\": -55", set("pool.offset", "-55")),
            ("}, \"http\": {", None),
            ("\"greeting\": \"guten tag\",", set("http.greeting", "\"guten tag\"")),
            ("\"ports\": [80, 443],", set("http.ports", "[80, 443]")),
            ("\"client\": {", None),
            ("\"body\": \"2MiB\",", set("http.client.body", "\"2MiB\"")),
            ("\"weights\": {\"left\": 1, \"right\": 2}", set("http.client.weights", "{ left = 1, right = 2 }")),
            ("}}, \"profile\": {\"p\": {\"pool\": {", None),
            ("\"seed\": 99,", set("pool.seed", "99")),
            ("\"share\": 0.75", set("pool.share", "0.75")),
            ("}}}}", None),
        ],
    }
}

/// Loads damaged text; if it is accepted, all settings on the lines that are `whole` must have been read.
fn accepts_damaged(format: &str, text: &str, whole: impl Fn(usize) -> bool) -> bool {
    let Ok(cfg) = loader().text(format!("a.{format}"), text).profile("p").load() else { return false };
    for (line, (_, setting)) in fixture(format).iter().enumerate() {
        if let (Some((leaf, value)), true) = (setting, whole(line)) {
            assert_eq!(cfg.explain(leaf).unwrap().value(), *value, "{leaf} got lost in {text:?}");
        }
    }
    true
}

#[test]
fn a_truncated_file_is_refused_or_read_up_to_its_end() {
    for format in ["toml", "yaml", "json"] {
        let lines = fixture(format);
        let text = lines.iter().flat_map(|(line, _)| [line, "\n"]).collect::<String>();
        assert!(accepts_damaged(format, &text, |_| true));
        for end in 0..text.len() {
            let cut = &text[..end];
            let complete = cut.matches('\n').count();
            let accepted = accepts_damaged(format, cut, |line| line < complete);
            assert!(!accepted || format != "json" || end >= text.trim_end().len(), "{cut:?}");
        }
    }
}

const NASTY: [char; 40] = [
    '"', '\'', '[', ']', '{', '}', ':', ',', '=', '#', '-', '+', '.', '\n', '\r', '\t', ' ', '\\', '|', '>', '&', '*',
    '!', '%', '@', '`', '?', '~', '0', '9', 'e', 'x', '_', '/', '<', '\0', 'é', '\u{feff}', '\u{2028}', '\u{85}',
];

#[test]
fn mutated_files_are_refused_or_read_in_full() {
    let seed = 0x5eed_cafe;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for format in ["toml", "yaml", "json"] {
        for _ in 0..2500 {
            let mut lines: Vec<Vec<char>> = fixture(format).iter().map(|(line, _)| line.chars().collect()).collect();
            let mut touched = Vec::new();
            for _ in 0..=random.below(3) {
                let line = random.below(lines.len());
                let place = random.below(lines[line].len() + 1);
                let nasty = NASTY[random.below(NASTY.len())];
                match random.below(4) {
                    0 if place < lines[line].len() => lines[line][place] = nasty,
                    1 if place < lines[line].len() => drop(lines[line].remove(place)),
                    2 => lines[line].truncate(place),
                    _ => lines[line].insert(place, nasty),
                }
                touched.push(line);
            }
            let text: String = lines.iter().map(|line| line.iter().collect::<String>() + "\n").collect();
            let accepted = accepts_damaged(format, &text, |line| !touched.contains(&line));
            // Nor is anything accepted that another parser of the format refuses.
            let text = text.trim_start_matches('\u{feff}');
            match format {
                "toml" if accepted => assert!(text.parse::<toml::Table>().is_ok(), "{text:?}"),
                "json" if accepted => assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn mutated_bytes_never_panic() {
    let seed = 0xb17e_5eed;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let folder = Folder::of(&[]);
    for (format, text) in [("toml", ALL_TOML), ("yaml", ALL_YAML), ("json", ALL_JSON)] {
        let name = format!("a.{format}");
        for _ in 0..500 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=random.below(8) {
                let place = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[place] = random.next() as u8,
                    1 => bytes.insert(place, random.next() as u8),
                    2 => bytes.truncate(place + 1),
                    // A piece of the file again, as after a broken write.
                    _ => {
                        let piece = bytes[place..].to_vec();
                        bytes.extend(piece);
                    }
                }
            }
            folder.write(&name, &bytes);
            if loader().file(folder.path(&name)).load().is_ok() {
                assert!(std::str::from_utf8(&bytes).is_ok());
            }
        }
    }
}
