//! Overrides as layers, load-time declarations, children, several contexts at once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use config_tests::{Exec, Schedule, Service};
use kitbag::{ConfigNamespaces, Context, Facts};

/// An engine.
#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    schedule: Schedule,
    #[config(nested)]
    exec: Exec,
    #[config(nested)]
    service: Service,
}

fn chunk(cfg: &Context<Args>) -> usize {
    *cfg.pin().schedule().chunk()
}

#[test]
fn guards_drop_in_any_order() {
    let cfg = Args::for_test(|_| {});
    let a = cfg.override_with("a", |o| o.schedule().chunk(100)).unwrap();
    let b = cfg.override_with("b", |o| o.schedule().chunk(200)).unwrap();
    let c = cfg.override_with("c", |o| o.service().temperature(0.5)).unwrap();
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (200, 0.5));
    drop(a);
    assert_eq!(chunk(&cfg), 200);
    drop(c);
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (200, 0.0));
    drop(b);
    assert_eq!(chunk(&cfg), 512);
}

#[test]
fn a_pinned_epoch_never_changes() {
    let cfg = Args::for_test(|_| {});
    let before = cfg.pin();
    let guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
    let during = cfg.pin();
    drop(guard);
    assert_eq!((*before.schedule().chunk(), *during.schedule().chunk(), chunk(&cfg)), (512, 100, 512));
}

#[test]
fn a_panic_restores() {
    let cfg = Args::for_test(|_| {});
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
        panic!("while overridden");
    }));
    assert!(result.is_err());
    assert_eq!(chunk(&cfg), 512);
    // A panic in the setter's closure changes nothing and does not block the context.
    let result = catch_unwind(AssertUnwindSafe(|| cfg.override_with("x", |_| panic!("while setting"))));
    assert!(result.is_err());
    let guard = cfg.override_with("y", |o| o.schedule().chunk(7)).unwrap();
    assert_eq!(chunk(&cfg), 7);
    drop(guard);
}

#[test]
fn a_refused_override_changes_nothing_and_says_why() {
    let cfg = Args::for_test(|_| {});
    let out_of_range = cfg.override_with("hot head", |o| o.service().temperature(3.0)).unwrap_err();
    let text = out_of_range.to_string();
    assert!(text.contains("\"hot head\"") && text.contains("service.temperature: 3.0 is outside 0.0..=2.0"), "{text}");
    let broken_rule = cfg.override_with("x", |o| o.schedule().chunk(5000)).unwrap_err();
    let text = broken_rule.to_string();
    assert!(
        text.contains("a chunk is larger than the cache (schedule.chunk = 5000, schedule.max_tokens = 4096)"),
        "{text}"
    );
    assert_eq!((chunk(&cfg), *cfg.pin().service().temperature()), (512, 0.0));
}

#[test]
fn guards_may_end_on_another_thread() {
    let cfg = Args::for_test(|_| {});
    let guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
    let seen = std::thread::spawn({
        let cfg = cfg.clone();
        move || {
            let seen = chunk(&cfg);
            drop(guard);
            seen
        }
    });
    assert_eq!(seen.join().unwrap(), 100);
    assert_eq!(chunk(&cfg), 512);
}

#[test]
fn contexts_do_not_meet() {
    std::thread::scope(|scope| {
        for number in 1..=4 {
            scope.spawn(move || {
                let cfg = Args::for_test(|o| o.schedule().page_size(number));
                for step in 1..200 {
                    let guard = cfg.override_with("x", |o| o.schedule().chunk(number * step)).unwrap();
                    assert_eq!((cfg.pin().schedule().page_size(), chunk(&cfg)), (number, number * step));
                    drop(guard);
                }
                assert_eq!(chunk(&cfg), 512);
            });
        }
    });
}

#[test]
fn a_guard_that_outlives_its_context_is_harmless() {
    let cfg = Args::for_test(|_| {});
    let guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
    drop(cfg);
    assert!(!guard.is_suspended());
    drop(guard);
}

#[test]
fn racing_overrides_lose_no_update() {
    let cfg = Args::for_test(|_| {});
    std::thread::scope(|scope| {
        let one = scope.spawn(|| {
            (1..=200).map(|i| cfg.override_with("one", |o| o.schedule().chunk(i)).unwrap()).collect::<Vec<_>>()
        });
        let two = scope.spawn(|| {
            (1..=200u64)
                .map(|i| cfg.override_with("two", |o| o.service().patience(std::time::Duration::from_secs(i))).unwrap())
                .collect::<Vec<_>>()
        });
        let guards = (one.join().unwrap(), two.join().unwrap());
        assert_eq!((chunk(&cfg), cfg.pin().service().patience().as_secs()), (200, 200));
        drop(guards);
    });
    assert_eq!((chunk(&cfg), cfg.pin().service().patience().as_millis()), (512, 1500));
}

