//! Widths as configured, and the topology as built.

use config_incidents::{Engine, ParallelBag};
use kitbag::{ConfigNamespaces, Facts, Loader};

fn loader(text: &str) -> Loader<Engine> {
    Engine::loader().facts(Facts::for_test()).text("engine.toml", text)
}

/// The groups as built: no setting, and no setting's name.
struct Topology {
    live_ranks: usize,
    tp_rank: usize,
}

impl Topology {
    fn build(widths: &ParallelBag, world_rank: usize) -> Result<Self, String> {
        let world = *widths.launch_world();
        if world_rank >= world {
            return Err(format!("rank {world_rank} of {world}"));
        }
        Ok(Self { live_ranks: world, tp_rank: world_rank % widths.tp() })
    }
}

/// Incident 46: an event loop asked the live width before process groups existed and failed; and after an elastic
/// change the configured one was taken for the live one. Here the first needs no groups, and the second is another
/// type.
#[test]
fn configured_and_live_widths_are_two_things() {
    let cfg = loader("[parallel]\ntp = 4").load().unwrap();
    let now = cfg.pin();
    let event_loop = if now.parallel().pp() > 1 { "pipeline" } else { "plain" };
    assert_eq!(event_loop, "plain");
    let mut topology = Topology::build(now.parallel(), 3).unwrap();
    topology.live_ranks = 8;
    assert_eq!((now.parallel().tp(), topology.live_ranks, topology.tp_rank), (4, 8, 3));
}

/// Incident 47 (PR 40070): one name stood for the ranks at launch and for the most there may be. The bare name is gone:
/// it does not compile (`ui/fail/bare_name.rs`), and in a file it is refused with the names of the two.
#[test]
fn the_bare_name_is_refused_with_advice() {
    let cfg = loader("[parallel]\njoin_offset = 8\ntp = 4\nmax_ep = 16").load().unwrap();
    assert_eq!((*cfg.pin().parallel().launch_world(), *cfg.pin().parallel().max_world()), (12, 16));
    let errors = loader("[parallel]\nworld_size = 12").load().unwrap_err().to_string();
    assert!(errors.contains("parallel.world_size: this setting is gone: it meant two things"), "{errors}");
}

/// Incident 48 (PR 40071): a rank was read in a process that had never been placed. Ranks are no settings here: they
/// come from a topology, which is built from widths and a place, and checked.
#[test]
fn a_rank_comes_from_a_place() {
    let cfg = loader("[parallel]\ntp = 4\npp = 2").load().unwrap();
    assert_eq!(Topology::build(cfg.pin().parallel(), 5).unwrap().tp_rank, 1);
    assert_eq!(Topology::build(cfg.pin().parallel(), 8).err(), Some("rank 8 of 8".to_owned()));
}

/// Incident 49 (PR 36254): a launcher sized its groups from the raw record, where an unset width was nothing at all.
/// Here a value that a rule settles is a number for every reader.
#[test]
fn a_launch_with_defaults_has_numbers_to_size_groups_from() {
    let now = loader("[parallel]\ntp = 4\npp = 2").load().unwrap().pin();
    let bundles: usize = *now.parallel().max_world();
    assert_eq!((bundles, now.parallel().max_ep()), (8, None));
}

/// Incidents 50 and D7: one width was changed alone, 3 ranks under 8 of attention, because one of four forms of change
/// skipped the checks. Here there is one way in: each form runs the same rules, shows all violations, and leaves all as
/// it was.
#[test]
fn one_width_alone_is_refused_everywhere() {
    let cfg = loader("[parallel]\ntp = 8\nattn_dp = 2\nep = 4").load().unwrap();
    let before = (cfg.values(), cfg.epoch());
    let expected = "3 ranks are no multiple of 2 x 1 attention ranks; 3 ranks are no multiple of 4 x 1 expert ranks \
                    (parallel.tp = 3, parallel.attn_dp = 2, parallel.attn_cp = 1, parallel.ep = 4, \
                    parallel.moe_dp = 1)";
    let text = "[parallel]\ntp = 3\nattn_dp = 2\nep = 4";
    let child = cfg.child("draft", |o| {
        o.parallel().tp(3);
    });
    let by_reload = cfg.reload(&loader(text)).unwrap_err();
    for errors in [loader(text).load().unwrap_err(), child.unwrap_err(), by_reload] {
        assert!(errors.to_string().contains(expected), "{errors}");
    }
    assert_eq!((cfg.values(), cfg.epoch()), before);
    let errors = cfg.reload(&loader("[parallel]\ntp = 16\nattn_dp = 2\nep = 4")).unwrap_err();
    assert!(errors.to_string().contains("parallel.tp: changed from 8 to 16, which needs a restart"), "{errors}");
}
