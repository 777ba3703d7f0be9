//! Ten settings from a file, the environment and flags, by kitbag.

use std::net::SocketAddr;
use std::path::PathBuf;

use kitbag::{ConfigNamespaces, Errors};

/// A service.
#[derive(ConfigNamespaces)]
#[config(env = "TEN")]
struct Args {
    /// Address to listen on.
    #[config(ns = "http", default = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Largest body, in bytes.
    #[config(ns = "http", default = 1_048_576)]
    body_limit: u64,
    /// Seconds a client may wait.
    #[config(ns = "http", default = 1.5)]
    patience: f64,
    /// Worker threads.
    #[config(ns = "pool", default = 4)]
    workers: usize,
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32, range = 1..=4096)]
    queue: usize,
    /// Give up instead of trying again.
    #[config(ns = "pool", default = false)]
    strict: bool,
    /// Where data is kept.
    #[config(ns = "store", default = "data")]
    folder: PathBuf,
    /// Days for which it is kept.
    #[config(ns = "store", default = 30)]
    days: u32,
    /// Name in logs.
    #[config(ns = "log", default = "ten")]
    title: String,
    /// How much is logged.
    #[config(ns = "log", default = "info")]
    level: String,
}

fn main() -> Result<(), Errors> {
    let cfg = Args::load()?;
    let now = cfg.pin();
    let (http, pool, store, log) = (now.http(), now.pool(), now.store(), now.log());
    println!("{} {} {}", http.listen(), http.body_limit(), http.patience());
    println!("{} {} {}", pool.workers(), pool.queue(), pool.strict());
    println!("{} {}", store.folder().display(), store.days());
    println!("{} {}", log.title(), log.level());
    Ok(())
}
