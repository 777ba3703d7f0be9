//! Derived values against cases worked by hand, as they are read from a published context.

use std::collections::BTreeMap;

use config_scale::Args;
use config_scale::args::ArgsSetters;
use config_scale::choices::{
    AttentionBackend, DisaggregationRole, EpJoinMode, LoadFormat, MambaRadixCacheStrategy,
    RemoteInstanceWeightLoaderBackend, StartupWeightLoadMode,
};
use config_scale::derived::{SharedExperts, activation_reserve_on, max_prefill_buffer_tokens};
use kitbag::{ByteSize, Class, ConfigNamespaces, Context, LeafInfo, NamespaceInfo, Outstanding, TestKit};

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

#[test]
fn capacity_is_that_of_a_launch_and_a_republish_is_none() {
    let resolve = |steps: &str| {
        let flags = ["scale", "--model-path=m", "--speculative-adaptive", "--speculative-adaptive-config", steps];
        Args::loader().args(flags).resolve().expect("valid")
    };
    let capacity = |cfg: &Context<Args>| cfg.pin().spec().max_speculative_num_draft_tokens().expect("adaptive");
    let first = resolve("2").publish();
    assert_eq!(capacity(&first), 3);
    // Buffers were built for 3; what the steps are now is another matter.
    first.republish(resolve("4"), Outstanding::Drop).expect("valid");
    assert_eq!(first.pin().spec().speculative_adaptive_config(), Some(&[4][..]));
    assert_eq!(capacity(&first), 3);
    assert_eq!(capacity(&resolve("4").publish()), 5);
    assert_eq!(capacity(&resolve("6").publish()), 7);
}

/// Whether weights move by the transfer engine, by backend and the transport that `ModelExpress` is given: none, the
/// transfer engine, another. For an engine that loads from a running one.
const TRANSFERS: [(RemoteInstanceWeightLoaderBackend, [bool; 3]); 3] = [
    (RemoteInstanceWeightLoaderBackend::Nccl, [false, false, false]),
    (RemoteInstanceWeightLoaderBackend::TransferEngine, [true, true, true]),
    (RemoteInstanceWeightLoaderBackend::Modelexpress, [false, true, false]),
];

