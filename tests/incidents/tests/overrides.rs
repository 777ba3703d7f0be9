//! Overrides: what they reach, what they check, and what is left when they end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use config_incidents::{Engine, Strategy};
use kitbag::{ConfigNamespaces, Context};

fn chunk(cfg: &Context<Engine>) -> usize {
    *cfg.pin().schedule().chunk()
}

/// Incidents D1, D2 and D9: a restored snapshot kept stamps and permanent overrides made after it (rank 3 became 5,
/// page size stayed 64 with an empty log), and stamps survived a second publication. Here a pinned epoch and a snapshot
/// are values, and a republish that drops overrides leaves none.
#[test]
fn a_snapshot_does_not_change_afterwards() {
    let cfg = Engine::for_test(|_| {});
    let (pinned, snapshot, before) = (cfg.pin(), cfg.snapshot(), cfg.values());
    let _burst = cfg
        .override_with("burst", |o| {
            o.schedule().chunk(64);
        })
        .unwrap();
    cfg.override_permanently("stamp", |o| {
        o.spec().steps(1);
        o.schedule().max_prefill(5);
    })
    .unwrap();
    assert_eq!((*pinned.schedule().chunk(), *pinned.schedule().max_prefill()), (2048, 16384));
    assert_eq!(snapshot.publish::<Engine>().unwrap().values(), before);
    let again = Engine::loader().facts(kitbag::Facts::for_test()).resolve().unwrap();
    let dropped = cfg.republish(again, kitbag::Outstanding::Drop).unwrap();
    assert_eq!((dropped.len(), cfg.values()), (2, before));
    assert_eq!(cfg.explain("schedule.max_prefill").unwrap().steps().count(), 1, "nor does explain claim it");
}

/// Incident D3: a permanent override made inside a scope of the same leaf vanished with the scope, while log and
/// readback went on to claim it. Here both are layers, and what is claimed is what is read.
#[test]
fn a_permanent_override_inside_a_scope_survives_it() {
    let cfg = Engine::for_test(|_| {});
    for engine_wide in [true, false] {
        let wide = engine_wide.then(|| {
            cfg.override_with("scope", |o| {
                o.schedule().chunk(1);
            })
        });
        let here = (!engine_wide).then(|| {
            cfg.override_thread("scope", |o| {
                o.schedule().chunk(1);
            })
        });
        cfg.override_permanently("for good", |o| {
            o.schedule().chunk(64);
        })
        .unwrap();
        assert_eq!(chunk(&cfg), 1);
        drop((wide, here));
        assert_eq!(chunk(&cfg), 64);
        assert_eq!(cfg.value("schedule.chunk").unwrap().to_string(), "64");
        assert_eq!(cfg.explain("schedule.chunk").unwrap().value(), "64");
    }
}

/// Incident D4: scopes that ended out of order wrote back what they had saved and corrupted the base (1 became 2). Here
/// each is a layer of its own; every order of four ends at the base, and on the way the newest that is left holds.
#[test]
fn scopes_end_in_any_order() {
    fn orders(left: &[usize]) -> Vec<Vec<usize>> {
        if left.is_empty() {
            return vec![Vec::new()];
        }
        let starting_with = |first: &usize| {
            let rest: Vec<_> = left.iter().copied().filter(|other| other != first).collect();
            orders(&rest).into_iter().map(move |order| [vec![*first], order].concat()).collect::<Vec<_>>()
        };
        left.iter().flat_map(starting_with).collect()
    }
    let cfg = Engine::for_test(|_| {});
    for order in orders(&[0, 1, 2, 3]) {
        let open = |value: usize| {
            cfg.override_with("scope", |o| {
                o.schedule().chunk(value);
            })
        };
        let mut scopes: Vec<_> = (0..4).map(|value| Some(open(value).unwrap())).collect();
        for ended in order {
            scopes[ended] = None;
            let newest = scopes.iter().rposition(Option::is_some);
            assert_eq!(chunk(&cfg), newest.unwrap_or(2048));
        }
    }
}

/// Incident D5: a value derived at publication ignored overrides of its inputs. Here that is a policy which the schema
/// states; the default is to follow.
#[test]
fn derived_values_follow_overrides_of_their_inputs() {
    let cfg = Engine::for_test(|_| {});
    let extra = |cfg: &Context<Engine>| *cfg.pin().memory().extra_buffer();
    assert!(!extra(&cfg));
    let guard = cfg
        .override_with("strategy", |o| {
            o.memory().strategy(Strategy::ExtraBuffer);
        })
        .unwrap();
    assert!(extra(&cfg));
    drop(guard);
    assert!(!extra(&cfg));
}

