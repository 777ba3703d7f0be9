//! What to check, and in which order to run.

/// How blocks and warps take turns. Every order is one that hardware may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Blocks by index; the warps of a block by index, each for as long as it can.
    #[default]
    InOrder,
    /// Blocks in a shuffled order; warps shuffled anew in each round and interrupted often. The same seed gives the
    /// same order.
    Random(u64),
}

/// Switches of the checkers; all on by default.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, set by name")]
pub struct Options {
    /// Shared-memory races: accesses by different threads that no barrier orders, and uses of `cp.async` targets before
    /// the wait.
    pub races: bool,
    /// Races between blocks: accesses to global memory, one of them a write, that nothing orders.
    pub block_races: bool,
    /// Stores to global memory by which lanes of one instruction leave different values in one place. In shared memory
    /// these are races.
    pub store_conflicts: bool,
    /// Reads of shared memory that nobody has written.
    pub uninitialised_shared: bool,
    /// Reads of global memory that neither the host nor a kernel has written.
    pub uninitialised_global: bool,
    /// Shuffles that read lanes which do not take part.
    pub inactive_lanes: bool,
    /// Count shared-memory bank conflicts.
    pub bank_conflicts: bool,
    /// Warp instructions after which a launch is taken for an endless loop.
    pub budget: u64,
    /// Order of blocks and warps.
    pub schedule: Schedule,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            races: true,
            block_races: true,
            store_conflicts: true,
            uninitialised_shared: true,
            uninitialised_global: true,
            inactive_lanes: true,
            bank_conflicts: true,
            budget: 20_000_000_000,
            schedule: Schedule::InOrder,
        }
    }
}

impl Options {
    /// No checks beyond those without which execution has no meaning (bounds, alignment, barriers).
    #[must_use]
    pub fn unchecked() -> Self {
        Self {
            races: false,
            block_races: false,
            store_conflicts: false,
            uninitialised_shared: false,
            uninitialised_global: false,
            inactive_lanes: false,
            bank_conflicts: false,
            ..Self::default()
        }
    }
}
