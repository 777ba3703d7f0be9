use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Workers.
    #[config(ns = "pool", default = 1)]
    workers: usize,
}

#[derive(ConfigNamespaces)]
struct Tool {
    /// Queue.
    #[config(ns = "pool", default = 1)]
    queue: usize,
}

fn main() {}
