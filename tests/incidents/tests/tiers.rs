//! Raw and effective values, or two readers of one value, that disagree.

use std::panic::catch_unwind;

use config_incidents::{Attention, Engine, draft_of};
use kitbag::{ConfigNamespaces, Context, Facts, Loader};

fn loader(text: &str) -> Loader<Engine> {
    Engine::loader().facts(Facts::for_test()).text("engine.toml", text)
}

/// Incident 9 (revert 32100, first fault): a model forbade fusion while loading; that went into the record, and the
/// layers read the published bag, so that weights and layers had two layouts. Here the declaration is made before there
/// is a reader, and there is one tier to read.
#[test]
fn a_decision_taken_while_loading_reaches_every_reader() {
    let resolved = loader("").resolve().unwrap().declare("this architecture does not fuse", |o| {
        o.exec().moe().fused(false);
    });
    let cfg = resolved.unwrap().publish();
    let layer = |cfg: &Context<Engine>| cfg.pin().exec().moe().fused();
    let weights = |cfg: &Context<Engine>| cfg.capture(|now| now.exec().moe().fused()).0;
    assert_eq!((layer(&cfg), weights(&cfg), layer(&draft_of(&cfg).unwrap())), (false, false, false));
    assert_eq!(cfg.value("exec.moe.fused").unwrap().to_string(), "false");
    let explained = cfg.explain("exec.moe.fused").unwrap().to_string();
    assert!(
        explained.contains("default: true") && explained.contains("> load time \"this architecture"),
        "{explained}"
    );
}

/// Incident 10 (PR 33168): the mirror image, a gate written to the record while three readers used the bag and the
/// draft did not inherit it.
#[test]
fn a_gate_closed_while_loading_is_closed_for_the_draft_too() {
    let resolved = loader("").resolve().unwrap().declare("window attention", |o| {
        o.schedule().chunked_prefix(false);
    });
    let cfg = resolved.unwrap().publish();
    let draft = draft_of(&cfg).unwrap();
    for reader in [&cfg, &draft] {
        assert!(!reader.pin().schedule().chunked_prefix());
        assert!(!reader.reader().now().schedule().chunked_prefix());
    }
}

/// Incident 13 (PRs 34263, 34265): a read by a computed name hit no attribute and took its default for years. By name
/// there is a value, nothing, or an error with the nearest name.
#[test]
fn a_name_that_does_not_exist_is_no_default() {
    let cfg = loader("").load().unwrap();
    assert_eq!(cfg.value("schedule.page_sizes"), None);
    let error = cfg.explain("schedule.page_sizes").unwrap_err();
    assert_eq!(error.suggestion(), Some("did you mean `schedule.page_size`?"));
    for (path, value) in cfg.values() {
        assert_eq!(cfg.value(path), Some(value), "{path}");
    }
}

/// Incident 14 (PR 34819): one worker took the page size from the record and the batch sizes from the bag thirty lines
/// below. Here both come from one pinned epoch.
#[test]
fn everything_a_worker_builds_is_from_one_epoch() {
    struct Worker {
        page_size: usize,
        buffer: usize,
    }
    let build = |cfg: &Context<Engine>| {
        let now = cfg.pin();
        // In between somebody changes both.
        cfg.override_permanently("meanwhile", |o| {
            o.schedule().chunk(64);
            o.schedule().max_prefill(64);
        })
        .unwrap();
        Worker { page_size: now.schedule().page_size(), buffer: *now.schedule().prefill_buffer() }
    };
    let cfg = loader("[schedule]\npage_size = 64\nchunk = 4096").load().unwrap();
    let first = build(&cfg);
    assert_eq!((first.page_size, first.buffer), (64, 4096));
    assert_eq!(build(&cfg).buffer, 64, "the next one is built from what was changed");
}

/// Incident 15: a guard computed from one tier and a buffer from the other. A value that two places need is derived
/// once and follows overrides for both.
#[test]
fn guard_and_buffer_are_one_value() {
    let cfg = loader("[spec]\ncandidates = [8]").load().unwrap();
    let guard = |cfg: &Context<Engine>, tokens: usize| tokens <= *cfg.pin().spec().width();
    let buffer = |cfg: &Context<Engine>| vec![0_u8; *cfg.pin().spec().width()];
    for steps in [1, 4, 7] {
        let _scope = cfg
            .override_with("adapt", |o| {
                o.spec().steps(steps);
            })
            .unwrap();
        let buffer = buffer(&cfg);
        assert_eq!(buffer.len(), steps + 1);
        assert!(guard(&cfg, buffer.len()) && !guard(&cfg, buffer.len() + 1));
    }
}

