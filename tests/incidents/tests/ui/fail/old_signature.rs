//! Incident 51: a constructor no longer takes the settings it used to be handed, and a caller was missed.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Context};

struct Planner {
    steps: usize,
}

impl Planner {
    fn new(cfg: &Context<Engine>) -> Self {
        Self { steps: *cfg.pin().spec().steps() }
    }
}

fn main() {
    let cfg = Engine::for_test(|_| {});
    let planner = Planner::new(&cfg, cfg.pin().schedule().page_size());
    drop(planner.steps);
}
