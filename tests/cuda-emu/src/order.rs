//! A random order of deferred work that follows from a seed.

/// Draws with `SplitMix64`.
pub(crate) struct Order {
    state: u64,
}

/// What becomes of work that is not waited for, while something else is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It is left undone. Work that reads its results without waiting for them comes too early.
    Late,
    /// It is done first. Work that overwrites what others still have to read comes too early.
    Early,
    /// Some of it is done.
    Any,
}

impl Order {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    pub(crate) fn pace(&mut self) -> Pace {
        [Pace::Late, Pace::Early, Pace::Any][self.below(3)]
    }
}
