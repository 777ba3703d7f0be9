//! Incident 20: resolving what is resolved.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors, Facts};

fn main() -> Result<(), Errors> {
    let resolved = Engine::loader().record()?.resolve(&Facts::for_test())?;
    let _ = resolved.resolve(&Facts::for_test());
    Ok(())
}
