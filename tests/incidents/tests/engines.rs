//! Several engines in one process, several threads, several tests.

use std::time::Duration;

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Context, Errors};

/// Incident 35 (revert 32100, second fault; PR 32137): two engines in a process shared one gate for adapters and one
/// readback, because both asked the process. Here each asks its own context.
#[test]
fn two_engines_answer_for_themselves() {
    fn admits(engine: &Context<Engine>, adapter: &str) -> bool {
        let now = engine.pin();
        now.lora().enabled() && now.lora().adapters().iter().any(|loaded| loaded == adapter)
    }
    let with = Engine::for_test(|o| {
        o.lora().enabled(true);
        o.lora().adapters(vec!["a".to_owned()]);
        o.serving().port(1);
    });
    let without = Engine::for_test(|o| {
        o.serving().port(2);
    });
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    assert_eq!((admits(&with, "a"), admits(&without, "a")), (true, false));
                    assert_eq!((with.pin().serving().port(), without.pin().serving().port()), (1, 2));
                    let readback = |engine: &Context<Engine>| engine.value("serving.port").unwrap().to_string();
                    assert_eq!((readback(&with), readback(&without)), ("1".to_owned(), "2".to_owned()));
                }
            });
        }
    });
    drop(with);
    assert_eq!(without.pin().serving().port(), 2);
}

/// Incident 45 (PR 31084): each tokenizer worker had a registry of adapters of its own, so a request was refused by the
/// worker that had not loaded its adapter. Here a change is one epoch, and it can be waited for until all say they have
/// it.
#[test]
fn a_change_can_be_waited_for_until_every_worker_has_it() -> Result<(), Errors> {
    let cfg = Engine::for_test(|o| {
        o.lora().enabled(true);
    });
    let (mut a, mut b) = (cfg.subscribe("worker a"), cfg.subscribe("worker b"));
    cfg.override_permanently("adapter loaded", |o| {
        o.lora().adapters(vec!["new".to_owned()]);
    })?;
    let update = a.wait(Duration::ZERO).expect("told");
    assert!(update.changed(&Engine::keys().lora.adapters));
    a.acknowledge(&update);
    assert_eq!(cfg.wait_applied(cfg.epoch(), Duration::ZERO), Err(vec!["worker b".to_owned()]));
    let update = b.wait(Duration::ZERO).expect("told");
    assert_eq!(*update.pin().lora().adapters(), ["new"]);
    b.acknowledge(&update);
    assert_eq!(cfg.wait_applied(cfg.epoch(), Duration::ZERO), Ok(()));
    Ok(())
}

/// Incident 58 (PR 33171): restoring an empty slot left bags behind, stand-in records accepted any name, and tests
/// passed or failed by their order. Here each test has a context of its own, made of real values, and there is no slot.
#[test]
fn tests_with_contexts_of_their_own_do_not_meet() {
    let untouched = Engine::for_test(|_| {}).values();
    std::thread::scope(|scope| {
        for number in 1..=4 {
            let untouched = &untouched;
            scope.spawn(move || {
                for _ in 0..50 {
                    let cfg = Engine::for_test(|o| {
                        o.schedule().page_size(number);
                    });
                    let _entered = cfg.enter();
                    let _guard = cfg.override_with("test", |o| {
                        o.schedule().chunk(number);
                    });
                    let now = Context::<Engine>::current().unwrap().pin();
                    assert_eq!((now.schedule().page_size(), *now.schedule().chunk()), (number, number));
                }
                assert!(Context::<Engine>::current().is_err());
                assert_eq!(&Engine::for_test(|_| {}).values(), untouched);
            });
        }
    });
}
