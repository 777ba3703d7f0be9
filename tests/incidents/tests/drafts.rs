//! A draft model beside its target.

use config_incidents::{Dtype, Engine, LoadFormat, draft_of};
use kitbag::{ConfigNamespaces, Context, Facts, Loader};

fn loader(text: &str) -> Loader<Engine> {
    Engine::loader().facts(Facts::for_test()).text("engine.toml", text)
}

fn format(cfg: &Context<Engine>) -> LoadFormat {
    cfg.pin().model().load_format()
}

/// Incident 36 (revert 32100, third fault): the draft's load format was written to the bag, and its loader read the
/// record, so the draft was loaded as the target was. Here each loader is handed the context of its own model.
#[test]
fn each_loader_sees_the_format_of_its_own_model() {
    let target = loader("[spec]\ndraft_load_format = \"dummy\"").load().unwrap();
    let draft = draft_of(&target).unwrap();
    assert_eq!((format(&target), format(&draft)), (LoadFormat::Auto, LoadFormat::Dummy));
    let unset = draft_of(&loader("[model]\nload_format = \"remote\"").load().unwrap()).unwrap();
    assert_eq!(format(&unset), LoadFormat::Remote, "without a format of its own it reads the target's");
}

/// Incident 37 (PR 33239): a factory ran one step before the scope that was to hold for it. Here there is no scope to
/// be early for: the factory's argument is the draft's context.
#[test]
fn a_factory_is_handed_what_it_builds_from() {
    struct Loading(LoadFormat);
    let factory = |cfg: &Context<Engine>| Loading(format(cfg));
    let target = loader("[spec]\ndraft_load_format = \"remote\"").load().unwrap();
    let draft = draft_of(&target).unwrap();
    let (for_target, for_draft) = (factory(&target), factory(&draft));
    assert_eq!((for_target.0, for_draft.0), (LoadFormat::Auto, LoadFormat::Remote));
}

/// Incidents 38 and 39 (review of the reverted change): building a draft published the record again and lost the
/// target's resolved number format; and the draft read the target's. Here neither touches the other, in either order.
#[test]
fn target_and_draft_keep_their_number_formats() {
    let resolved = loader("[spec]\ndraft_kv_dtype = \"bf16\"").resolve().unwrap().declare("checkpoint", |o| {
        o.model().kv_dtype(Dtype::Fp8);
    });
    let target = resolved.unwrap().publish();
    let kv_dtype = |cfg: &Context<Engine>| cfg.pin().model().kv_dtype();
    let before = target.values();
    let draft = draft_of(&target).unwrap();
    assert_eq!((kv_dtype(&target), kv_dtype(&draft)), (Dtype::Fp8, Dtype::Bf16));
    drop(draft);
    assert_eq!((target.values(), target.epoch()), (before, 0), "building a draft leaves no trace");
}

/// Incident 40 (PR 35022): the draft's record was copied before late decisions had been taken. Here it follows the
/// target and differs only in what it shadows.
#[test]
fn a_late_decision_of_the_target_is_seen_by_the_draft() {
    let resolved = loader("[spec]\ncandidates = [4]").resolve().unwrap().declare("checkpoint", |o| {
        o.schedule().max_tokens(8192);
    });
    let target = resolved.unwrap().publish();
    let draft = target
        .child("draft", |o| {
            o.schedule().chunk(32);
        })
        .unwrap();
    target
        .override_permanently("tuned", |o| {
            o.schedule().chunk(512);
            o.spec().steps(3);
        })
        .unwrap();
    let read = |cfg: &Context<Engine>| {
        let now = cfg.pin();
        (now.schedule().max_tokens(), *now.schedule().chunk(), *now.spec().width())
    };
    assert_eq!((read(&target), read(&draft)), ((8192, 512, 4), (8192, 32, 4)));
}

/// Incident 41 (PRs 33312, 34139): the draft's decision about fusion overwrote the target's, which was built first.
#[test]
fn a_decision_of_the_draft_does_not_reach_the_target() {
    let target = loader("").load().unwrap();
    let fused = |cfg: &Context<Engine>| cfg.pin().exec().moe().fused();
    let draft = target
        .child("draft", |o| {
            o.exec().moe().fused(false);
        })
        .unwrap();
    draft
        .override_permanently("adapted", |o| {
            o.schedule().chunk(16);
        })
        .unwrap();
    assert_eq!((fused(&target), fused(&draft)), (true, false));
    assert_eq!((*target.pin().schedule().chunk(), target.epoch()), (2048, 0));
}

/// Incident 42: the draft had a constructor of its own that left out a gate; accepted length fell from 5.60 to 2.05
/// tokens and throughput by 41 to 46 %. Here one constructor serves both, and what each has read can be compared.
#[test]
fn target_and_draft_read_the_same_settings() {
    let target = loader("").load().unwrap();
    let draft = draft_of(&target).unwrap();
    let built = |cfg: &Context<Engine>| {
        let (_, captured) = cfg.capture(|now| {
            let gate = now.schedule().chunked_prefix() && now.exec().moe().fused();
            (gate, now.model().load_format(), now.schedule().page_size())
        });
        captured.leaves().to_vec()
    };
    let without_gate = draft.capture(|now| (now.model().load_format(), now.schedule().page_size())).1;
    assert_eq!(built(&target), built(&draft));
    assert_ne!(built(&target), without_gate.leaves());
}

/// Incidents 43 and D16 (PR 40339): a scope stated part of a topology and the other widths stayed stale, or it was
/// refused until every dependent width was stated by hand. Here the dependents follow, and what does not fit is
/// refused.
#[test]
fn a_draft_states_a_width_and_the_dependents_follow() {
    let target = loader("[parallel]\ntp = 8\nattn_dp = 2\nep = 4").load().unwrap();
    let widths = |cfg: &Context<Engine>| {
        let now = cfg.pin();
        (now.parallel().tp(), *now.parallel().attn_tp(), *now.parallel().moe_tp(), *now.parallel().launch_world())
    };
    let draft = target
        .child("draft", |o| {
            o.parallel().tp(4);
        })
        .unwrap();
    assert_eq!((widths(&target), widths(&draft)), ((8, 4, 2, 8), (4, 2, 1, 4)));
    let errors = target
        .child("draft", |o| {
            o.parallel().tp(2);
        })
        .unwrap_err();
    assert!(errors.to_string().contains("2 ranks are no multiple of 4 x 1 expert ranks"), "{errors}");
}

/// Incident 44 (PRs 30549, 35024): buffers were sized from the width in use when they were built, and adaptation
/// outgrew them. Active width and capacity are two values here: one follows, one is fixed at launch, and outgrowing it
/// is refused.
#[test]
fn buffers_are_sized_from_capacity() {
    let cfg = loader("[spec]\nsteps = 1\ncandidates = [1, 4]").load().unwrap();
    let buffer = vec![0_u8; cfg.pin().spec().capacity()];
    assert_eq!(buffer.len(), 5);
    for steps in [4, 1, 4] {
        cfg.override_permanently("adapt", |o| {
            o.spec().steps(steps);
        })
        .unwrap();
        let now = cfg.pin();
        assert_eq!((*now.spec().width(), now.spec().capacity()), (steps + 1, 5));
        assert!(buffer.len() >= *now.spec().width());
    }
    let errors = cfg
        .override_permanently("adapt", |o| {
            o.spec().steps(5);
        })
        .unwrap_err();
    assert!(errors.to_string().contains("buffers hold 5 draft tokens (spec.width = 6, spec.capacity = 5)"), "{errors}");
}
