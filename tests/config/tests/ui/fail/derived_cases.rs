use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(derived(
    #[cases(pool.worker = [1, 2], pool.double = [2], facts = [1], pool.workers = [Vec::new()])]
    pool.double: usize = double(pool.workers),
))]
struct Names {
    /// Worker threads.
    #[config(ns = "pool", default = 2)]
    workers: usize,
}

#[derive(ConfigNamespaces)]
#[config(derived(
    #[cases(list.workers = 1)]
    list.double: usize = double(list.workers),
))]
struct NoList {
    /// Worker threads.
    #[config(ns = "list", default = 2)]
    workers: usize,
}

#[derive(ConfigNamespaces)]
#[config(derived(
    #[twin(double)]
    path.double: usize = double(path.workers),
))]
struct NoPath {
    /// Worker threads.
    #[config(ns = "path", default = 2)]
    workers: usize,
}

#[derive(ConfigNamespaces)]
#[config(derived(
    #[case(word.workers = [1])]
    word.double: usize = double(word.workers),
))]
struct Misspelt {
    /// Worker threads.
    #[config(ns = "word", default = 2)]
    workers: usize,
}

mod types {
    use kitbag::ConfigNamespaces;

    #[derive(ConfigNamespaces)]
    #[config(derived(
        #[cases(types.workers = [String::new()])]
        #[twin = super::half]
        types.double: usize = super::double(types.workers),
    ))]
    struct Typed {
        /// Worker threads.
        #[config(ns = "types", default = 2)]
        workers: usize,
    }
}

fn double(workers: usize) -> usize {
    2 * workers
}

fn half(workers: u32) -> u32 {
    workers / 2
}

fn main() {}
