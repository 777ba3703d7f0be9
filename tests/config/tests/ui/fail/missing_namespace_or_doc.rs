use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Port.
    #[config(default = 80)]
    port: u16,
    #[config(ns = "http", default = 1)]
    undocumented: u16,
}

fn main() {}
