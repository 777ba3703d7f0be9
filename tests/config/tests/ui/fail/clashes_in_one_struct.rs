use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Size of one pool.
    #[config(ns = "a", default = 1)]
    size: usize,
    /// Size of another pool.
    #[config(ns = "b", default = 1)]
    size: usize,
    /// A leaf where a namespace is.
    #[config(ns = "a", default = 1)]
    b: usize,
    /// Inside it.
    #[config(ns = "a.b", default = 1)]
    inner: usize,
    /// Shadows the file flag.
    #[config(ns = "a", default = 1)]
    config: usize,
}

fn main() {}