#[test]
fn transfers_between_engines() {
    use LoadFormat::{Auto, RemoteInstance};
    let transports = [None, Some("transfer_engine"), Some("nixl")];
    // The target's format, the draft's own, and whether either model comes from a running engine.
    let formats = [
        (Auto, None, (false, false)),
        (Auto, Some(RemoteInstance), (false, true)),
        (Auto, Some(Auto), (false, false)),
        (RemoteInstance, None, (true, true)),
        (RemoteInstance, Some(RemoteInstance), (true, true)),
        (RemoteInstance, Some(Auto), (true, false)),
    ];
    let (mut cases, mut targets, mut drafts) = (0, 0, 0);
    for is_seed in [false, true] {
        for (backend, by_transport) in TRANSFERS {
            for (transport, moves) in transports.into_iter().zip(by_transport) {
                for (target, draft, remote) in formats {
                    let cfg = with(|o| {
                        let mut model = o.model();
                        model.load_format(target);
                        model.remote_instance_weight_loader_start_seed_via_transfer_engine(is_seed);
                        model.remote_instance_weight_loader_backend(backend);
                        let entries = |name: &str| BTreeMap::from([("transport".to_owned(), name.to_owned())]);
                        model.modelexpress_config(transport.map(entries));
                        o.spec().speculative_draft_load_format(draft);
                    });
                    let now = cfg.pin();
                    let found = (*now.model().transfer_engine_enabled(), *now.plan().draft_transfer_engine_enabled());
                    // An engine that offers its weights needs it whatever it loads itself.
                    let expected = (is_seed || remote.0 && moves, is_seed || remote.1 && moves);
                    let case = format!("seed {is_seed}, {backend:?} {transport:?}, {target:?} {draft:?}");
                    assert_eq!(found, expected, "{case}");
                    // The draft's own context says of its model what the target said of it.
                    let child = cfg.child("draft", |o| {
                        o.model().load_format(draft.unwrap_or(target));
                    });
                    let child = child.expect("a valid draft").pin();
                    assert_eq!(*child.model().transfer_engine_enabled(), expected.1, "{case}");
                    (targets, drafts) = (targets + usize::from(found.0), drafts + usize::from(found.1));
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 108);
    // Counted by hand: all 54 of a seed; of the others three formats of six, for four cells of nine.
    assert_eq!((targets, drafts), (54 + 12, 54 + 12));
}

#[test]
fn activation_reserves() {
    use DisaggregationRole::{Decode, Null};
    struct Launch {
        role: DisaggregationRole,
        chunk: i64,
        max_prefill: usize,
        running: Option<usize>,
        draft: Option<usize>,
        widths: (usize, usize),
    }
    const USUAL: Launch =
        Launch { role: Null, chunk: 8192, max_prefill: 16384, running: None, draft: None, widths: (1, 1) };
    // Worked by hand: MiB where memory is unknown or 20 GiB, and on 80 GiB. 512 + 1.5 · tokens + 128 · devices.
    let launches = [
        // 512 + 12288 + 128
        (USUAL, 12_928, 12_928),
        // 512 + 24576 + 128
        (Launch { chunk: -1, ..USUAL }, 25_216, 25_216),
        // 512 + 3072 + 128, of 2048 tokens at least
        (Launch { chunk: -1, max_prefill: 1024, ..USUAL }, 3712, 10_240),
        // 32 and 64 and 64 · 4 tokens are fewer than 2048
        (Launch { role: Decode, running: Some(32), ..USUAL }, 3712, 10_240),
        (Launch { role: Decode, ..USUAL }, 3712, 10_240),
        (Launch { role: Decode, draft: Some(4), ..USUAL }, 3712, 10_240),
        // 512 + 12288 + 2048
        (Launch { widths: (8, 2), ..USUAL }, 14_848, 14_848),
        // Beyond the floors: 1000 · 5 tokens make 512 + 7500 + 128; 64 · 50 make 512 + 4800 + 128.
        (Launch { role: Decode, running: Some(1000), draft: Some(5), ..USUAL }, 8140, 10_240),
        (Launch { role: Decode, draft: Some(50), ..USUAL }, 5440, 10_240),
    ];
    let mib = |count: u64| ByteSize(count << 20);
    let mut cases = 0;
    for (index, (launch, usual, large)) in launches.into_iter().enumerate() {
        let cfg = with(|o| {
            o.disagg().disaggregation_mode(launch.role);
            o.exec().graph().cuda_graph_max_bs_decode(Some(64));
            o.spec().speculative_num_draft_tokens(launch.draft);
            let mut schedule = o.schedule();
            schedule.chunked_prefill_size(Some(launch.chunk));
            schedule.max_prefill_tokens(launch.max_prefill);
            schedule.max_running_requests(launch.running);
            let mut parallel = o.parallel();
            parallel.tp_size(launch.widths.0);
            parallel.pp_size(launch.widths.1);
        });
        let reserve = *cfg.pin().plan().activation_reserve();
        for (device, expected) in [(None, usual), (Some(mib(20 << 10)), usual), (Some(mib(80 << 10)), large)] {
            assert_eq!(activation_reserve_on(reserve, device), mib(expected), "launch {index}, device {device:?}");
            cases += 1;
        }
        // 60 GiB are not more than 60 GiB.
        assert_eq!(activation_reserve_on(reserve, Some(mib(60 << 10))), mib(usual));
    }
    assert!(cases >= 21);
}

mod raised {
    use super::max_prefill_buffer_tokens;
    use kitbag::ConfigNamespaces;

    /// A program that raises the prefill buffer: a derived value on top of a derived value. Two functions for one name
    /// do not compile.
    #[derive(ConfigNamespaces)]
    #[config(derived(
        plan.needed: usize =
            max_prefill_buffer_tokens(schedule.chunk, schedule.dynamic, schedule.max_prefill, schedule.stages),
        plan.raised: usize = raise(plan.needed),
    ))]
    pub(super) struct Args {
        /// Tokens of a chunk.
        #[config(ns = "schedule", default = "8192", hot)]
        chunk: Option<i64>,
        /// The chunk follows the pipeline.
        #[config(ns = "schedule", default = true, hot)]
        dynamic: bool,
        /// Tokens of a prefill.
        #[config(ns = "schedule", default = 16384, hot)]
        max_prefill: usize,
        /// Stages of the pipeline.
        #[config(ns = "schedule", default = 4, hot)]
        stages: usize,
    }

    fn raise(needed: usize) -> usize {
        needed + 5
    }
}

#[test]
fn a_raised_buffer_follows_what_it_raises() {
    let cfg = raised::Args::for_test(|_| {});
    let read = |cfg: &Context<raised::Args>| (*cfg.pin().plan().needed(), *cfg.pin().plan().raised());
    assert_eq!(read(&cfg), (16384, 16389));
    let longer = cfg.override_with("longer prefills", |o| {
        o.schedule().max_prefill(32768);
    });
    let longer = longer.expect("hot");
    assert_eq!(read(&cfg), (32768, 32773));
    drop(longer);
    assert_eq!(read(&cfg), (16384, 16389));
    let fixed = cfg.override_with("a fixed chunk", |o| {
        let mut schedule = o.schedule();
        schedule.chunk(Some(4096));
        schedule.dynamic(false);
    });
    assert_eq!(read(&cfg), (4096, 4101));
    drop(fixed);
}

#[test]
fn every_name_that_is_derived_elsewhere_is_derived_here() {
    fn leaves(namespace: &'static NamespaceInfo) -> Vec<&'static LeafInfo> {
        namespace.leaves.iter().chain(namespace.children.iter().flat_map(leaves)).collect()
    }
    let derived: Vec<_> = leaves(&Args::SCHEMA).into_iter().filter(|leaf| leaf.class == Class::Derived).collect();
    let has = |name: &str| derived.iter().any(|leaf| leaf.path.rsplit('.').next() == Some(name));
    // The list of fields names 38; ranks, groups and the device are fields of a `Topology`.
    let table = include_str!("../fields.tsv");
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let listed: Vec<_> = rows.iter().filter(|row| row[2] == "Derived").map(|row| row[0]).collect();
    assert_eq!(listed.len(), 38);
    let is_built = |name: &&str| name.ends_with("_rank") || name.ends_with("_group") || *name == "gpu_id";
    let (built, computed): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_built);
    assert_eq!((built.len(), computed.len()), (23, 15));
    let missing: Vec<_> =
        computed.into_iter().chain(["max_speculative_num_draft_tokens"]).filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
