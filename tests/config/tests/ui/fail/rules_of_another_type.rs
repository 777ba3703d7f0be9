use std::time::Duration;

use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(
    derived(pool.bytes: usize = bytes(pool.queue), pool.total: usize = total(pool.queue)),
    validate(is_even(pool.queue), is_small(pool.queue))
)]
struct Args {
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32)]
    queue: usize,
    /// How long a job may wait.
    #[config(ns = "pool", default = "1s")]
    patience: Duration,
    /// Former name, in seconds.
    #[config(ns = "pool", deprecated(since = "0.3", use = "pool.patience"))]
    timeout_secs: u64,
}

fn bytes(queue: usize) -> usize {
    queue
}

fn total(queue: usize) -> u64 {
    queue as u64
}

fn is_even(queue: usize) -> bool {
    queue % 2 == 0
}

fn is_small(_queue: usize) -> Result<(), &'static str> {
    Ok(())
}

fn main() {}
