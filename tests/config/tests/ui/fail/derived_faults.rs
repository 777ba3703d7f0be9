use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(
    derived(
        pool.a: usize = f(pool.b),
        pool.b: usize = f(pool.a),
        pool.c: usize = f(pool.worker),
        lonely: usize = f(pool.workers),
        pool.d: usize = 3,
        pool.e: usize = g(facts),
    ),
    validate(check(pool.queu))
)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2)]
    workers: usize,
    /// Queue.
    #[config(ns = "pool", default = 2)]
    queue: usize,
}

fn f(x: usize) -> usize {
    x
}

fn g(_: &kitbag::Facts) -> usize {
    1
}

fn check(_: usize) -> Result<(), String> {
    Ok(())
}

fn main() {}
