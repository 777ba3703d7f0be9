use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(retired(pool.workers = "gone"))]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2)]
    workers: usize,
    /// Queue.
    #[config(ns = "pool", default = 2, alias = "pool.width")]
    queue: usize,
    /// Width.
    #[config(ns = "pool", default = 2)]
    width: usize,
    /// Depth.
    #[config(ns = "pool", default = 2, alias = "pool.old")]
    depth: usize,
    /// Height.
    #[config(ns = "pool", default = 2, alias = "pool.old")]
    height: usize,
}

fn main() {}
