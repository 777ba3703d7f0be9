//! Ranks and groups against configured widths.

use config_scale::Args;
use config_scale::topology::{Groups, Placement, Ranks, Topology};
use kitbag::{ConfigNamespaces, Context};

/// An engine of `tp` ranks with these attention and expert widths.
fn engine(tp: usize, attn: (usize, usize), moe: (usize, usize)) -> Context<Args> {
    Args::for_test(|o| {
        o.model().model_path("dummy");
        let mut p = o.parallel();
        p.tp_size(tp);
        p.attn_dp_size(attn.0);
        p.attn_cp_size(attn.1);
        p.ep_size(moe.0);
        p.moe_dp_size(moe.1);
    })
}

fn groups(tp: usize, attn_tp: usize, attn_cp: usize, moe_ep: usize) -> Groups {
    let members = |count: usize| (0..count).collect();
    Groups {
        world: members(tp),
        tp: members(tp),
        pp: members(1),
        attn_tp: members(attn_tp),
        attn_cp: members(attn_cp),
        moe_ep: members(moe_ep),
        ..Groups::default()
    }
}

fn at(world_rank: usize) -> Placement {
    Placement { world_rank, dp_rank: None, gpu_id: Some(world_rank) }
}

/// TP, attention DP and CP; then DP, CP and TP of each rank.
type Shape<'a> = (usize, usize, usize, &'a [(usize, usize, usize)]);

#[test]
fn attention_ranks_of_five_shapes() {
    // Worked by hand.
    let shapes: [Shape; 5] = [
        (8, 1, 1, &[(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4), (0, 0, 5), (0, 0, 6), (0, 0, 7)]),
        (8, 2, 1, &[(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3), (1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 0, 3)]),
        (8, 2, 2, &[(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1)]),
        (8, 8, 1, &[(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0), (6, 0, 0), (7, 0, 0)]),
        (
            16,
            4,
            2,
            &[
                (0, 0, 0),
                (0, 0, 1),
                (0, 1, 0),
                (0, 1, 1),
                (1, 0, 0),
                (1, 0, 1),
                (1, 1, 0),
                (1, 1, 1),
                (2, 0, 0),
                (2, 0, 1),
                (2, 1, 0),
                (2, 1, 1),
                (3, 0, 0),
                (3, 0, 1),
                (3, 1, 0),
                (3, 1, 1),
            ],
        ),
    ];
    let mut positions = 0;
    for (tp, dp, cp, expected) in shapes {
        let cfg = engine(tp, (dp, cp), (1, 1));
        for (rank, expected) in expected.iter().enumerate() {
            let built = Topology::build(&cfg.pin(), &at(rank), groups(tp, tp / dp / cp, cp, 1)).expect("it fits");
            let ranks = &built.ranks;
            assert_eq!((ranks.attn_dp, ranks.attn_cp, ranks.attn_tp), *expected, "rank {rank} of {tp}, {dp}, {cp}");
            assert_eq!((ranks.tp, ranks.pp, ranks.launch_world, built.gpu_id), (rank, 0, rank, Some(rank)));
            positions += 1;
        }
    }
    assert_eq!(positions, 48);
}

#[test]
fn expert_and_pipeline_ranks() {
    let cfg = Args::for_test(|o| {
        o.model().model_path("dummy");
        let mut p = o.parallel();
        p.tp_size(8);
        p.ep_size(2);
        p.moe_dp_size(2);
        p.pp_size(2);
        p.dcp_size(4);
        p.ep_join_rank_offset(16);
    });
    // World 16 + 8 + 5: stage 1, TP rank 5 = MoE (DP 1, EP 0, TP 1).
    let ranks = Ranks::of(cfg.pin().parallel(), &at(29));
    assert_eq!((ranks.pp, ranks.tp), (1, 5));
    assert_eq!((ranks.moe_dp, ranks.moe_ep, ranks.moe_tp), (1, 0, 1));
    assert_eq!((ranks.dcp, ranks.attn_dcp), (1, 1));
    // Without DCP its rank is 0; experts narrower than context parallelism follow it.
    let cfg = engine(8, (1, 2), (4, 1));
    let ranks = Ranks::of(cfg.pin().parallel(), &at(5));
    assert_eq!((ranks.attn_cp, ranks.moe_dp, ranks.attn_dcp), (1, 1, 0));
}

#[test]
fn every_violation_is_reported_together() {
    let cfg = engine(8, (2, 2), (4, 2));
    let now = cfg.pin();
    let mut ranks = Ranks::of(now.parallel(), &at(3));
    ranks.attn_tp = 2;
    ranks.moe_ep = 4;
    let error = Topology::stated("laying out a draft", &now, ranks, groups(4, 2, 2, 4), None).expect_err("it does not");
    let expected = [
        "attn_tp_rank = 2 is not below attn_tp_size = 2",
        "moe_ep_rank = 4 is not below moe_ep_size = 4",
        "tp_rank = 3 is not (attn_dp_rank·attn_cp + attn_cp_rank)·attn_tp + attn_tp_rank = (0·2 + 1)·2 + 2",
        "group tp has 4 members, tp_size = 8",
    ];
    assert_eq!(error.violations, expected);
    assert!(error.to_string().starts_with("laying out a draft: "));
}

/// Ranks and groups of rank 3 of an engine that fits, with one of them changed.
type Change = fn(&mut Ranks, &mut Groups);

