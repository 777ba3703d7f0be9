//! Incidents 43, 46, 48 and D15: configured widths and the topology as built are two types, and ranks are no settings.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

struct Topology {
    tp: usize,
    attn_tp: usize,
    moe_tp: usize,
    tp_rank: usize,
}

fn first_in_group(built: &Topology) -> bool {
    built.tp_rank.is_multiple_of(built.tp * built.attn_tp * built.moe_tp)
}

fn main() {
    let now = Engine::for_test(|_| {}).pin();
    first_in_group(now.parallel());
    let _ = now.parallel().tp_rank();
    first_in_group(&Topology { tp: 2, attn_tp: 2, tp_rank: 0 });
}