/// Incident D6: an override took any value for any leaf, "banana" for a number among them. A wrong type does not
/// compile (`ui/fail/wrong_choice_or_type.rs`); a value out of range is refused, by every form of change, and changes
/// nothing.
#[test]
fn an_override_is_checked_like_a_source() {
    let cfg = Engine::for_test(|_| {});
    let wide = cfg.override_with("wide", |o| {
        o.spec().steps(17);
    });
    let here = cfg.override_thread("here", |o| {
        o.spec().steps(17);
    });
    let permanent = cfg.override_permanently("permanent", |o| {
        o.spec().steps(17);
    });
    let child = cfg.child("child", |o| {
        o.spec().steps(17);
    });
    let source = Engine::loader().args(["engine", "--steps", "17"]).load();
    for error in [wide.err(), here.err(), permanent.err(), child.err(), source.err()] {
        let text = error.expect("refused").to_string();
        assert!(text.contains("spec.steps: 17 is outside 1..=16"), "{text}");
    }
    assert_eq!((*cfg.pin().spec().steps(), cfg.epoch()), (1, 0));
}

/// Incident D8: inside a scope the getter said 4 and the flat read 8, and derived names were known to one of them only.
/// Here accessor, read by name, explain and listing read one epoch, scopes and derived values included.
#[test]
fn all_ways_of_reading_agree_inside_a_scope() {
    let cfg = Engine::for_test(|o| {
        o.spec().candidates(vec![8]);
    });
    let _here = cfg
        .override_thread("here", |o| {
            o.spec().steps(7);
        })
        .unwrap();
    let listed = cfg.values();
    for (path, accessor) in [("spec.steps", *cfg.pin().spec().steps()), ("spec.width", *cfg.pin().spec().width())] {
        let text = accessor.to_string();
        assert_eq!(cfg.value(path).unwrap().to_string(), text);
        assert_eq!(cfg.explain(path).unwrap().value(), text);
        assert!(listed.iter().any(|(name, value)| *name == path && value.to_string() == text));
    }
    assert_eq!(*cfg.pin().spec().width(), 8);
}

/// Incident D11: a reset left scoped overrides behind. Here there is nothing to reset: a context goes, its overrides
/// with it, and one that starts afterwards does not see the guards that are still about.
#[test]
fn nothing_of_a_context_outlives_it() {
    let first = Engine::for_test(|_| {});
    let here = first
        .override_thread("here", |o| {
            o.schedule().chunk(1);
        })
        .unwrap();
    let wide = first
        .override_with("wide", |o| {
            o.schedule().chunk(2);
        })
        .unwrap();
    assert_eq!(chunk(&first), 1);
    drop(first);
    let second = Engine::for_test(|_| {});
    assert_eq!(chunk(&second), 2048);
    drop((here, wide));
    assert_eq!((chunk(&second), second.epoch()), (2048, 0));
}

/// Incident D12: the log of overrides grew by one entry with every switch of an adaptive setting. Here history is
/// bounded and a permanent override of a leaf replaces the one before.
#[test]
fn memory_is_flat_over_many_switches() {
    let cfg = Engine::for_test(|o| {
        o.spec().candidates(vec![4]);
    });
    for switch in 0..1000 {
        cfg.override_permanently("adapt", |o| {
            o.spec().steps(if switch % 2 == 0 { 4 } else { 1 });
        })
        .unwrap();
    }
    assert_eq!(cfg.epoch(), 1000);
    assert!(cfg.history().len() < 100, "{}", cfg.history().len());
    assert_eq!(cfg.explain("spec.steps").unwrap().steps().count(), 2);
    let last = cfg.history().pop().unwrap();
    assert_eq!(last.leaves().next(), Some(("spec.steps", "4", "1")), "with the value before, the caller and the time");
    assert!(last.what().contains("overrides.rs"), "{last}");
}

/// Incident D17: reading a width cost seven times as much as reading another leaf, because it passed three tables. Here
/// every value, derived ones among them, lies in the bag that the accessor was called on.
#[test]
fn every_value_lies_in_its_bag() {
    fn lies_in<B, T>(bag: &B, value: &T) -> bool {
        let (start, at) = (std::ptr::from_ref(bag).addr(), std::ptr::from_ref(value).addr());
        (start..start + size_of::<B>()).contains(&at)
    }
    let now = Engine::for_test(|_| {}).pin();
    assert!(lies_in(now.schedule(), &*now.schedule().chunk()));
    assert!(lies_in(now.schedule(), &*now.schedule().prefill_buffer()));
    assert!(lies_in(now.parallel(), &*now.parallel().attn_tp()));
    assert!(lies_in(now.spec(), &*now.spec().width()));
}

/// Incident 59: a fixture was restored when the garbage collector came by, which un-published the configuration in the
/// middle of another test. Here a guard ends where its owner ends, by return or by panic.
#[test]
fn a_guard_ends_with_its_owner() {
    let cfg = Engine::for_test(|_| {});
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _wide = cfg
            .override_with("fixture", |o| {
                o.schedule().chunk(1);
            })
            .unwrap();
        let _here = cfg
            .override_thread("fixture", |o| {
                o.schedule().chunk(2);
            })
            .unwrap();
        assert_eq!(chunk(&cfg), 3, "the test fails");
    }));
    assert!(panicked.is_err());
    assert_eq!(chunk(&cfg), 2048);
}
