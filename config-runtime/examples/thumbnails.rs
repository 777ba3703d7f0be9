//! The example of the README: ten lines of schema, and everything that follows from them.

use kitbag::{ConfigNamespaces, Context, Errors, Facts};

/// Thumbnail service.
#[derive(ConfigNamespaces)]
#[config(env = "THUMB", derived(pool.capacity: usize = capacity(pool.workers, pool.queue)))]
struct Args {
    /// Address to listen on.
    #[config(ns = "http", default = "127.0.0.1:8080")]
    listen: std::net::SocketAddr,
    /// Worker threads; one per core unless set.
    #[config(ns = "pool", auto = Facts::cpus)]
    workers: usize,
    /// Jobs that may wait per worker.
    #[config(ns = "pool", default = 32, range = 1..=4096, hot)]
    queue: usize,
}
fn capacity(workers: usize, queue: usize) -> usize {
    workers * queue
}

fn main() -> Result<(), Errors> {
    let cfg: Context<Args> = Args::load()?; // default < file < THUMB_* < flags; all errors at once
    let now = cfg.pin(); // one consistent epoch; a read is a field read
    println!("{} workers on {}", now.pool().workers(), now.http().listen());
    let burst = cfg.override_with("burst", |o| o.pool().queue(64))?; // .workers(8) does not compile
    assert_eq!(cfg.pin().pool().capacity(), now.pool().workers() * 64); // derived values follow
    drop(burst); // exact restore; `cargo test` runs the emitted tests
    Ok(())
}
