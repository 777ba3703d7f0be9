use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
#[config(derived(schedule.double: usize = twice(schedule.chunk)))]
struct Args {
    /// Tokens at once.
    #[config(ns = "schedule", default = 512, hot)]
    chunk: usize,
    /// Stale after the first override of the chunk.
    #[config(ns = "schedule", auto = twice(schedule.chunk))]
    buffer: usize,
    /// The same through a derived value.
    #[config(ns = "schedule", auto = twice(schedule.double))]
    spare: usize,
}

fn twice(chunk: usize) -> usize {
    2 * chunk
}

fn main() {}