#[test]
fn load_time_declarations_reach_every_reader() {
    let resolved = Args::loader().facts(Facts::for_test()).resolve().unwrap();
    let resolved = resolved.declare("the checkpoint is short", |o| o.schedule().max_tokens(1024)).unwrap();
    let refused = Args::loader().facts(Facts::for_test()).resolve().unwrap();
    let range = refused.declare("nothing", |o| o.schedule().max_tokens(0)).unwrap_err();
    assert!(range.to_string().contains("schedule.max_tokens: 0 is outside 1.."), "{range}");
    let refused = Args::loader().facts(Facts::for_test()).resolve().unwrap();
    let errors = refused.declare("too short", |o| o.schedule().max_tokens(100)).unwrap_err();
    assert!(errors.to_string().contains("a chunk is larger than the cache"), "{errors}");
    let cfg = resolved.publish();
    assert_eq!((cfg.pin().schedule().max_tokens(), *cfg.pin().schedule().pages()), (1024, 64));
    let explanation = cfg.explain("schedule.max_tokens").unwrap().to_string();
    assert!(explanation.contains("load time \"the checkpoint is short\""), "{explanation}");
}

#[test]
fn what_was_read_before_publish_is_not_declared_any_more() {
    let resolved = || Args::loader().facts(Facts::for_test()).resolve().unwrap();
    let mut early = resolved();
    assert_eq!(early.read_early(|now| now.schedule().page_size()), 16);
    let early = early.declare("other leaves may follow", |o| o.schedule().max_tokens(1024)).unwrap();

    let mut late = early;
    assert_eq!(late.read_early(|now| now.schedule().max_tokens()), 1024, "an early read sees what is declared by then");
    let mut late = late.declare("the same again", |o| o.schedule().max_tokens(1024)).unwrap();
    assert_eq!(late.read_early(|now| now.schedule().max_tokens()), 1024);
    let errors = late.declare("another file", |o| o.schedule().max_tokens(2048)).unwrap_err();
    assert_eq!(errors.iter().count(), 1, "it is read twice, and told once: {errors}");
    let errors = errors.to_string();
    assert!(errors.contains("load time \"another file\""), "{errors}");
    assert!(errors.contains("schedule.max_tokens: declared as 2048 after it was read as 1024"), "{errors}");

    // What was found left open is not settled, and what was not is.
    let mut open = resolved();
    let below = |limit| move |now: &ArgsRecording| Some(now.schedule().max_tokens()).filter(|tokens| *tokens < limit);
    assert_eq!(open.try_read_early(below(4096)), None);
    let mut open = open.declare("it is short", |o| o.schedule().max_tokens(1024)).unwrap();
    assert_eq!(open.try_read_early(below(4096)), Some(1024));
    let errors = open.declare("another file", |o| o.schedule().max_tokens(2048)).unwrap_err().to_string();
    assert!(errors.contains("schedule.max_tokens: declared as 2048 after it was read as 1024"), "{errors}");

    // What follows from a declaration is read too early all the same.
    let mut derived = resolved();
    assert_eq!(derived.read_early(|now| *now.schedule().pages()), 256);
    let errors = derived.declare("short", |o| o.schedule().max_tokens(1024)).unwrap_err().to_string();
    assert!(errors.contains("schedule.pages: declared as 64 after it was read as 256"), "{errors}");
}

#[test]
fn a_decision_looks_at_what_is_set_and_leaves_it_alone() {
    let decided = |argv: &[&str]| {
        let resolved = Args::loader().args(argv.iter().copied()).facts(Facts::for_test()).resolve().unwrap();
        let resolved = resolved.decide("at most 1024", |now, o| {
            let tokens = now.schedule().max_tokens();
            if tokens > 1024 {
                o.schedule().max_tokens(1024);
            }
        });
        let cfg = resolved.unwrap().publish();
        (
            cfg.pin().schedule().max_tokens(),
            cfg.explain("schedule.max_tokens").unwrap().to_string().contains("load time"),
        )
    };
    assert_eq!(decided(&["test"]), (1024, true));
    assert_eq!(decided(&["test", "--max-tokens=600"]), (600, false));
}

