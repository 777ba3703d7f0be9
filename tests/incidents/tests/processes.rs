//! Settings that cross a process boundary.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Context, Snapshot};

/// Runs a worker that is sent this on its standard input, in an environment that says otherwise.
fn worker(sent: &str) -> Output {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
        .env("INCIDENT_SCHEDULE_CHUNK", "1")
        .env("INCIDENT_CONFIG", "/nowhere.toml")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    worker.stdin.take().unwrap().write_all(sent.as_bytes()).unwrap();
    worker.wait_with_output().unwrap()
}

fn sent(cfg: &Context<Engine>) -> String {
    serde_json::to_string(&cfg.snapshot()).unwrap()
}

fn values(cfg: &Context<Engine>) -> String {
    let lines: Vec<_> = cfg.values().iter().map(|(path, value)| format!("{path} = {value}")).collect();
    lines.join("\n")
}

fn adaptive() -> Context<Engine> {
    let cfg = Engine::for_test(|o| {
        o.spec().candidates(vec![1, 4]);
        o.spec().steps(6);
        o.lora().adapters(vec!["a".to_owned()]);
        o.parallel().tp(8);
        o.parallel().attn_dp(2);
    });
    cfg.override_permanently("adapt", |o| {
        o.spec().steps(2);
        o.schedule().chunk(64);
    })
    .unwrap();
    cfg
}

/// Incidents 2 and 32 (PRs 35023, 34094): workers of five kinds read before they had published, and published what
/// their own environment said; overrides made before the spawn were lost. Here a worker is sent the settled values with
/// overrides, and its environment has no say.
#[test]
fn a_worker_runs_with_what_it_was_sent() {
    let cfg = adaptive();
    let output = worker(&sent(&cfg));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n{}\n", cfg.fingerprint(), values(&cfg)));
}

/// Incident 44 once more: a worker that starts after adaptation sized its buffers from the width in use by then. What
/// is fixed at launch is sent with the rest, so that a capacity is the same in every process.
#[test]
fn what_was_fixed_at_launch_is_the_same_in_a_worker() {
    let cfg = adaptive();
    let received: Snapshot = serde_json::from_str(&sent(&cfg)).unwrap();
    let worker = received.publish::<Engine>().unwrap();
    let read = |cfg: &Context<Engine>| (*cfg.pin().spec().width(), cfg.pin().spec().capacity());
    assert_eq!((read(&cfg), read(&worker)), ((3, 7), (3, 7)));
    assert_eq!(worker.fingerprint(), cfg.fingerprint());
    assert_eq!(worker.snapshot(), cfg.snapshot());
}

/// Incident 32: resolution read and wrote the environment at eight places, so that a second one saw another. Here what
/// is not handed to the loader is not read.
#[test]
fn resolution_reads_the_environment_it_is_handed() {
    let variables = [("INCIDENT_SCHEDULE_CHUNK", "96"), ("PATH", "/bin")];
    let one = Engine::loader().env(variables).load().unwrap();
    let two = Engine::loader().env(variables).load().unwrap();
    assert_eq!((one.values(), *one.pin().schedule().chunk()), (two.values(), 96));
    let without = Engine::loader().load().unwrap();
    assert_eq!(*without.pin().schedule().chunk(), 2048);
}

/// Incidents 31 and 56 (the gateway's wheels): two builds that did not know of each other's settings talked. A snapshot
/// of another schema is refused, as a damaged one is, in words.
#[test]
fn a_worker_of_another_build_refuses() {
    let mut snapshot: BTreeMap<String, serde_json::Value> = serde_json::from_str(&sent(&adaptive())).unwrap();
    snapshot.insert("schema".to_owned(), "0123456789abcdef0123456789abcdef".into());
    let output = worker(&serde_json::to_string(&snapshot).unwrap());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(text.contains("made by another schema") && text.contains("same build"), "{text}");
    let damaged = sent(&adaptive()).replacen("\"spec.steps\":{\"value\":2", "\"spec.steps\":{\"value\":\"two\"", 1);
    let output = worker(&damaged);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("spec.steps: expected an integer"), "{text}");
}
