use kitbag::{ConfigNamespaces, Secret};

#[derive(ConfigNamespaces)]
struct Args {
    /// In the clear.
    #[config(ns = "store", secret)]
    token: String,
    /// With a default.
    #[config(ns = "store", default = "hunter2")]
    password: Secret<String>,
}

fn main() {}
