use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 2, hot)]
    workers: usize,
}

fn main() {
    let cfg = Args::for_test(|_| {});
    let _guard = cfg.override_with("type", |o| { o.pool().workers("8"); });
    let _guard = cfg.override_with("name", |o| { o.pool().worker(8); });
    let _ = cfg.pin().pool().wrokers();
}
