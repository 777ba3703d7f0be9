//! Seeded random numbers.

pub(super) use crate::cuda::bf16::{from_bf16, to_bf16};

/// A small generator (`SplitMix64`): the same numbers everywhere for a seed, with no dependency to keep in step.
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Noise {
    /// A sequence of its own for every seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is positive.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    /// Bell-shaped, mean 0, deviation 1.
    pub fn normal(&mut self) -> f32 {
        // Twelve uniform numbers would be classic; four 16-bit ones are near enough and cost one step.
        let bits = self.bits();
        let sum: u64 = (0..4).map(|i| bits >> (16 * i) & 0xffff).sum();
        (sum as f32 / 65_536.0 - 2.0) * 3.0_f32.sqrt()
    }

    /// Normal numbers as bf16.
    pub fn normal_bf16(&mut self, count: usize) -> Vec<u16> {
        (0..count).map(|_| to_bf16(self.normal())).collect()
    }

    /// Puts values into random order.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}

/// Gives every value of a slice a new one.
pub(super) fn change(values: &mut [f32], new: impl Fn(f32) -> f32) {
    for value in values {
        *value = new(*value);
    }
}

/// A NaN, as bf16.
pub(super) const BF16_NAN: u16 = 0x7fc1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut noise = Noise::new(1);
        let numbers: Vec<f64> = (0..20_000).map(|_| f64::from(noise.normal())).collect();
        let mean = numbers.iter().sum::<f64>() / 20_000.0;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
