use kitbag::ConfigNamespaces;

#[derive(Clone, Debug, PartialEq)]
struct Window(u32);

#[derive(ConfigNamespaces)]
struct Args {
    /// Window.
    #[config(ns = "ui", default = "3")]
    window: Window,
}

fn main() {}
