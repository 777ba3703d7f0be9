//! Derived values against cases worked by hand, as they are read from a published context.

use config_scale::Args;
use config_scale::args::ArgsSetters;
use config_scale::choices::{AttentionBackend, EpJoinMode, MambaRadixCacheStrategy, StartupWeightLoadMode};
use config_scale::derived::SharedExperts;
use kitbag::{ConfigNamespaces, Context, TestKit};

fn with(set: impl FnOnce(&mut ArgsSetters<TestKit>)) -> Context<Args> {
    Args::for_test(|o| {
        o.model().model_path("dummy");
        set(o);
    })
}

/// Widths that are set: TP, DP, attention DP and CP, DCP, EP, DP of experts, PP, join offset, largest EP.
#[derive(Clone, Copy)]
struct Widths {
    tp: usize,
    dp: usize,
    attn_dp: usize,
    attn_cp: usize,
    dcp: usize,
    ep: usize,
    moe_dp: usize,
    pp: usize,
    offset: usize,
    max_ep: Option<usize>,
}

const ONE: Widths =
    Widths { tp: 1, dp: 1, attn_dp: 1, attn_cp: 1, dcp: 1, ep: 1, moe_dp: 1, pp: 1, offset: 0, max_ep: None };

#[test]
fn widths() {
    // attn_tp, attention DP on, DP ranks, attention DCP, EP, MoE TP, DCP on, world at launch, largest world
    let cases = [
        (ONE, (1, false, 1, 1, 1, 1, false, 1, 1)),
        (Widths { tp: 8, ..ONE }, (8, false, 1, 1, 1, 8, false, 8, 8)),
        (Widths { tp: 8, attn_dp: 2, ..ONE }, (4, true, 2, 1, 1, 8, false, 8, 8)),
        (Widths { tp: 8, ep: 4, moe_dp: 2, ..ONE }, (8, false, 1, 1, 4, 1, false, 8, 8)),
        (Widths { tp: 8, dcp: 8, ..ONE }, (8, false, 1, 8, 1, 8, true, 8, 8)),
        (Widths { tp: 8, attn_dp: 2, attn_cp: 2, ..ONE }, (2, true, 2, 1, 1, 8, false, 8, 8)),
        (Widths { tp: 16, attn_dp: 4, attn_cp: 2, ..ONE }, (2, true, 4, 1, 1, 16, false, 16, 16)),
        (Widths { tp: 4, offset: 8, ..ONE }, (4, false, 1, 1, 1, 4, false, 12, 12)),
        (Widths { tp: 2, pp: 3, dp: 2, ..ONE }, (2, false, 2, 1, 1, 2, false, 6, 6)),
        (Widths { tp: 4, ep: 4, max_ep: Some(32), ..ONE }, (4, false, 1, 1, 4, 1, false, 4, 32)),
    ];
    for (index, (w, expected)) in cases.into_iter().enumerate() {
        let cfg = with(|o| {
            let mut p = o.parallel();
            p.tp_size(w.tp);
            p.dp_size(w.dp);
            p.attn_dp_size(w.attn_dp);
            p.attn_cp_size(w.attn_cp);
            p.dcp_size(w.dcp);
            p.ep_size(w.ep);
            p.moe_dp_size(w.moe_dp);
            p.pp_size(w.pp);
            p.ep_join_rank_offset(w.offset);
            p.max_ep_size(w.max_ep);
        });
        let now = cfg.pin();
        let p = now.parallel();
        let found = (
            *p.attn_tp_size(),
            *now.plan().attn_dp_enabled(),
            *p.num_dp_ranks(),
            *p.attn_dcp_size(),
            *p.moe_ep_size(),
            *p.moe_tp_size(),
            *p.dcp_enabled(),
            *p.launch_world_size(),
            *p.max_world_size(),
        );
        assert_eq!(found, expected, "case {index}");
    }
}

#[test]
fn joining_engines() {
    // joiner, scale joiner, attention DP on
    let cases = [
        (None, (false, false, false)),
        (Some(EpJoinMode::Scale), (true, true, true)),
        (Some(EpJoinMode::Recover), (true, false, false)),
    ];
    for (mode, expected) in cases {
        let cfg = with(|o| {
            o.exec().moe().ep_join_mode(mode);
        });
        let now = cfg.pin();
        let moe = now.exec().moe();
        let found = (*moe.is_ep_joiner(), *moe.is_ep_scale_joiner(), *now.plan().attn_dp_enabled());
        assert_eq!(found, expected, "{mode:?}");
    }
}

