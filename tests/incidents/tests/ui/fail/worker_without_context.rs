//! Incidents 2, 4 and 35: the main function of a worker takes its configuration; there is none to fall back to.

use config_incidents::Engine;
use kitbag::Context;

fn worker_main(cfg: &Context<Engine>) -> u16 {
    cfg.pin().serving().port()
}

fn main() {
    worker_main();
    worker_main(None);
}
