use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Length of the context.
    #[config(ns = "model", default = 2048, load_time)]
    context_length: usize,
}

fn main() {
    let cfg = Args::for_test(|_| {});
    let _guard = cfg.override_with("late", |o| { o.model().context_length(8); });
}
