//! bf16 values as their bits.

/// The nearest bf16, ties to even.
#[must_use]
pub fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        // Rounding could carry into the sign; the upper half of one with a low payload would be an infinity.
        return 0x7fc1;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The value of a bf16.
#[must_use]
pub fn from_bf16(bits: u16) -> f32 {
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
}
