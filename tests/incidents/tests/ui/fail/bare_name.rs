//! Incident 47: one name for two things. It is gone, and a reader has to say which one it means.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

fn main() {
    let _ = Engine::for_test(|_| {}).pin().parallel().world_size();
}
