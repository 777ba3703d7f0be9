//! Seeded random numbers, and bf16 as bits.

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

/// A NaN.
pub(super) const BF16_NAN: u16 = 0x7fc1;

/// The nearest bf16, ties to even.
pub(super) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return BF16_NAN;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The value of a bf16.
pub(super) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_to_nearest_even() {
        for (value, bits) in [
            (1.0, 0x3f80),
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::NEG_INFINITY, 0xff80),
            (f32::MAX, 0x7f80),
        ] {
            assert_eq!(to_bf16(value), bits, "{value}");
        }
        assert!(from_bf16(to_bf16(f32::NAN)).is_nan());
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut noise = Noise::new(1);
        let numbers: Vec<f64> = (0..20_000).map(|_| f64::from(noise.normal())).collect();
        let mean = numbers.iter().sum::<f64>() / 20_000.0;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
