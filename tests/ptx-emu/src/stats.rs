//! What a launch did, counted. The numbers are the same on every machine, so tests can hold them.

use std::ops::AddAssign;

/// Counters of one launch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions executed by warps; one with all lanes off by predicate counts too.
    pub warp_instructions: u64,
    /// The same, times the lanes that were active.
    pub lane_instructions: u64,
    /// Branches that split a warp.
    pub divergent_branches: u64,
    /// Bytes read from global memory, `cp.async` included.
    pub global_load_bytes: u64,
    /// Bytes written to global memory, atomics included.
    pub global_store_bytes: u64,
    /// Shared-memory instructions executed by warps.
    pub shared_accesses: u64,
    /// Passes over shared memory beyond those that conflict-free accesses take.
    pub bank_conflict_passes: u64,
    /// Matrix instructions (`mma`).
    pub matrix_instructions: u64,
    /// Block barriers passed by warps.
    pub barriers: u64,
}

impl Stats {
    /// The counters in the order of their declaration.
    #[must_use]
    pub fn counters(&self) -> [u64; 9] {
        [
            self.warp_instructions,
            self.lane_instructions,
            self.divergent_branches,
            self.global_load_bytes,
            self.global_store_bytes,
            self.shared_accesses,
            self.bank_conflict_passes,
            self.matrix_instructions,
            self.barriers,
        ]
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.warp_instructions += other.warp_instructions;
        self.lane_instructions += other.lane_instructions;
        self.divergent_branches += other.divergent_branches;
        self.global_load_bytes += other.global_load_bytes;
        self.global_store_bytes += other.global_store_bytes;
        self.shared_accesses += other.shared_accesses;
        self.bank_conflict_passes += other.bank_conflict_passes;
        self.matrix_instructions += other.matrix_instructions;
        self.barriers += other.barriers;
    }
}
