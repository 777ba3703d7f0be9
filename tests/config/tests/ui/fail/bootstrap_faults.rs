use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(ns = "inner")]
struct Inner {
    /// Depth.
    #[config(default = 3)]
    depth: usize,
}

#[derive(ConfigNamespaces)]
struct Args {
    /// A rule over what is not known yet.
    #[config(ns = "service", auto = double(pool.queue), bootstrap)]
    readers: usize,
    /// Jobs that may wait.
    #[config(ns = "pool", default = 32)]
    queue: usize,
    /// Not a setting.
    #[config(nested, bootstrap)]
    inner: Inner,
}

mod early {
    /// Fine.
    #[derive(kitbag::ConfigNamespaces)]
    pub struct Args {
        /// Home.
        #[config(ns = "service", default = "a", bootstrap)]
        home: String,
        /// Jobs that may wait.
        #[config(ns = "pool", default = 32)]
        queue: usize,
    }
}

fn double(queue: usize) -> usize {
    2 * queue
}

fn main() {
    let early = early::Args::loader().bootstrap().unwrap();
    let _: &str = early.get(early::Args::keys().service.home);
    let _: usize = early.get(early::Args::keys().pool.queue);
}
