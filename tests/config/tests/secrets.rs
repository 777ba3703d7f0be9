//! A secret is looked for in everything that a program can print, and is not there.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::mpsc;
use std::time::Duration;

use kitbag::clap::Command;
use kitbag::{ConfigNamespaces, Facts, Leaf, Loader, Outstanding, Secret, export};

/// What is looked for. Each is long enough not to be there by chance.
const TEXT: &str = "c4n4ry-w1th-4-b34k";
const OTHER: &str = "c4n4ry-0f-4n0th3r-c0l0ur";
const NUMBER: u64 = 918_273_645_546_372;

/// The derive sees a name; that it is a secret is known to the type alone.
type Token = Secret<String>;
type Door = Secret<u64>;

/// A program with secrets.
#[derive(ConfigNamespaces)]
#[config(
    env = "APP",
    derived(store.header: Token = header(store.token)),
    validate(long_enough(store.token, store.pin, store.size))
)]
struct Args {
    /// Token of the store.
    #[config(ns = "store", hot, alias = "store.password")]
    token: Token,
    /// Token of the other store.
    #[config(ns = "store", secret)]
    other: Option<Secret<String>>,
    /// Number that opens the door.
    #[config(ns = "store", validate = odd)]
    pin: Option<Door>,
    /// Tokens of many stores.
    #[config(ns = "store", secret)]
    many: Option<Secret<Vec<String>>>,
    /// Tokens by store.
    #[config(ns = "store", secret, load_time)]
    by_name: Option<Secret<BTreeMap<String, u64>>>,
    /// How the store was opened once.
    #[config(ns = "store", deprecated(since = "0.2", use = "store.token", map = former))]
    key: Token,
    /// Size of the store.
    #[config(ns = "store", default = 3, range = 1..=9, hot)]
    size: usize,
}

fn header(token: &Secret<String>) -> Secret<String> {
    Secret::new(format!("Bearer {}", token.expose()))
}

fn former(key: Secret<String>) -> Secret<String> {
    key
}

fn odd(pin: Option<&Secret<u64>>) -> Result<(), String> {
    if pin.is_none_or(|pin| pin.expose() % 2 == 0) { Ok(()) } else { Err("it is odd".to_owned()) }
}

fn long_enough(token: &Secret<String>, pin: Option<&Secret<u64>>, size: usize) -> Result<(), String> {
    let least = token.expose().len().min(size) as u64;
    if pin.is_none_or(|pin| *pin.expose() > least) { Ok(()) } else { Err("too short".to_owned()) }
}

/// All that was printed.
#[derive(Default)]
struct Seen {
    texts: Vec<(String, String)>,
}

impl Seen {
    fn text(&mut self, surface: &str, text: &impl ToString) {
        self.texts.push((surface.to_owned(), text.to_string()));
    }

    fn debug(&mut self, surface: &str, value: &impl Debug) {
        self.text(surface, &format!("{value:?} {value:#?}"));
    }

    /// Also not in another spelling, nor in part.
    fn check(&self) {
        let shown = [TEXT, OTHER, &TEXT[..12], &OTHER[..12], &NUMBER.to_string(), "918_273", "918273"];
        let hex = format!("{NUMBER:x}");
        for (surface, text) in &self.texts {
            for canary in shown.iter().copied().chain([hex.as_str()]) {
                assert!(!text.to_lowercase().contains(canary), "{surface} shows a secret: {text}");
            }
        }
    }
}

fn loader() -> Loader<Args> {
    let file = format!(
        "[store]\ntoken = '{OTHER}'\npin = {NUMBER}\nmany = ['{TEXT}', '{OTHER}']\nby_name = {{ a = {NUMBER} }}\n\
         [profile.p.store]\ntoken = '{TEXT}'\n"
    );
    Args::loader()
        .facts(Facts::for_test())
        .text("app.toml", file)
        .env([("APP_STORE_OTHER", OTHER), ("APP_STORE_KEY", TEXT)])
        .args(["app", "--token", TEXT, "--profile=p"])
}

