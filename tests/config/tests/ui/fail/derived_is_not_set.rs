use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(derived(pool.double: usize = double(pool.workers)))]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2, hot)]
    workers: usize,
}

fn double(workers: usize) -> usize {
    2 * workers
}

fn main() {
    let _ = Args::for_test(|o| { o.pool().double(8); });
}