#[test]
fn a_child_shadows_and_follows() {
    let cfg = Args::for_test(|_| {});
    let draft = cfg.child("draft", |o| o.schedule().page_size(32)).unwrap();
    assert_eq!((draft.pin().schedule().page_size(), *draft.pin().schedule().pages()), (32, 128));
    assert_eq!((cfg.pin().schedule().page_size(), *cfg.pin().schedule().pages()), (16, 256));
    let guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
    assert_eq!((chunk(&cfg), chunk(&draft)), (100, 100));
    let own = draft.override_with("y", |o| o.schedule().chunk(50)).unwrap();
    assert_eq!((chunk(&cfg), chunk(&draft)), (100, 50));
    drop(guard);
    assert_eq!((chunk(&cfg), chunk(&draft)), (512, 50));
    drop(own);
    assert_eq!((chunk(&cfg), chunk(&draft)), (512, 512));
    let explanation = draft.explain("schedule.page_size").unwrap().to_string();
    assert!(explanation.contains("> child \"draft\""), "{explanation}");
    drop(draft);
    let guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
    drop(guard);
}

#[test]
fn a_child_follows_through_a_context_that_nobody_holds() {
    let cfg = Args::for_test(|_| {});
    let middle = cfg.child("middle", |o| o.schedule().page_size(32)).unwrap();
    let draft = middle.child("draft", |o| o.service().title("draft")).unwrap();
    drop(middle);
    let guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
    assert_eq!((chunk(&draft), draft.pin().schedule().page_size()), (100, 32));
    drop(guard);
    assert_eq!(chunk(&draft), 512);
}

#[test]
fn a_parent_commit_that_breaks_a_child_is_refused() {
    let cfg = Args::for_test(|_| {});
    let small = cfg.child("small", |o| o.schedule().max_tokens(600)).unwrap();
    let errors = cfg.override_with("x", |o| o.schedule().chunk(1000)).unwrap_err();
    assert!(errors.to_string().contains("child context `small`"), "{errors}");
    assert_eq!((chunk(&cfg), chunk(&small)), (512, 512));
    drop(small);
    assert!(cfg.override_with("x", |o| o.schedule().chunk(1000)).is_ok());
}

#[test]
fn removal_always_succeeds_and_suspends_what_no_longer_fits() {
    let cfg = Args::for_test(|_| {});
    let small = cfg.override_with("small", |o| o.schedule().chunk(300)).unwrap();
    // Valid only while the chunk is small.
    let child = cfg.child("child", |o| o.schedule().max_tokens(400)).unwrap();
    drop(small);
    assert_eq!(chunk(&cfg), 512);
    // Without its layer the child reads the parent's value, and says so.
    assert_eq!(child.pin().schedule().max_tokens(), 4096);
    let explanation = child.explain("schedule.max_tokens").unwrap();
    let (steps, text): (Vec<_>, _) = (explanation.steps().collect(), explanation.to_string());
    let [.., (origin, "4096"), (_, "400")] = steps[..] else { panic!("{text}") };
    assert_eq!(explanation.origin(), origin, "that of the value in force");
    let marked: Vec<_> = text.lines().filter(|line| line.starts_with('>')).collect();
    assert_eq!(marked, [format!("> {origin}: 4096")], "{text}");
    let suspended = text.lines().filter(|line| line.contains("(suspended: "));
    assert!(suspended.eq(text.lines().last()), "{text}");
    // What made it invalid goes away: the layer is back.
    let smaller = cfg.override_with("again", |o| o.schedule().chunk(200)).unwrap();
    assert_eq!((chunk(&child), child.pin().schedule().max_tokens()), (200, 400));
    drop(smaller);
}

