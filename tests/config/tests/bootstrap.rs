//! Leaves that are known before files are read.

use std::path::{Path, PathBuf};

use kitbag::{ConfigNamespaces, Errors, Facts, Loader, Secret, export};

/// A service that finds its own settings.
#[derive(ConfigNamespaces)]
#[config(env = "HOME", derived(log.loud: bool = loud(log.level)))]
struct Args {
    /// Where the service keeps its files.
    #[config(ns = "service", bootstrap, alias = "service.root")]
    home: PathBuf,
    /// Detail of the log.
    #[config(ns = "log", default = 2, range = 0..=5, hot, bootstrap)]
    level: u8,
    /// Threads that read files.
    #[config(ns = "service", auto = Facts::cpus, bootstrap)]
    readers: usize,
    /// What opens the files.
    #[config(ns = "service", bootstrap)]
    key: Option<Secret<String>>,
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32)]
    queue: usize,
    /// Threads that work.
    #[config(ns = "pool", auto = Facts::cpus, range = 1..=64)]
    workers: usize,
}

fn loud(level: u8) -> bool {
    level > 3
}

fn lines(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What a program does with them: the home names the file.
fn load(loader: Loader<Args>) -> Result<kitbag::Context<Args>, Errors> {
    let early = loader.bootstrap()?;
    let file = early.get(Args::keys().service.home).join("settings.toml");
    loader.file(file).load()
}

#[test]
fn they_come_from_defaults_environment_and_flags() {
    let loader = Args::loader().facts(Facts::for_test().with_cpus(3)).env([("HOME_SERVICE_HOME", "a")]);
    let early = loader.clone().args(["x", "--root=b", "--level", "5"]).bootstrap().unwrap();
    let keys = Args::keys();
    assert_eq!(early.get(keys.service.home), Path::new("b"));
    assert_eq!((early.get(keys.log.level), early.get(keys.service.readers)), (5, 3));
    let early = loader.env([("HOME_SERVICE_KEY", "hunter2")]).bootstrap().unwrap();
    assert_eq!((early.get(keys.service.home), early.get(keys.log.level)), (Path::new("a"), 2));
    assert_eq!(early.get(keys.service.key).unwrap().expose(), "hunter2");
    let shown = format!("{early:?}");
    assert!(shown.contains("service.home") && !shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains("queue") && !shown.contains("workers"), "what is not settled yet is not shown: {shown}");
}

#[test]
fn the_program_finds_its_file_by_them() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("settings.toml"), "[pool]\nqueue = 7\n").unwrap();
    let home = home.path().to_str().unwrap();
    let cfg = load(Args::loader().args(["x", "--home", home])).unwrap();
    assert_eq!((cfg.pin().pool().queue(), cfg.pin().service().home()), (7, Path::new(home)));
    assert!(cfg.explain("service.home").unwrap().to_string().contains("--home"));
    // They are leaves like all others from here on.
    let guard = cfg.override_with("test", |o| o.log().level(4)).unwrap();
    assert!(*cfg.pin().log().loud());
    drop(guard);
}

#[test]
fn no_file_sets_them() {
    let text = "[service]\nhome = 'a'\n[log]\nlevel = 3\n[pool]\nqueue = 'x'\n[profile.p.service]\nroot = 'b'\n";
    let loader = Args::loader().env([("HOME_SERVICE_HOME", "a")]).text("a.toml", text);
    assert_eq!(
        lines(&loader.load().unwrap_err()),
        [
            "a.toml:2:8: service.home: this setting is known before files are read, so no file sets it; \
         set --home or HOME_SERVICE_HOME",
            "a.toml:4:9: log.level: this setting is known before files are read, so no file sets it; \
         set --level or HOME_LOG_LEVEL",
            "a.toml:6:9: pool.queue: expected an integer, 0 or more, found the text \"x\"",
            "a.toml:8:8 (profile p): service.home: this setting is known before files are read, so no file sets it; \
         set --home or HOME_SERVICE_HOME",
        ]
    );
    let missing = Args::loader().load().unwrap_err();
    assert_eq!(lines(&missing), ["service.home: required, and nothing sets it; set --home, HOME_SERVICE_HOME"]);
}

#[test]
fn their_faults_come_with_all_that_is_known_then() {
    let faulty = Args::loader().args(["x", "--level", "9", "--quue", "3"]).env([("HOME_POOL_QUEUE", "x")]);
    let mut errors = lines(&faulty.bootstrap().unwrap_err());
    errors.sort();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("--level: log.level: 9 is outside 0..=5"), "{errors:?}");
    assert_eq!(
        lines(&Args::loader().bootstrap().unwrap_err()),
        ["service.home: required, and nothing sets it; set --home, HOME_SERVICE_HOME"]
    );
    let refused = Args::loader().args(["x", "--home="]);
    assert_eq!((lines(&refused.bootstrap().unwrap_err()).len(), lines(&refused.load().unwrap_err()).len()), (1, 1));
    // What a file that cannot be read may have set is not missing as well.
    assert_eq!(lines(&Args::loader().text("a.toml", "[pool\n").load().unwrap_err()).len(), 1);
    // Faults of other leaves wait, so that those of files are told with them.
    let other = Args::loader().args(["x", "--home=a", "--queue=x"]);
    assert!(other.bootstrap().is_ok());
    assert_eq!(lines(&load(other).unwrap_err()).len(), 2);
    // So do those of their rules.
    let rule = Args::loader().args(["x", "--home=a"]).facts(Facts::for_test().with_cpus(100));
    assert!(rule.bootstrap().is_ok());
    assert_eq!(lines(&rule.load().unwrap_err()), ["rule `Facts::cpus`: pool.workers: 100 is outside 1..=64"]);
    // The rule of one that is needed here does not wait.
    let none = Args::loader().args(["x", "--home=a", "--level=9"]).facts(Facts::for_test());
    assert_eq!(lines(&none.bootstrap().unwrap_err()).len(), 1);
    for home in [&["x", "--help"][..], &["x", "--help", "--home=a"], &["x", "--help", "--home=a", "--level=9"]] {
        assert!(Args::loader().args(home.iter().copied()).bootstrap().unwrap_err().is_help(), "{home:?}");
    }
}

#[test]
fn documents_of_files_leave_them_out() {
    let (schema, template) = (export::json_schema::<Args>(), export::toml_template::<Args>());
    assert!(!schema.contains("home") && !template.contains("home") && !template.contains("[log]"), "{template}");
    assert!(export::markdown::<Args>().contains("Known before files are read: no file sets it."));
    assert!(export::listing::<Args>().contains("service.home: PathBuf, required; launch; bootstrap\n"));
    let help = Args::loader().args(["x", "--help"]).load().unwrap_err().to_string();
    assert!(help.contains("[not in files]"), "{help}");
}
