//! Incidents 9, 11, 12 and 14: the operator's input read where the effective value is meant: through a local name,
//! through another object that holds it, or by field.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Errors, Record};

struct Owner {
    args: Record<Engine>,
}

fn main() -> Result<(), Errors> {
    let owner = Owner { args: Engine::loader().record()? };
    let alias = &owner.args;
    let _ = alias.schedule().page_size();
    let _ = owner.args.page_size;
    let _ = alias == &owner.args;
    Ok(())
}
