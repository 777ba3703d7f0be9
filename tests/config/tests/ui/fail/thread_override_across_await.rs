use kitbag::{ConfigNamespaces, Context};

#[derive(ConfigNamespaces)]
struct Args {
    /// Queue.
    #[config(ns = "pool", default = 2, hot)]
    queue: usize,
}

fn spawn(_: impl Future<Output = ()> + Send + 'static) {}

fn main() {
    let cfg: Context<Args> = Args::for_test(|_| {});
    spawn(async move {
        let _guard = cfg.override_thread("held", |o| { o.pool().queue(3); });
        std::future::ready(()).await;
    });
}
