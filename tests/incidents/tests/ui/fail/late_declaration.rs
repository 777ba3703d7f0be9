//! Incidents 9 and 10: what a checkpoint forces is declared before the first reader exists, or not at all.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors};

fn main() -> Result<(), Errors> {
    let resolved = Engine::loader().resolve()?;
    let cfg = resolved.publish();
    let _ = resolved.declare("found while loading", |o| { o.exec().moe().fused(false); });
    drop(cfg);
    Ok(())
}
