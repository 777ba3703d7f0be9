use std::time::Duration;

use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Patience.
    #[config(ns = "pool", default = "5s")]
    patience: Duration,
    /// Its former name.
    #[config(ns = "pool", deprecated(since = "0.3", use = "pool.patience"))]
    timeout_secs: u64,
}

fn main() {}
