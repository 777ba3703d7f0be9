//! Memory stays flat, and many scopes slow nothing down for others.
#![cfg(target_os = "linux")]

use std::future::Future;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};

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

/// In one test, because memory is that of the whole process.
#[test]
fn a_hundred_thousand_changes_leave_memory_flat() {
    let cfg = Args::for_test(|_| {});
    let mut subscriber = cfg.subscribe("slow");
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
    let before = resident();
    (0..25_000).for_each(change);
    let grown = resident().saturating_sub(before);
    assert!(grown < 1024, "100000 changes left {grown} KiB behind");
    // A subscriber that never kept up is told of one change, the newest.
    let update = subscriber.wait(std::time::Duration::ZERO).expect("told");
    assert_eq!(update.epoch(), cfg.epoch());
    assert_eq!(cfg.history().len(), 64);
}

#[test]
fn thousands_of_live_scopes_do_not_meet() {
    let cfg = Args::for_test(|_| {});
    let mut task = TaskContext::from_waker(Waker::noop());
    let mut scopes: Vec<_> = (1..=4000)
        .map(|chunk| {
            let mut polled = false;
            let read = std::future::poll_fn({
                let cfg = cfg.clone();
                move |_| {
                    let again = std::mem::replace(&mut polled, true);
                    if again { Poll::Ready(*cfg.pin().schedule().chunk()) } else { Poll::Pending }
                }
            });
            Box::pin(
                cfg.scope(
                    "task",
                    |o| {
                        o.schedule().chunk(chunk);
                    },
                    read,
                )
                .expect("valid"),
            )
        })
        .collect();
    for scope in &mut scopes {
        assert!(scope.as_mut().poll(&mut task).is_pending());
    }
    assert_eq!(*cfg.pin().schedule().chunk(), 512, "none of them is in force here");
    for (scope, chunk) in scopes.iter_mut().zip(1..) {
        assert_eq!(scope.as_mut().poll(&mut task), Poll::Ready(chunk));
    }
    assert!(pin!(cfg.carry(std::future::ready(()))).poll(&mut task).is_ready());
}
