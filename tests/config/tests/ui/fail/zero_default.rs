use std::num::NonZeroU32;

use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Worker threads.
    #[config(ns = "pool", default = 0)]
    workers: NonZeroU32,
}

fn main() {}
