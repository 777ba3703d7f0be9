use kitbag::ConfigNamespaces;

// One slip of the pen on the struct and one on a field hide no other fault, and cause none.
#[derive(ConfigNamespaces)]
#[config(env = "app", derived(pool.double usize = double(pool.workers)), validate(check(pool.quue)))]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = , hot)]
    workers: usize,
    /// Queue.
    #[config(ns = "pool", default = 2, auto = 3)]
    queue: usize,
    #[config(ns = "pool", default = 2, hot, load_time)]
    undocumented: usize,
}

fn double(workers: usize) -> usize {
    2 * workers
}

fn check(_: usize) -> Result<(), String> {
    Ok(())
}

// The namespace is understood in spite of the slip before it.
#[derive(ConfigNamespaces)]
#[config(enw = "INNER", ns = "inner")]
struct Inner {
    /// Depth.
    #[config(default = 3, flag = "--Depth")]
    depth: usize,
}

fn main() {
    // A hot leaf stays hot.
    let cfg = Args::for_test(|_| {});
    let _guard = cfg.override_with("test", |o| o.pool().workers(3));
}
