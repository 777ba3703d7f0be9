use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(derived(pool.double: usize = double(pool.name)))]
struct Args {
    /// Name.
    #[config(ns = "pool", default = "x")]
    name: String,
}

fn double(workers: usize) -> usize {
    2 * workers
}

fn main() {}
