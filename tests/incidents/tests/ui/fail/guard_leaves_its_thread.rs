//! Incident 59: a restoration by whoever comes along. The guard of a thread's override cannot leave its thread.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors};

fn main() -> Result<(), Errors> {
    let cfg = Engine::for_test(|_| {});
    let here = cfg.override_thread("here", |o| { o.schedule().chunk(64); })?;
    std::thread::spawn(move || drop(here));
    Ok(())
}
