use kitbag::{ConfigNamespaces, Serde};

#[derive(Clone, Debug, PartialEq)]
struct Window(u32);

#[derive(ConfigNamespaces)]
struct Args {
    /// Window.
    #[config(ns = "ui")]
    window: Serde<Window>,
}

fn main() {}