#[test]
fn what_a_program_holds_shows_no_secret() {
    let mut seen = Seen::default();
    let record = loader().record().unwrap();
    seen.debug("record", &record);
    seen.text(
        "entries",
        &format!("{:?}", record.entries().map(|(path, by, value)| (path, by.clone(), value)).collect::<Vec<_>>()),
    );
    seen.debug("warnings", &record.warnings());
    let resolved = record.resolve(&Facts::for_test()).unwrap();
    seen.debug("resolved", &resolved);
    let resolved = resolved
        .declare("a key ring was found", |o| o.store().by_name(Some(Secret::new([("a".to_owned(), NUMBER)].into()))))
        .unwrap();
    seen.debug("declared", &resolved);
    let cfg = resolved.publish();
    assert_eq!(cfg.pin().store().token().expose(), TEXT);
    assert_eq!(cfg.pin().store().header().expose(), &format!("Bearer {TEXT}"));

    seen.debug("context", &cfg);
    seen.debug("bag", cfg.pin().store());
    seen.debug("leaf", &cfg.pin().store().token());
    seen.debug("reader", &cfg.reader());
    seen.debug("values", &cfg.values());
    let leaves = ["token", "other", "pin", "many", "by_name", "size", "header"].map(|name| format!("store.{name}"));
    for leaf in &leaves {
        seen.debug("value", &cfg.value(leaf));
        seen.text("value", &cfg.value(leaf).unwrap());
        let explanation = cfg.explain(leaf).unwrap();
        seen.text("explain", &&explanation);
        seen.debug("explain", &explanation);
    }
    let (_, captured) = cfg.capture(|now| now.store().token().expose().len() + now.store().header().expose().len());
    seen.debug("captured", &captured);
    seen.debug("snapshot", &cfg.snapshot());
    let received = cfg.snapshot().publish::<Args>().unwrap();
    assert_eq!(received.pin().store().many().unwrap().expose(), &[TEXT, OTHER]);
    seen.debug("received", &received);
    seen.text("received", &received.explain("store.token").unwrap());

    // Changes of every form, and what is said of them.
    let mut subscription = cfg.subscribe("watcher");
    let asked = cfg.subscribe_with_veto("doubter", |old, new| {
        Err(format!("{:?} {:?} {:?}", old.store(), new.store().token(), new.store().header()))
    });
    let veto = cfg.override_permanently("refused", |o| o.store().token(Secret::new(OTHER.to_owned()))).unwrap_err();
    seen.text("veto", &&veto);
    drop(asked);
    let (sender, persisted) = mpsc::channel();
    cfg.persist_with(move |values| sender.send(format!("{values:?}")).map_err(|error| error.to_string()));
    cfg.override_permanently("rotated", |o| {
        o.store().token(Secret::new(OTHER.to_owned()));
        o.store().size(4);
    })
    .unwrap();
    let persisted = persisted.recv().unwrap();
    assert!(
        persisted.contains("store.size") && !persisted.contains("store.token"),
        "no secret is handed over: {persisted}"
    );
    seen.text("persisted", &persisted);
    cfg.override_by_name("admin", &[("store.token", TEXT)]).unwrap();
    seen.text("by name", &cfg.override_by_name("admin", &[("store.pin", TEXT)]).unwrap_err());
    seen.text("by name", &cfg.override_by_name("admin", &[("store.size", "10"), ("store.token", OTHER)]).unwrap_err());
    let guard = cfg.override_with("burst", |o| o.store().token(Secret::new(OTHER.to_owned()))).unwrap();
    seen.debug("guard", &guard);
    let thread = cfg.override_thread("here", |o| o.store().token(Secret::new(OTHER.to_owned()))).unwrap();
    seen.debug("thread", &thread);
    seen.text("explain in a scope", &cfg.explain("store.header").unwrap());
    drop(thread);
    let child = cfg.child("child", |o| {
        o.store().pin(Some(Secret::new(NUMBER)));
        o.store().token(Secret::new(TEXT.to_owned()));
    });
    let child = child.unwrap();
    seen.debug("child", &child);
    seen.text("child", &child.explain("store.pin").unwrap());
    let update = subscription.wait(Duration::from_secs(20)).unwrap();
    seen.debug("update", &update);
    seen.debug("subscription", &subscription);
    drop(child);

    // Input that changed, and what that is refused for.
    let moved = loader().args(["app", "--pin=22", "--token", OTHER]);
    let error = cfg.reload(&moved).unwrap_err();
    assert!(error.to_string().contains("store.pin: changed from"), "{error}");
    seen.text("reload", &error);
    let dropped = cfg.republish(moved.resolve().unwrap(), Outstanding::Drop).unwrap();
    seen.debug("dropped", &dropped);
    for change in cfg.history() {
        seen.text("history", &&change);
        seen.debug("history", &change);
    }
    assert!(cfg.history().len() > 3);

    let redacted = seen.texts.iter().filter(|(_, text)| text.contains("<redacted>")).count();
    assert!(redacted > 20, "{redacted}");
    seen.check();
    // The one way in which it leaves: data for another process.
    assert!(serde_json::to_string(&received.snapshot()).unwrap().contains(TEXT));
}

