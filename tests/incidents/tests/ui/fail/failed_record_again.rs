//! Incident 25: going on with a record whose resolution failed.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors, Facts};

fn main() -> Result<(), Errors> {
    let record = Engine::loader().args(["engine", "--tp", "3", "--ep", "2"]).record()?;
    if record.resolve(&Facts::for_test()).is_err() {
        let _ = record.resolve(&Facts::for_test());
    }
    Ok(())
}
