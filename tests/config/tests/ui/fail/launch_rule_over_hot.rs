use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Tokens at once.
    #[config(ns = "schedule", default = 512, hot)]
    chunk: usize,
    /// Stale after the first override of the chunk.
    #[config(ns = "schedule", auto = twice(schedule.chunk))]
    buffer: usize,
}

fn twice(chunk: usize) -> usize {
    2 * chunk
}

fn main() {}
