use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(ns = "exec.kernel")]
struct Kernel {
    /// Size.
    #[config(default = 1)]
    size: usize,
}

#[derive(ConfigNamespaces)]
struct Args {
    #[config(nested)]
    kernel: Kernel,
}

fn main() {}
