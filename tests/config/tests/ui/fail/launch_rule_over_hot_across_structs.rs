use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(ns = "schedule", derived(
    twice: usize = twice(chunk),
    at_launch allocated: usize = twice(chunk),
))]
struct Schedule {
    /// Tokens at once.
    #[config(default = 512, hot)]
    chunk: usize,
}

/// Reads the leaf itself.
#[derive(ConfigNamespaces)]
struct Direct {
    #[config(nested)]
    schedule: Schedule,
    /// Stale after the first override of the chunk.
    #[config(ns = "memory", auto = twice(schedule.chunk))]
    buffer: usize,
}

mod through {
    /// Reads what follows from it.
    #[derive(kitbag::ConfigNamespaces)]
    struct Through {
        #[config(nested)]
        schedule: super::Schedule,
        /// The same.
        #[config(ns = "memory", auto = super::twice(schedule.twice), load_time)]
        buffer: usize,
    }
}

mod fine {
    /// Reads what never changes, or may change itself.
    #[derive(kitbag::ConfigNamespaces)]
    struct Fine {
        #[config(nested)]
        schedule: super::Schedule,
        /// Fixed.
        #[config(ns = "memory", auto = super::twice(schedule.allocated))]
        buffer: usize,
        /// A default once, then on its own.
        #[config(ns = "memory", auto = super::twice(schedule.chunk), hot)]
        spare: usize,
    }
}

fn twice(chunk: usize) -> usize {
    2 * chunk
}

fn main() {}
