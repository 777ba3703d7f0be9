//! Incidents 9 and 10: a decision of the loader is no override, which readers that are already built would miss.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

fn main() {
    let cfg = Engine::for_test(|_| {});
    let _ = cfg.override_with("found while loading", |o| { o.exec().moe().fused(false); });
}
