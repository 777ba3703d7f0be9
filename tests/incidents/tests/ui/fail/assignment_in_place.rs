//! Incident 55: a value written through what an accessor returned.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

fn main() {
    let now = Engine::for_test(|_| {}).pin();
    *now.schedule().chunk() = 64;
}