#[test]
fn what_is_made_from_the_schema_shows_no_secret() {
    let mut seen = Seen::default();
    for text in [
        export::json_schema::<Args>(),
        export::markdown::<Args>(),
        export::toml_template::<Args>(),
        export::listing::<Args>(),
        export::man::<Args>(Command::new("app")),
        export::completion::<Args>(Command::new("app"), export::Shell::Bash),
    ] {
        assert!(text.contains("token"));
        seen.text("document", &text);
    }
    seen.text("help", &loader().args(["app", "--token", TEXT, "--help"]).load().unwrap_err());
    seen.debug("schema", &Args::SCHEMA.leaves);
    seen.check();
}

#[test]
fn what_is_said_of_faults_shows_no_secret() {
    let mut seen = Seen::default();
    let files = [
        // Of another type, out of reach, or refused by a check.
        format!("[store]\ntoken = ['{TEXT}']"),
        format!("[store]\ntoken = {NUMBER}"),
        format!("[store.token]\nvalue = '{TEXT}'"),
        format!("[store]\npin = '{TEXT}'"),
        format!("[store]\npin = -{NUMBER}"),
        format!("[store]\npin = {NUMBER}{NUMBER}{NUMBER}"),
        format!("[store]\npin = {NUMBER}.5"),
        format!("[store]\npin = {}", NUMBER + 1),
        format!("[store]\nmany = ['{TEXT}', {NUMBER}]"),
        format!("[store]\nmany = [{{ a = '{TEXT}' }}]"),
        format!("[store]\nby_name = {{ a = '{TEXT}' }}"),
        format!("[store]\nby_name = {{ a = {NUMBER}{NUMBER}{NUMBER} }}"),
        format!("[store]\nkey = {NUMBER}"),
        format!("[store]\npassword = {NUMBER}"),
        // In the wrong place, or twice.
        format!("store = '{TEXT}'"),
        format!("[store]\ntokn = '{TEXT}'"),
        format!("token = '{TEXT}'"),
        format!("[store]\ntoken = '{TEXT}'\ntoken = '{OTHER}'"),
        format!("[store]\ntoken = '{TEXT}'\npassword = '{OTHER}'"),
        format!("[store]\nsize = 99\ntoken = '{TEXT}'"),
        format!("[profile]\nprod = '{TEXT}'"),
        format!("profile = '{TEXT}'"),
        // Not well-formed.
        format!("[store]\ntoken = {TEXT}"),
        format!("[store]\ntoken = '{TEXT}"),
        format!("[store]\ntoken = \"{TEXT}\\q\""),
        format!("[store]\ntoken '{TEXT}'"),
        format!("[store]\ntoken = '{TEXT}' '{OTHER}'"),
    ];
    for text in files {
        let errors = Args::loader().text("a.toml", &text).load().unwrap_err();
        seen.text("toml", &&errors);
        seen.debug("toml", &errors.iter().collect::<Vec<_>>());
    }
    for text in [
        TEXT.to_owned(),
        format!("- {TEXT}"),
        format!("store: {TEXT}"),
        format!("store: {{token: [{TEXT}]}}"),
        format!("store: {{token: !{OTHER} {TEXT}}}"),
        format!("store:\n  token: *{TEXT}"),
        format!("store:\n  token: {TEXT}: {OTHER}"),
        format!("store:\n  token: \"{TEXT}"),
    ] {
        seen.text("yaml", &Args::loader().text("a.yaml", &text).load().unwrap_err());
    }
    for text in [
        format!("\"{TEXT}\""),
        format!("[\"{TEXT}\"]"),
        format!("{{\"store\": \"{TEXT}\"}}"),
        format!("{{\"store\": {{\"token\": {TEXT}}}}}"),
        format!("{{\"store\": {{\"token\": \"{TEXT}}}}}"),
        format!("{{\"store\": {{\"token\": \"{TEXT}\" \"{OTHER}\"}}}}"),
        format!("{{\"store\": {{\"pin\": \"{TEXT}\"}}}}"),
    ] {
        seen.text("json", &Args::loader().text("a.json", &text).load().unwrap_err());
    }
    for (name, value) in [
        ("APP_STORE_PIN", TEXT.to_owned()),
        ("APP_STORE_PIN", format!("-{NUMBER}")),
        ("APP_STORE_PIN", (NUMBER + 1).to_string()),
        ("APP_STORE_BY_NAME", format!("a={TEXT}")),
        ("APP_STORE_TOKN", TEXT.to_owned()),
        ("APP_STORE", TEXT.to_owned()),
    ] {
        seen.text("env", &Args::loader().env([(name, value)]).load().unwrap_err());
    }
    for args in [
        vec!["--pin".to_owned(), TEXT.to_owned()],
        vec![format!("--pin=-{NUMBER}")],
        vec!["--pin".to_owned(), format!("-{TEXT}")],
        vec![format!("--tokn={TEXT}")],
        vec!["--tokn".to_owned(), TEXT.to_owned()],
        vec!["--token".to_owned(), TEXT.to_owned(), format!("--token={OTHER}")],
        vec!["--token".to_owned(), TEXT.to_owned(), "--password".to_owned(), OTHER.to_owned()],
        vec![format!("-token={TEXT}")],
        vec![format!("--no-token={TEXT}")],
        vec!["--config".to_owned(), "none.toml".to_owned(), "--token".to_owned(), TEXT.to_owned()],
        vec!["--size=99".to_owned(), format!("--token={TEXT}")],
    ] {
        let args = std::iter::once("app".to_owned()).chain(args);
        seen.text("flags", &Args::loader().args(args).load().unwrap_err());
    }
    // A rule over several leaves shows what they are.
    let rule = Args::loader().args(["app".to_owned(), format!("--token={TEXT}"), "--pin=2".to_owned()]).load();
    let rule = rule.unwrap_err().to_string();
    assert!(
        rule.contains("too short (store.token = \"<redacted>\", store.pin = \"<redacted>\", store.size = 3)"),
        "{rule}"
    );
    seen.text("rule", &rule);
    seen.check();
}

#[test]
fn an_optional_secret_is_there_or_not() {
    let without = Args::loader().env([("APP_STORE_TOKEN", TEXT)]).load().unwrap();
    assert_eq!(without.pin().store().other(), None);
    assert_eq!(without.explain("store.other").unwrap().value(), "unset");
    let with = Args::loader().env([("APP_STORE_TOKEN", TEXT), ("APP_STORE_OTHER", OTHER)]).load().unwrap();
    assert_eq!(with.pin().store().other().map(|other| other.expose().as_str()), Some(OTHER));
    // Whether it is set is no secret.
    assert_eq!(with.explain("store.other").unwrap().value(), "\"<redacted>\"");
    const { assert!(<Option<Secret<String>>>::SECRET) };
}
