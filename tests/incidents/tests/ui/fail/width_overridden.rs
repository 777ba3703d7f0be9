//! Incidents 50, D7 and D8: one width changed under a running engine, or a derived one set.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

fn main() {
    let cfg = Engine::for_test(|_| {});
    let _ = cfg.override_with("scale", |o| { o.parallel().tp(3); });
    let _ = cfg.child("draft", |o| { o.parallel().attn_tp(8); });
}