#[test]
fn what_fits_no_more_is_set_aside_alone_and_changes_go_on() {
    let cfg = Args::for_test(|_| {});
    let small = cfg.override_with("small", |o| o.schedule().chunk(300)).unwrap();
    let child = cfg.child("child", |o| o.schedule().max_tokens(400)).unwrap();
    let title = child.override_with("title", |o| o.service().title("x")).unwrap();
    let seen = || (child.pin().schedule().max_tokens(), chunk(&child), child.pin().service().title().to_string());
    drop(small);
    assert_eq!(seen(), (4096, 512, "x".to_owned()));
    assert!(!title.is_suspended());
    // One that is valid without what is set aside is made, and one that is not is refused.
    let large = child.override_with("large", |o| o.schedule().chunk(3000)).unwrap();
    assert_eq!(chunk(&child), 3000);
    let errors = child.override_with("beyond", |o| o.schedule().chunk(5000)).unwrap_err();
    assert!(errors.to_string().contains("a chunk is larger than the cache"), "{errors}");
    assert_eq!(chunk(&child), 3000);
    let _again = cfg.override_with("again", |o| o.schedule().chunk(200)).unwrap();
    assert!(!large.is_suspended());
    // When something goes, the oldest that fits comes back first.
    drop(title);
    assert_eq!(seen(), (400, 200, "thumbs".to_owned()));
    assert!(large.is_suspended());
}

#[test]
fn every_child_follows_and_says_so() {
    let cfg = Args::for_test(|_| {});
    let children = ["one", "other"].map(|name| cfg.child(name, |_| {}).unwrap());
    let _guard = cfg.override_with("x", |o| o.schedule().chunk(77)).unwrap();
    for child in &children {
        assert_eq!(chunk(child), 77);
        let explanation = child.explain("schedule.chunk").unwrap();
        assert!(explanation.value() == "77" && explanation.origin() != "default", "{explanation}");
    }
}

#[test]
fn the_context_entered_before_is_current_again() {
    let [one, other] = [1, 2].map(|size| Args::for_test(move |o| o.schedule().chunk(size)));
    let current = || Context::<Args>::current().ok().map(|cfg| chunk(&cfg));
    let first = one.enter();
    let second = other.enter();
    assert_eq!(current(), Some(2));
    drop(second);
    assert_eq!(current(), Some(1));
    let second = other.enter();
    drop(first);
    assert_eq!(current(), Some(2));
    drop(second);
    assert_eq!(current(), None);
}

#[test]
fn explain_shows_the_whole_chain() {
    let cfg = Args::for_test(|o| o.schedule().chunk(256));
    let _guard = cfg.override_with("burst", |o| o.schedule().chunk(128)).unwrap();
    let explanation = cfg.explain("schedule.chunk").unwrap();
    let values: Vec<_> = explanation.steps().map(|(_, value)| value.to_owned()).collect();
    assert_eq!((values, explanation.value()), (vec!["512".to_owned(), "256".into(), "128".into()], "128"));
    let text = explanation.to_string();
    assert!(text.contains("> override 0 \"burst\" (") && text.contains("overrides.rs:"), "{text}");
    let derived = cfg.explain("schedule.pages_and_spare").unwrap();
    assert_eq!(derived.inputs()[0].path(), "schedule.pages");
    assert_eq!(derived.inputs()[0].inputs().len(), 2);
    assert_eq!(cfg.explain("schedule.chunks").unwrap_err().suggestion(), Some("did you mean `schedule.chunk`?"));
    // A leaf is known by the end of its path, its flag and its variable, too.
    for name in ["chunk", "--chunk", "ENGINE_SCHEDULE_CHUNK", "schedule-chunk"] {
        assert_eq!(cfg.explain(name).unwrap_err().suggestion(), Some("did you mean `schedule.chunk`?"), "{name}");
    }
    let namespace = cfg.explain("schedule").unwrap_err();
    assert!(namespace.to_string().starts_with("`schedule` is a namespace"), "{namespace}");
    assert!(namespace.suggestion().unwrap().contains("such as `schedule."), "{namespace}");
    for nothing in ["", "-", "chu_nk", "zzz"] {
        assert_eq!(cfg.explain(nothing).unwrap_err().suggestion(), None, "{nothing}");
    }
}

#[test]
fn memory_is_flat_over_many_overrides() {
    let cfg = Args::for_test(|_| {});
    for i in 1..=10_000 {
        drop(cfg.override_with("x", |o| o.schedule().chunk(1 + i % 500)).unwrap());
    }
    // Layers and their origins are gone: the chain is as it was.
    assert_eq!(cfg.explain("schedule.chunk").unwrap().steps().count(), 1);
}

/// Rules over settings that a child shadows.
mod rules {
    use kitbag::{ConfigNamespaces, Facts};

    #[derive(ConfigNamespaces)]
    pub(super) struct Args {
        /// Ranks.
        #[config(ns = "parallel", default = 1)]
        ranks: usize,
        /// Tokens of one rank; shared out unless set.
        #[config(ns = "schedule", auto = per_rank(parallel.ranks))]
        per_rank: usize,
        /// Follows that.
        #[config(ns = "schedule", auto = twice(schedule.per_rank, facts))]
        buffer: usize,
    }

