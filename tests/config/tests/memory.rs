//! Memory stays flat over many changes.
//!
//! `cargo test --release -p config-tests --test memory -- --ignored` makes a million of them.
#![cfg(target_os = "linux")]

use config_tests::{Schedule, Service};
use kitbag::ConfigNamespaces;

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    service: Service,
}

/// Resident memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_hundred_thousand_commits_leave_memory_flat() {
    commits_leave_memory_flat(100_000);
}

#[test]
#[ignore = "takes a minute without optimisation; CI makes a tenth of the commits"]
fn a_million_commits_leave_memory_flat() {
    commits_leave_memory_flat(1_000_000);
}

/// The only test of its process that allocates much: memory is that of all.
fn commits_leave_memory_flat(commits: u64) {
    let cfg = Args::for_test(|_| {});
    let mut subscriber = cfg.subscribe("slow");
    // Three commits, a scope and a child.
    let change = |round: usize| {
        let chunk = 1 + round % 500;
        cfg.override_permanently("step", |o| o.schedule().chunk(chunk)).expect("valid");
        drop(
            cfg.override_with("guard", |o| {
                o.service().title(format!("title {round}"));
            })
            .expect("valid"),
        );
        drop(cfg.override_thread("scope", |o| o.schedule().chunk(chunk)).expect("valid"));
        drop(cfg.child("child", |o| o.schedule().page_size(8)).expect("valid"));
    };
    (0..2_000).for_each(change);
    let (before, epoch) = (resident(), cfg.epoch());
    let mut round = 0;
    while cfg.epoch() - epoch < commits {
        change(round);
        round += 1;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 1024, "{commits} commits left {grown} KiB behind");
    // A subscriber that never kept up is told of one change, the newest.
    let update = subscriber.wait(std::time::Duration::ZERO).expect("told");
    assert_eq!(update.epoch(), cfg.epoch());
    assert_eq!(cfg.history().len(), 64);
}
