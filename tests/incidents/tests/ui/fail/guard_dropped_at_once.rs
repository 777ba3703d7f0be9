//! Incident 59: a restoration that may happen at any moment. Here it hangs on a guard, and a guard has to be kept.

#![deny(unused_must_use)]

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors};

fn main() -> Result<(), Errors> {
    let cfg = Engine::for_test(|_| {});
    cfg.override_with("lost", |o| { o.schedule().chunk(64); })?;
    Ok(())
}