    fn per_rank(ranks: usize) -> usize {
        8192 / ranks
    }

    fn twice(per_rank: usize, _: &Facts) -> usize {
        2 * per_rank
    }
}

#[test]
fn rules_choose_anew_for_a_child_unless_somebody_chose() {
    use rules::Args;
    let sizes = |cfg: &Context<Args>| (cfg.pin().schedule().per_rank(), cfg.pin().schedule().buffer());
    let cfg = Args::for_test(|_| {});
    let child = cfg.child("child", |o| o.parallel().ranks(4)).unwrap();
    assert_eq!((sizes(&cfg), sizes(&child)), ((8192, 16384), (2048, 4096)));
    let explanation = child.explain("schedule.buffer").unwrap().to_string();
    assert!(explanation.contains("> rule `twice`: 4096"), "{explanation}");
    let chosen = cfg
        .child("chosen", |o| {
            o.parallel().ranks(4);
            o.schedule().per_rank(100);
        })
        .unwrap();
    assert_eq!(sizes(&chosen), (100, 200));
    // What a parent chose itself, no rule of its child replaces; what a rule chose for it, is chosen anew.
    let grandchild = chosen.child("grandchild", |o| o.parallel().ranks(2)).unwrap();
    assert_eq!(sizes(&grandchild), (100, 200));
    let grandchild = child.child("grandchild", |o| o.parallel().ranks(2)).unwrap();
    assert_eq!(sizes(&grandchild), (4096, 8192));
    // Nor what one further up chose.
    let middle = chosen.child("middle", |_| {}).unwrap();
    assert_eq!(sizes(&middle.child("grandchild", |o| o.parallel().ranks(2)).unwrap()), (100, 200));
    let operator = Args::loader().facts(Facts::for_test()).args(["app", "--per-rank", "8192"]).load().unwrap();
    assert_eq!(sizes(&operator.child("child", |o| o.parallel().ranks(4)).unwrap()), (8192, 16384));
}

#[test]
fn a_value_says_whether_somebody_chose_it_and_says_so_to_another_process() {
    use rules::Args;
    let chosen = |cfg: &Context<Args>| {
        ["parallel.ranks", "schedule.per_rank"].map(|path| cfg.explain(path).unwrap().is_chosen())
    };
    let of = |flags: &[&'static str]| {
        let argv = ["app"].into_iter().chain(flags.iter().copied());
        Args::loader().facts(Facts::for_test()).args(argv).load().unwrap()
    };
    // The default itself and what the rule gives, said by somebody, are chosen.
    for (flags, expected) in
        [(&[][..], [false, false]), (&["--ranks=1"], [true, false]), (&["--per-rank=8192"], [false, true])]
    {
        let cfg = of(flags);
        assert_eq!(chosen(&cfg), expected, "{flags:?}");
        let received = cfg.snapshot().publish::<Args>().unwrap();
        assert_eq!(chosen(&received), expected, "{flags:?}, received");
        let passed_on = received.snapshot().publish::<Args>().unwrap();
        assert_eq!(chosen(&passed_on), expected, "{flags:?}, passed on");
        let child = cfg.child("child", |o| o.parallel().ranks(4)).unwrap();
        assert_eq!(chosen(&child), [true, expected[1]], "{flags:?}, a child");
    }
}

#[test]
fn a_pin_says_which_epoch_it_is() {
    let cfg = Args::for_test(|_| {});
    let before = cfg.pin();
    let _guard = cfg.override_with("x", |o| o.schedule().chunk(100)).unwrap();
    assert_eq!((before.epoch(), cfg.pin().epoch(), cfg.epoch()), (0, 1, 1));
}

#[test]
fn an_override_gives_only_what_a_source_could_give() {
    let cfg = Args::for_test(|_| {});
    let errors = cfg.override_with("a\nb", |o| o.service().temperature(f32::NAN)).unwrap_err().to_string();
    assert!(
        errors.contains("service.temperature: expected a number, found NaN") && errors.contains("\"a\\nb\""),
        "{errors}"
    );
    cfg.end_permanent("nothing to end", &["schedule.chunk"]).unwrap();
    assert_eq!((cfg.epoch(), cfg.history().len()), (0, 0));
}