#[test]
fn each_identity_is_held() {
    let cfg = engine(8, (2, 2), (4, 2));
    let now = cfg.pin();
    let state = |change: Change| {
        let (mut ranks, mut groups) = (Ranks::of(now.parallel(), &at(3)), groups(8, 2, 2, 4));
        change(&mut ranks, &mut groups);
        Topology::stated("a test", &now, ranks, groups, None).map_or_else(|error| error.violations, |_| Vec::new())
    };
    assert!(state(|_, _| {}).is_empty());
    let composed = |tp: usize, dp: usize, cp: usize, attn_tp: usize| {
        format!(
            "tp_rank = {tp} is not (attn_dp_rank·attn_cp + attn_cp_rank)·attn_tp + attn_tp_rank = ({dp}·2 + {cp})·2 + \
             {attn_tp}"
        )
    };
    // Rank 3 is attention (DP 0, CP 1, TP 1). A rank out of bounds does not compose to it either.
    let cases: [(Change, Vec<String>); 13] = [
        (|r, _| r.tp = 8, vec!["tp_rank = 8 is not below tp_size = 8".into(), composed(8, 0, 1, 1)]),
        (|r, _| r.pp = 1, vec!["pp_rank = 1 is not below pp_size = 1".into()]),
        (|r, _| r.attn_tp = 2, vec!["attn_tp_rank = 2 is not below attn_tp_size = 2".into(), composed(3, 0, 1, 2)]),
        (|r, _| r.attn_dp = 2, vec!["attn_dp_rank = 2 is not below attn_dp_size = 2".into(), composed(3, 2, 1, 1)]),
        (|r, _| r.attn_cp = 2, vec!["attn_cp_rank = 2 is not below attn_cp_size = 2".into(), composed(3, 0, 2, 1)]),
        (|r, _| r.moe_ep = 4, vec!["moe_ep_rank = 4 is not below moe_ep_size = 4".into()]),
        (|r, _| r.tp = 2, vec![composed(2, 0, 1, 1)]),
        (|_, g| g.tp.truncate(4), vec!["group tp has 4 members, tp_size = 8".into()]),
        (|_, g| g.pp.push(1), vec!["group pp has 2 members, pp_size = 1".into()]),
        (|_, g| g.attn_tp.truncate(1), vec!["group attn_tp has 1 members, attn_tp_size = 2".into()]),
        (|_, g| g.attn_cp.truncate(1), vec!["group attn_cp has 1 members, attn_cp_size = 2".into()]),
        (|_, g| g.moe_ep.truncate(2), vec!["group moe_ep has 2 members, moe_ep_size = 4".into()]),
        // Experts narrower than a context-parallel group follow that group, so their rank has no bound.
        (|r, _| r.moe_dp = 2, vec![]),
    ];
    for (index, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(state(change), expected, "case {index}");
    }
}

#[test]
fn widths_multiply_in_every_form_of_change() {
    let broken = |text: &str, words: &str| assert!(text.contains(words), "{text}");
    let (attention, experts) = ("attention widths do not divide", "expert widths do not divide");
    // At launch, both at once.
    let flags = ["scale", "--model-path=m", "--tp-size=8", "--attn-cp-size=3", "--moe-dp-size=16"];
    let text = Args::loader().args(flags).load().expect_err("8 is no multiple of 3 or 16").to_string();
    broken(&text, attention);
    broken(&text, experts);
    let cfg = engine(8, (2, 1), (4, 2));
    let text = cfg.override_with("odd", |o| {
        o.parallel().ep_size(3);
    });
    broken(&text.expect_err("3 · 2").to_string(), experts);
    let text = cfg.child("draft", |o| {
        o.parallel().tp_size(3);
    });
    let text = text.expect_err("3 ranks").to_string();
    broken(&text, attention);
    broken(&text, experts);
    // What a context is republished from is resolved like a launch.
    let flags = ["scale", "--model-path=m", "--tp-size=4", "--attn-dp-size=8"];
    broken(&Args::loader().args(flags).resolve().expect_err("8 of 4").to_string(), attention);
    // Where the rules hold, the products do: over all widths of 8 and 12 ranks.
    let mut held = 0;
    for tp in [8, 12] {
        for (first, second) in (1..=tp).flat_map(|first| (1..=tp).map(move |second| (first, second))) {
            if tp % (first * second) != 0 {
                continue;
            }
            let cfg = engine(tp, (first, second), (second, first));
            let now = cfg.pin();
            let p = now.parallel();
            assert_eq!(*p.attn_tp_size() * p.attn_dp_size() * p.attn_cp_size(), tp);
            assert_eq!(*p.moe_tp_size() * *p.moe_ep_size() * p.moe_dp_size(), tp);
            held += 1;
        }
    }
    // Ordered pairs whose product divides: 10 of 8 and 18 of 12.
    assert_eq!(held, 28);
}

#[test]
fn widths_that_do_not_divide_are_refused_where_they_are_configured() {
    let errors = Args::loader()
        .args(["scale", "--model-path", "m", "--tp-size", "8", "--attn-dp-size", "3", "--ep-size", "5", "--dp-size=2"])
        .load()
        .expect_err("8 is no multiple of 3");
    let text = errors.to_string();
    assert_eq!(errors.iter().count(), 3, "{text}");
    for part in ["attn_dp_size = 3", "ep_size = 5", "dp_size = 2", "tp_size = 8"] {
        assert!(text.contains(part), "{text}");
    }
    // An override is held against the same rules.
    let cfg = engine(8, (1, 1), (1, 1));
    let refused = cfg.override_with("odd", |o| {
        o.parallel().ep_size(3);
    });
    assert!(refused.is_err());
    // A topology that a child context states as a whole is one.
    let child = cfg.child("draft", |o| {
        o.parallel().tp_size(2);
    });
    assert_eq!(*child.expect("2 ranks").pin().parallel().attn_tp_size(), 2);
}
