//! Random numbers that depend on a seed and a place, and on nothing else.

/// A small seeded generator (`SplitMix64`): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of `seed` after it has given `count` numbers.
    #[must_use]
    pub fn after(seed: u64, count: u64) -> Self {
        Self(seed.wrapping_add(Self::STEP.wrapping_mul(count)))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number of `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The number of `0.0..1.0` that decides the token at `position` of a request with `seed`.
pub(super) fn unit_at(seed: u64, position: u64) -> f64 {
    // Seeds that differ by the step of the generator would give the same numbers one place apart, so seeds are mixed first.
    let start = Random::new(seed).bits();
    Random::after(start, position).unit()
}

#[cfg(test)]
mod tests {
    use super::{Random, unit_at};

    #[test]
    fn a_generator_starts_anywhere_in_its_numbers() {
        let mut random = Random::new(9);
        for count in 0..50 {
            assert_eq!(Random::after(9, count).bits(), random.bits(), "after {count}");
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn seeds_one_step_apart_share_no_numbers() {
        let row = |seed: u64| -> Vec<u64> { (0..64).map(|position| unit_at(seed, position).to_bits()).collect() };
        let (first, second) = (row(5), row(5_u64.wrapping_add(Random::STEP)));
        assert!(first.iter().all(|number| !second.contains(number)));
    }
}
