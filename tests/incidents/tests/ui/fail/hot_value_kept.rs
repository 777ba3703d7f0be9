//! Incidents 14 and 44: a value that may change is copied where a component is built, and later changes pass it by.

use config_incidents::Engine;
use kitbag::ConfigNamespaces;

struct Worker {
    width: usize,
}

fn main() {
    let cfg = Engine::for_test(|_| {});
    let worker = Worker { width: cfg.pin().spec().width() };
    drop(worker.width);
}
