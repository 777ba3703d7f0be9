use kitbag::{ConfigNamespaces, Context};

#[derive(ConfigNamespaces)]
struct Args {
    /// Queue.
    #[config(ns = "pool", default = 2, hot)]
    queue: usize,
}

fn main() {
    let cfg: Context<Args> = Args::for_test(|_| {});
    let entered = cfg.enter();
    std::thread::spawn(move || drop(entered));
}
