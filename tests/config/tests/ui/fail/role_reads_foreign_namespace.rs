use kitbag::{ConfigNamespaces, ConfigRole};

#[derive(ConfigNamespaces)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2)]
    workers: usize,
    /// Port.
    #[config(ns = "http", default = 80)]
    port: u16,
}

#[derive(ConfigRole)]
#[config(reads(PoolBag))]
struct Worker;

fn main() {
    let now = Args::for_test(|_| {}).view::<Worker>().pin();
    let _ = now.pool().workers();
    let _ = now.http().port();
}
