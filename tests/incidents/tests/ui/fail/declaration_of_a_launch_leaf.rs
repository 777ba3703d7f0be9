//! Incident 30: a decision taken while loading writes a setting that is not open to such decisions.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors};

fn main() -> Result<(), Errors> {
    let resolved = Engine::loader().resolve()?;
    let _ = resolved.declare("the model wants it", |o| { o.parallel().tp(8); });
    Ok(())
}
