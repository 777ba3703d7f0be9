use kitbag::{ConfigNamespaces, Secret};

#[derive(ConfigNamespaces)]
#[config(ns = "store")]
struct Store {
    /// Token of the store.
    token: Secret<String>,
}

#[derive(ConfigNamespaces)]
#[config(derived(
    log.hidden: Secret<String> = hidden(store.token),
    log.header: String = header(store.token),
))]
struct Args {
    #[config(nested)]
    store: Store,
}

mod by_rule {
    #[derive(kitbag::ConfigNamespaces)]
    struct ByRule {
        #[config(nested)]
        store: super::Store,
        /// A default from the token.
        #[config(ns = "log", auto = super::header(store.token))]
        header: String,
    }
}

fn hidden(token: &Secret<String>) -> Secret<String> {
    token.clone()
}

fn header(token: &Secret<String>) -> String {
    token.expose().clone()
}

fn main() {}
