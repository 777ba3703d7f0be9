mod settings {
    use kitbag::ConfigNamespaces;

    #[derive(ConfigNamespaces)]
    pub struct Args {
        /// Queue.
        #[config(ns = "pool", default = 2, hot)]
        queue: usize,
    }
}

use kitbag::ConfigNamespaces;

fn main() {
    let cfg = settings::Args::for_test(|_| {});
    let _ = cfg.pin().pool().queue;
}