/// Incident 16 (PR 33170): some predicates over widths kept reading the record when the others moved to the bags. Here
/// a draft with another topology answers all of them from its own widths.
#[test]
fn all_predicates_over_widths_move_together() {
    let predicates = |cfg: &Context<Engine>| {
        let now = cfg.pin();
        let widths = now.parallel();
        (widths.tp() > *widths.attn_tp(), widths.tp() == *widths.moe_tp(), widths.attn_dp() > 1, *widths.launch_world())
    };
    let target = loader("[parallel]\ntp = 8\nattn_dp = 2\nep = 4\npp = 2").load().unwrap();
    let draft = target
        .child("draft", |o| {
            o.parallel().attn_dp(1);
            o.parallel().ep(1);
            o.parallel().pp(1);
        })
        .unwrap();
    assert_eq!(predicates(&target), (true, false, true, 16));
    assert_eq!(predicates(&draft), (false, true, false, 8));
    assert_eq!(predicates(&target), (true, false, true, 16));
}

/// Incident 18: a guard compared the raw "auto" with concrete values and never fired. Here what a reader gets of an
/// automatic setting is the concrete value; "auto" is no value of it.
#[test]
fn a_guard_on_an_automatic_setting_fires_by_default() {
    let too_many = |cfg: &Context<Engine>| cfg.pin().schedule().running() > 100;
    let small = loader("").load().unwrap();
    let large = Engine::loader().facts(Facts::for_test().with_cpus(64)).load().unwrap();
    assert_eq!((too_many(&small), too_many(&large)), (false, true));
    let errors = loader("[schedule]\nrunning = \"auto\"").load().unwrap_err();
    assert!(errors.to_string().contains("engine.toml:2:11: schedule.running: expected an integer"), "{errors}");
}

mod narrow {
    use kitbag::ConfigNamespaces;

    fn same(pool: usize) -> usize {
        pool
    }

    /// An input of which the range leaves two values.
    #[derive(ConfigNamespaces)]
    #[config(derived(pool.same: usize = same(pool.size)))]
    pub(super) struct Args {
        /// Size.
        #[config(ns = "pool", default = 4, range = 4..=5)]
        size: usize,
    }
}

/// Incident 19: after a migration a test compared the raw value with itself. The emitted tests compare the wiring with
/// the function called with the samples themselves, over several cases for every derived value, and count the cases.
#[test]
fn the_emitted_comparison_is_not_vacuous() {
    let derived = Engine::SCHEMA.children.iter().flat_map(|namespace| {
        let nested = namespace.children.iter().flat_map(|namespace| namespace.leaves);
        namespace.leaves.iter().chain(nested)
    });
    let derived = derived.filter(|leaf| leaf.class == kitbag::Class::Derived).count();
    assert_eq!(derived, 11);
    assert!(kitbag::__private::check_derived_values::<Engine>() > 4 * derived);
    assert!(catch_unwind(kitbag::__private::check_derived_values::<narrow::Args>).is_ok_and(|cases| cases >= 2));
}

/// Incident 34 (PR 34264): seven decisions read the base of a group of three settings; with the base unset one of them
/// took "nothing" for "yes" and a version check never fired. The members have no accessor here, only the answer has.
#[test]
fn a_group_of_settings_is_read_as_its_answer() {
    let pair = |text: &str| {
        let cfg = loader(text).load().unwrap();
        (*cfg.pin().exec().attention().for_prefill(), *cfg.pin().exec().attention().for_decode())
    };
    assert_eq!(pair(""), (Attention::Triton, Attention::Triton));
    assert_eq!(pair("[exec.attention]\nprefill = \"fa3\""), (Attention::Fa3, Attention::Triton));
    assert_eq!(pair("[exec.attention]\nbase = \"fa3\"\ndecode = \"triton\""), (Attention::Fa3, Attention::Triton));
}
