use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2)]
    workers: usize,
}

fn main() {
    let cfg = Args::for_test(|o| { o.pool().workers(3); });
    let _guard = cfg.override_with("burst", |o| { o.pool().workers(8); });
}
