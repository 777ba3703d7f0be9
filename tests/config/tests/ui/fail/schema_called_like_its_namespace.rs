use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Pool {
    /// Workers.
    #[config(ns = "pool", default = 1)]
    workers: usize,
}

fn main() {}
