//! What the tests of the CPU operations share: seeded numbers, comparison with float64, every kind of worker.

use std::num::NonZeroUsize;
use std::path::Path;

use super::{ElementType, Isa, Workers};

/// A `SplitMix64` generator that printed its seed, so that a failure can be repeated.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn announced(seed: u64) -> Self {
        eprintln!("random inputs from seed {seed:#x}");
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Uniform in `-1..1`.
    pub(super) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() >> 40) as f32 / 8_388_608.0 - 1.0).collect()
    }
}

/// The bytes of four rows of 256 elements and what another implementation expands them to.
pub(super) fn reference(element: ElementType) -> (Vec<u8>, Vec<f32>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/quants");
    let read = |kind: &str| {
        let path = folder.join(format!("{}.{kind}", element.name().to_lowercase()));
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let numbers = read("f32");
    (read("blocks"), numbers.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

/// The types that have a [`reference`].
pub(super) fn with_references() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.into_iter().filter(|&element| element != ElementType::F32)
}

/// One to three threads of each instruction set of this processor.
pub(super) fn workers_of_every_kind() -> Vec<Workers> {
    Isa::available()
        .into_iter()
        .flat_map(|isa| [1, 3].map(|threads| (isa, NonZeroUsize::new(threads).expect("not zero"))))
        .map(|(isa, threads)| Workers::with_isa(threads, isa).expect("threads start"))
        .collect()
}

#[track_caller]
pub(super) fn assert_close(got: &[f32], want: &[f64], tolerance: f64, case: &str) {
    assert_eq!(got.len(), want.len(), "{case}");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let difference = (f64::from(got) - want).abs();
        assert!(
            difference <= tolerance * want.abs().max(1.0),
            "{case}: element {i} is {got}, not {want} (off by {difference:e})"
        );
    }
}
