//! Incidents 17 and 19: raw and effective are two types, so one cannot be passed for the other.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Context, Errors, Record};

fn pool_bytes(cfg: &Context<Engine>) -> usize {
    cfg.pin().schedule().page_size() * 128
}

fn main() -> Result<(), Errors> {
    let record: Record<Engine> = Engine::loader().record()?;
    pool_bytes(&record);
    Ok(())
}
