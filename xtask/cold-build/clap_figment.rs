//! Ten settings from a file, the environment and flags, by clap and figment.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

/// A service.
#[derive(Parser)]
struct Flags {
    /// Configuration file.
    #[arg(long)]
    config: Option<PathBuf>,
    #[command(flatten)]
    http: HttpFlags,
    #[command(flatten)]
    pool: PoolFlags,
    #[command(flatten)]
    store: StoreFlags,
    #[command(flatten)]
    log: LogFlags,
}

/// The flags that were given; serialised, they are figment's strongest layer.
#[derive(Serialize)]
struct Given<'a> {
    http: &'a HttpFlags,
    pool: &'a PoolFlags,
    store: &'a StoreFlags,
    log: &'a LogFlags,
}

#[derive(clap::Args, Serialize)]
struct HttpFlags {
    /// Address to listen on.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<SocketAddr>,
    /// Largest body, in bytes.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    body_limit: Option<u64>,
    /// Seconds a client may wait.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    patience: Option<f64>,
}

#[derive(clap::Args, Serialize)]
struct PoolFlags {
    /// Worker threads.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<usize>,
    /// Jobs that may wait.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<usize>,
    /// Give up instead of trying again.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(clap::Args, Serialize)]
struct StoreFlags {
    /// Where data is kept.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<PathBuf>,
    /// Days for which it is kept.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    days: Option<u32>,
}

#[derive(clap::Args, Serialize)]
struct LogFlags {
    /// Name in logs.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// How much is logged.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    http: Http,
    pool: Pool,
    store: Store,
    log: Log,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Http {
    listen: SocketAddr,
    body_limit: u64,
    patience: f64,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 8080)), body_limit: 1_048_576, patience: 1.5 }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pool {
    workers: usize,
    queue: usize,
    strict: bool,
}

impl Default for Pool {
    fn default() -> Self {
        Self { workers: 4, queue: 32, strict: false }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    folder: PathBuf,
    days: u32,
}

impl Default for Store {
    fn default() -> Self {
        Self { folder: "data".into(), days: 30 }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    title: String,
    level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { title: "ten".to_owned(), level: "info".to_owned() }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::parse();
    let mut figment = Figment::from(Serialized::defaults(Settings::default()));
    if let Some(path) = &flags.config {
        figment = figment.merge(Toml::file_exact(path));
    }
    // The first underscore of a variable separates namespace and name: one word each.
    let variables = Env::prefixed("TEN_").map(|name| name.as_str().replacen('_', ".", 1).into());
    let given = Given { http: &flags.http, pool: &flags.pool, store: &flags.store, log: &flags.log };
    let settings: Settings = figment.merge(variables).merge(Serialized::defaults(given)).extract()?;
    let Settings { http, pool, store, log } = &settings;
    if !(1..=4096).contains(&pool.queue) {
        return Err("pool.queue is outside 1..=4096".into());
    }
    println!("{} {} {}", http.listen, http.body_limit, http.patience);
    println!("{} {} {}", pool.workers, pool.queue, pool.strict);
    println!("{} {}", store.folder.display(), store.days);
    println!("{} {}", log.title, log.level);
    Ok(())
}
