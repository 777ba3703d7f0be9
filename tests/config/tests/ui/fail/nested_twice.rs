use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(ns = "target")]
struct Model {
    /// Folder of the weights.
    #[config(default = "weights")]
    path: String,
}

#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    target: Model,
    #[config(nested)]
    draft: Model,
}

fn main() {
    // Reads do not fail as well.
    let cfg = Args::for_test(|_| {});
    let _ = (cfg.pin().target().path(), cfg.pin().draft().path());
}
