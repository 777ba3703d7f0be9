//! 8- and 16-bit floating-point formats, by bits.

/// The `f32` that a `bf16` stands for.
#[inline(always)]
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to nearest, ties to even; every NaN becomes the canonical one.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if x.is_nan() { 0x7fff } else { rounded as u16 }
}

/// The `f32` that an `f16` stands for.
#[inline(always)]
pub(crate) fn from_f16(bits: u16) -> f32 {
    from_small(u32::from(bits), 5, 10)
}

/// Rounds to nearest, ties to even.
pub(crate) fn to_f16(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7fff;
    }
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    // 65520 lies halfway between the largest f16 and what would follow it.
    if x.abs() >= 65520.0 {
        return sign | 0x7c00;
    }
    sign | to_small(x.abs(), 10, -14) as u16
}

/// The `f32` that an `e4m3` stands for: bias 7, no infinities, one NaN per sign.
pub(crate) fn from_e4m3(bits: u8) -> f32 {
    if bits & 0x7f == 0x7f { f32::NAN } else { from_fields(u32::from(bits), 4, 3) }
}

/// Rounds to nearest, ties to even; what is too large becomes the largest number, 448.
pub(crate) fn to_e4m3_saturating(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = (x.to_bits() >> 24) as u8 & 0x80;
    sign | to_small(x.abs().min(448.0), 3, -6) as u8
}

/// The `f32` that an `e5m2` stands for: the upper half of an `f16`.
#[inline(always)]
pub(crate) fn from_e5m2(bits: u8) -> f32 {
    from_f16(u16::from(bits) << 8)
}

/// Rounds to nearest, ties to even; what is too large, infinity too, becomes the largest number, 57344.
pub(crate) fn to_e5m2_saturating(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = (x.to_bits() >> 24) as u8 & 0x80;
    sign | to_small(x.abs().min(57344.0), 2, -14) as u8
}

#[inline(always)]
fn from_small(bits: u32, exponent_bits: u32, fraction_bits: u32) -> f32 {
    let magnitude = bits & ((1 << (exponent_bits + fraction_bits)) - 1);
    let infinity = ((1 << exponent_bits) - 1) << fraction_bits;
    if magnitude < infinity {
        return from_fields(bits, exponent_bits, fraction_bits);
    }
    let value = if magnitude == infinity { f32::INFINITY } else { f32::NAN };
    if bits >> (exponent_bits + fraction_bits) & 1 != 0 { -value } else { value }
}

/// Reads sign, exponent and fraction of a finite number.
#[inline(always)]
fn from_fields(bits: u32, exponent_bits: u32, fraction_bits: u32) -> f32 {
    let magnitude = bits & ((1 << (exponent_bits + fraction_bits)) - 1);
    let bias = (1 << (exponent_bits - 1)) - 1;
    // With the fields at their place in an f32, only the bias differs; a multiplication corrects it, subnormals too.
    let moved = f32::from_bits(magnitude << (23 - fraction_bits));
    let value = moved * f32::from_bits((127 + 127 - bias) << 23);
    if bits >> (exponent_bits + fraction_bits) & 1 != 0 { -value } else { value }
}

/// Rounds a magnitude in range to `fraction_bits`, with the exponent of the smallest normal number at `smallest`.
fn to_small(x: f32, fraction_bits: u32, smallest: i32) -> u32 {
    let exponent = ((x.to_bits() >> 23) as i32 - 127).max(smallest);
    // In units of the last place the number is below 2^24, so both steps are exact but for the wanted rounding.
    let unit = 2.0_f32.powi(exponent - fraction_bits as i32);
    let units = (x / unit).round_ties_even() as u32;
    // A subnormal has no implicit leading one; a carry runs into the exponent by itself.
    let biased = (exponent - smallest) as u32;
    (biased << fraction_bits) + units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_round_trips_and_rounds() {
        for bits in 0..=0xffff_u16 {
            let value = from_f16(bits);
            if !value.is_nan() {
                assert_eq!(to_f16(value), bits, "{bits:#x} {value}");
            }
        }
        assert_eq!(to_f16(1.0 + 1.0 / 2048.0), 0x3c00, "a tie goes to even");
        assert_eq!(to_f16(1.0 + 3.0 / 2048.0), 0x3c02, "a tie goes to even");
        assert_eq!(to_f16(65519.9), 0x7bff);
        assert_eq!(to_f16(-65520.0), 0xfc00);
        assert_eq!(from_f16(1), 2.0_f32.powi(-24));
    }

    #[test]
    fn bf16_rounds_to_even() {
        assert_eq!(to_bf16(1.0), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(to_bf16(f32::MAX), 0x7f80);
        assert_eq!(to_bf16(f32::NAN), 0x7fff);
        assert_eq!(from_bf16(0xc040), -3.0);
    }

    #[test]
    fn e4m3_round_trips_and_saturates() {
        for bits in (0..=0xff_u8).filter(|bits| bits & 0x7f != 0x7f) {
            assert_eq!(to_e4m3_saturating(from_e4m3(bits)), bits, "{bits:#x}");
        }
        assert_eq!(from_e4m3(0x7e), 448.0);
        assert_eq!(from_e4m3(0x01), 2.0_f32.powi(-9));
        assert_eq!(to_e4m3_saturating(-1e9), 0xfe);
        assert!(from_e4m3(0x7f).is_nan());
    }
}
