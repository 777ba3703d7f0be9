use kitbag::{ConfigNamespaces, Secret};

#[derive(ConfigNamespaces)]
#[config(derived(store.copy: String = copy(store.password)))]
struct Args {
    /// In the clear.
    #[config(ns = "store", secret)]
    token: String,
    /// With a default.
    #[config(ns = "store", default = "hunter2")]
    password: Secret<String>,
    /// Several, which is fine.
    #[config(ns = "store", secret)]
    keys: Vec<Secret<String>>,
}

fn copy(password: &Secret<String>) -> String {
    password.expose().clone()
}

fn main() {}