#[test]
fn mamba_buffers() {
    use MambaRadixCacheStrategy::{Auto, ExtraBuffer, ExtraBufferLazy, NoBuffer};
    // No prefix cache, strategy: extra buffer, and lazily.
    let cases = [
        (false, Auto, (false, false)),
        (false, NoBuffer, (false, false)),
        (false, ExtraBuffer, (true, false)),
        (false, ExtraBufferLazy, (true, true)),
        (true, Auto, (false, false)),
        (true, NoBuffer, (false, false)),
        (true, ExtraBuffer, (false, false)),
        (true, ExtraBufferLazy, (false, false)),
    ];
    for (disabled, strategy, expected) in cases {
        let cfg = with(|o| {
            o.memory().disable_radix_cache(disabled);
            o.exec().mamba().mamba_radix_cache_strategy(strategy);
        });
        let now = cfg.pin();
        let found = (*now.plan().enable_mamba_extra_buffer(), *now.plan().enable_mamba_extra_buffer_lazy());
        assert_eq!(found, expected, "{disabled} {strategy:?}");
    }
}

#[test]
fn switches_of_the_model() {
    use StartupWeightLoadMode::{Overlap, Serial};
    for (mode, overlap) in [(Serial, false), (Overlap, true)] {
        let cfg = with(|o| {
            o.model().startup_weight_load_mode(mode);
        });
        assert_eq!(*cfg.pin().model().is_startup_weight_load_overlap(), overlap);
    }
    for (disabled, how) in [(false, SharedExperts::Fused), (true, SharedExperts::Separate)] {
        let cfg = with(|o| {
            o.exec().moe().disable_shared_experts_fusion(disabled);
        });
        assert_eq!(*cfg.pin().plan().shared_experts(), how);
    }
}

#[test]
fn prefill_buffers() {
    // Chunk; then, for no limit, 2048 and 16384 prefill tokens: what a dynamic chunk over four stages needs.
    let dynamic: [(i64, [usize; 3]); 4] =
        [(-1, [0, 0, 0]), (0, [0, 0, 0]), (1024, [1280, 2048, 16384]), (8192, [10240, 10240, 16384])];
    let mut cases = 0;
    for (chunk, over_four_stages) in dynamic {
        let fixed = match chunk {
            1024 => 1024,
            8192 => 8192,
            _ => 0,
        };
        for (limit, expected) in [0, 2048, 16384].into_iter().zip(over_four_stages) {
            for (follows, stages) in [(false, 1), (false, 4), (true, 1), (true, 4)] {
                let cfg = with(|o| {
                    let mut schedule = o.schedule();
                    schedule.chunked_prefill_size(Some(chunk));
                    schedule.enable_dynamic_chunking(follows);
                    schedule.max_prefill_tokens(limit);
                    o.parallel().pp_size(stages);
                });
                let expected = if follows && stages == 4 { expected } else { fixed };
                let found = *cfg.pin().plan().max_prefill_buffer_tokens();
                assert_eq!(found, expected, "chunk {chunk}, limit {limit}, dynamic {follows}, {stages} stages");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 48);
}

#[test]
fn attention_kernels() {
    use AttentionBackend::{Fa3, Triton};
    let any = [None, Some(Fa3), Some(Triton)];
    let mut cases = 0;
    for common in any {
        // A phase's own choice, or the common one where it has none.
        let chosen = [(None, common), (Some(Fa3), Some(Fa3)), (Some(Triton), Some(Triton))];
        for (prefill, prefill_expected) in chosen {
            for (decode, decode_expected) in chosen {
                let cfg = with(|o| {
                    let mut exec = o.exec();
                    let mut kernel = exec.kernel();
                    kernel.attention_backend(common);
                    kernel.prefill_attention_backend(prefill);
                    kernel.decode_attention_backend(decode);
                });
                let now = cfg.pin();
                let found = (*now.plan().prefill_attention(), *now.plan().decode_attention());
                assert_eq!(found, (prefill_expected, decode_expected));
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 27);
}

#[test]
fn draft_capacity_stays_what_it_was_at_launch() {
    let capacity = |draft: Option<usize>, adaptive: bool, steps: Option<Vec<usize>>| {
        let cfg = with(|o| {
            let mut spec = o.spec();
            spec.speculative_num_draft_tokens(draft);
            spec.speculative_adaptive(adaptive);
            spec.speculative_adaptive_config(steps);
        });
        (cfg.pin().spec().max_speculative_num_draft_tokens(), cfg)
    };
    // Candidate steps, and one token more.
    assert_eq!(capacity(None, true, Some(vec![2])).0, Some(3));
    assert_eq!(capacity(None, true, Some(vec![4])).0, Some(5));
    assert_eq!(capacity(None, true, Some(vec![6])).0, Some(7));
    assert_eq!(capacity(Some(4), true, Some(vec![1, 6, 2])).0, Some(7));
    assert_eq!(capacity(Some(9), true, Some(vec![6])).0, Some(9));
    assert_eq!(capacity(Some(4), false, Some(vec![6])).0, Some(4));
    assert_eq!(capacity(None, false, None).0, None);
    let (launched, cfg) = capacity(Some(4), false, None);
    let _wide = cfg
        .override_with("wider", |o| {
            o.spec().speculative_num_draft_tokens(Some(8));
        })
        .expect("hot");
    let now = cfg.pin();
    assert_eq!(*now.spec().speculative_num_draft_tokens(), Some(8));
    assert_eq!(now.spec().max_speculative_num_draft_tokens(), launched);
}
