use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(env = "APP")]
struct Args {
    /// Largest body.
    #[config(ns = "pool", default = 1)]
    max_body: usize,
    /// Its variable is the same.
    #[config(ns = "pool.max", default = 1)]
    body: usize,
    /// One of its own.
    #[config(ns = "http", env = "HTTP_PROXY")]
    proxy: Option<String>,
    /// The same again.
    #[config(ns = "http", env = "HTTP_PROXY")]
    relay: Option<String>,
    /// What another has by its path.
    #[config(ns = "http", env = "APP_POOL_MAX_BODY")]
    limit: Option<usize>,
    /// What names the files.
    #[config(ns = "http", env = "APP_CONFIG")]
    first: Option<String>,
    /// A switch.
    #[config(ns = "pool", default = true)]
    cache: bool,
    /// Its flag switches that off.
    #[config(ns = "pool", default = true)]
    no_cache: bool,
}

fn main() {}
