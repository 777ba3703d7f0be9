use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(ns = "draft")]
struct Draft {
    /// Size.
    #[config(default = 1)]
    size: usize,
}

#[derive(ConfigNamespaces)]
#[config(ns = "target")]
struct Target {
    /// Size.
    #[config(default = 1)]
    size: usize,
}

#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    draft: Draft,
    #[config(nested)]
    target: Target,
}

fn main() {}
