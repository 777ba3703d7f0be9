//! Incidents 1 and 3: a runner is built, or a launcher reads, before anything is published.

use config_incidents::Engine;
use kitbag::{ConfigNamespaces, Context, Errors};

struct Runner {
    page_size: usize,
}

impl Runner {
    fn new(cfg: &Context<Engine>) -> Self {
        Self { page_size: cfg.pin().schedule().page_size() }
    }
}

fn main() -> Result<(), Errors> {
    let resolved = Engine::loader().resolve()?;
    let port = resolved.serving().port();
    let runner = Runner::new(&resolved);
    drop((port, runner.page_size));
    Ok(())
}
