//! Incidents 20, 30 and 31: a rule edits what it reads, or has another signature than its place asks for.

use kitbag::ConfigNamespaces;

#[derive(ConfigNamespaces)]
struct Args {
    /// Tokens prefilled at once.
    #[config(ns = "schedule", default = 8192)]
    chunk: usize,
    /// The same for one rank.
    #[config(ns = "schedule", auto = halve(schedule.chunk))]
    share: usize,
    /// The same, rounded.
    #[config(ns = "schedule", auto = rounded(schedule.chunk))]
    rounded: usize,
}

fn halve(chunk: &mut usize) -> usize {
    *chunk /= 2;
    *chunk
}

fn rounded(chunk: usize, to: usize) -> usize {
    chunk / to * to
}

fn main() {}
