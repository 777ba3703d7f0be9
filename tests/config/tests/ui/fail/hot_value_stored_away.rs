use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Queue.
    #[config(ns = "pool", default = 2, hot)]
    queue: usize,
}

struct Worker {
    queue: usize,
}

fn main() {
    let cfg = Args::for_test(|_| {});
    let worker = Worker { queue: cfg.pin().pool().queue() };
    drop(worker.queue);
}
