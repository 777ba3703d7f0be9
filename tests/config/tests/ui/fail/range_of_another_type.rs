use std::time::Duration;

use kitbag::{ByteSize, ConfigNamespaces, Secret};

#[derive(ConfigNamespaces)]
struct Args {
    /// A duration, with numbers.
    #[config(ns = "a", default = "1s", range = 1..=5)]
    patience: Duration,
    /// A duration, with texts.
    #[config(ns = "a", range = "1s".."5s")]
    maybe: Option<Duration>,
    /// A size, with numbers.
    #[config(ns = "a", default = "1KiB", range = 1024..)]
    body: ByteSize,
    /// An integer, with floats.
    #[config(ns = "a", default = 1, range = 0.5..=1.5)]
    count: u16,
    /// A float, with integers.
    #[config(ns = "a", default = 0.5, range = ..1)]
    share: f64,
    /// A number that is no range.
    #[config(ns = "a", default = 1, range = 5)]
    alone: u8,
    /// A secret.
    #[config(ns = "a", range = 1..=5)]
    pin: Secret<u32>,
}

fn main() {}
