#![deny(unused_must_use)]
use kitbag::{ConfigNamespaces, Errors};

#[derive(ConfigNamespaces)]
struct Args {
    /// Queue.
    #[config(ns = "pool", default = 2, hot)]
    queue: usize,
}

fn main() -> Result<(), Errors> {
    let cfg = Args::for_test(|_| {});
    cfg.override_with("lost at once", |o| { o.pool().queue(3); })?;
    Ok(())
}
