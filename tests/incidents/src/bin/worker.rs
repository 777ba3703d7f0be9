//! A worker process: its settings come from its parent, on standard input, before anything else happens.

use std::io::Read;

use config_incidents::Engine;
use kitbag::{Context, Errors, Snapshot};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sent = String::new();
    std::io::stdin().read_to_string(&mut sent)?;
    let snapshot: Snapshot = serde_json::from_str(&sent)?;
    report(&publish(&snapshot)?);
    Ok(())
}

fn publish(snapshot: &Snapshot) -> Result<Context<Engine>, Errors> {
    snapshot.publish()
}

/// The rest of the process is handed the context, so it cannot run without one.
fn report(cfg: &Context<Engine>) {
    println!("{}", cfg.fingerprint());
    for (path, value) in cfg.values() {
        println!("{path} = {value}");
    }
}
