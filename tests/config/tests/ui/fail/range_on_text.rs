use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Name.
    #[config(ns = "a", default = "x", range = 1..=3)]
    name: String,
}

fn main() {}
