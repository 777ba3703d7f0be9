use kitbag::{ConfigNamespaces, Facts};

#[derive(ConfigNamespaces)]
struct Args {
    /// Read by a rule.
    #[config(ns = "pool", default = 2, resolution_only)]
    per_cpu: usize,
    /// Worker threads.
    #[config(ns = "pool", auto = workers(pool.per_cpu, facts))]
    workers: usize,
}

fn workers(per_cpu: usize, facts: &Facts) -> usize {
    per_cpu * facts.cpus()
}

fn main() {
    let _ = Args::for_test(|_| {}).pin().pool().per_cpu();
}
