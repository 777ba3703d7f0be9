use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Workers.
    #[config(ns = "pool.io", default = 1)]
    workers: usize,
    /// Queue.
    #[config(ns = "pool_io", default = 1)]
    queue: usize,
}

fn main() {}
