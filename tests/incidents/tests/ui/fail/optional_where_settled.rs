//! Incidents 18 and 49: a value that may be unset is used as if it were set. One that a rule settles is never unset.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

fn main() {
    let now = Engine::for_test(|_| {}).pin();
    let bundles: usize = now.parallel().max_ep();
    let requests: Option<usize> = now.schedule().running();
    drop((bundles, requests));
}
