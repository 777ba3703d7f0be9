use kitbag::{ConfigChoice, ConfigNamespaces};

#[derive(ConfigNamespaces)]
#[config(ns = "inner")]
struct Inner {
    /// Depth.
    #[config(default = 3)]
    depth: usize,
}

#[derive(ConfigNamespaces)]
#[config(env = "app_")]
struct Args {
    /// Port.
    #[config(ns = "Http", default = 80, auto = ports)]
    port: u16,
    /// Name.
    #[config(ns = "http", default = "x", hot, load_time)]
    name: String,
    /// Flag.
    #[config(ns = "http", default = 1, flag = "--Size")]
    size: usize,
    /// Nested with a default.
    #[config(nested, default = 3)]
    inner: Inner,
}

#[derive(ConfigNamespaces)]
struct Tuple(usize);

#[derive(ConfigNamespaces)]
enum Choice {
    A,
}

#[derive(ConfigNamespaces)]
struct Generic<T> {
    /// Value.
    #[config(ns = "a")]
    value: T,
}

#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
enum Data {
    Plain,
    Holds(usize),
}

fn main() {}
