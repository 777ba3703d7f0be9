use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(
    derived(
        #[cases(queue = [1, 2])]
        pool.double: usize = twice(pool.queue),
        net.double: usize = twice(pool.queue),
        pool.quadruple: usize = twice(double),
    ),
    validate(small(net.queue), small(patience))
)]
struct Root {
    /// Queue.
    #[config(ns = "pool", default = 2)]
    queue: usize,
}

#[derive(ConfigNamespaces)]
#[config(ns = "store", derived(
    #[cases(store.pages = [1, 2])]
    double: usize = twice(pages),
))]
struct Store {
    /// Pages.
    #[config(default = 2)]
    pages: usize,
}

fn twice(queue: usize) -> usize {
    2 * queue
}

fn small(queue: usize) -> Result<(), String> {
    if queue < 10 { Ok(()) } else { Err("not small".to_owned()) }
}

fn main() {}
