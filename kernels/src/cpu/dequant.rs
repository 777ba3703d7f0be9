//! From the element types of weight files to `f32`.
//!
//! Numbers are little-endian, scales are f16. The elements of a quantised type lie in blocks:
//!
//! | type | elements | bytes | contents | element |
//! |---|--:|--:|---|---|
//! | `Q4_0` | 32 | 18 | `d`; 4-bit `q` | `d · (q - 8)` |
//! | `Q4_1` | 32 | 20 | `d`, `m`; 4-bit `q` | `d · q + m` |
//! | `Q5_0` | 32 | 22 | `d`; fifth bits; 4-bit `q` | `d · (q - 16)` |
//! | `Q5_1` | 32 | 24 | `d`, `m`; fifth bits; 4-bit `q` | `d · q + m` |
//! | `Q8_0` | 32 | 34 | `d`; 8-bit `q` | `d · q` |
//! | `Q4_K`, `Q5_K`, `Q6_K` | 256 | 144, 176, 210 | scales of scales | see `k_quants.rs` |
//!
//! Of 16 bytes with two 4-bit numbers each, the low halves are elements 0 to 15 and the high halves 16 to 31.
//!
//! The functions for one block are small and always inlined: compiled inside a loop for wide vectors, they become wide vector
//! code. They take from there how it widens a half-precision number. They round as they are written, so every instruction set
//! expands a block to the same bits.

// A function that is not inlined is compiled for the baseline's vectors, not for those of the loop that calls it.
#![allow(clippy::inline_always)]

mod k_quants;

pub(super) use k_quants::{q4_k, q5_k, q6_k};

use super::Isa;
use super::simd::expand;

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single-precision number.
    Bf16,
    /// Blocks of 32 four-bit numbers with a scale.
    Q4_0,
    /// Blocks of 32 four-bit numbers with a scale and a minimum.
    Q4_1,
    /// Blocks of 32 five-bit numbers with a scale.
    Q5_0,
    /// Blocks of 32 five-bit numbers with a scale and a minimum.
    Q5_1,
    /// Blocks of 32 signed bytes with a scale.
    Q8_0,
    /// Blocks of 256 four-bit numbers with eight scales and minima.
    Q4K,
    /// Blocks of 256 five-bit numbers with eight scales and minima.
    Q5K,
    /// Blocks of 256 six-bit numbers with sixteen scales.
    Q6K,
}

crate::named! {
    /// The name that files and their tools use, such as `Q4_K`.
    ElementType {
        F32 => "F32",
        F16 => "F16",
        Bf16 => "BF16",
        Q4_0 => "Q4_0",
        Q4_1 => "Q4_1",
        Q5_0 => "Q5_0",
        Q5_1 => "Q5_1",
        Q8_0 => "Q8_0",
        Q4K => "Q4_K",
        Q5K => "Q5_K",
        Q6K => "Q6_K",
    }
}

impl ElementType {
    /// The elements of a block, 1 for types that have none, and its bytes.
    #[must_use]
    pub const fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }

    /// The bytes `elements` consecutive elements take: nothing when they do not fill whole blocks or the count overflows.
    #[must_use]
    pub const fn bytes(self, elements: usize) -> Option<usize> {
        let (block, block_bytes) = self.block();
        if elements.is_multiple_of(block) { (elements / block).checked_mul(block_bytes) } else { None }
    }

    /// Converts elements of this type to single precision.
    ///
    /// # Panics
    ///
    /// When `bytes` does not hold as many elements as `out`.
    pub fn expand(self, isa: Isa, bytes: &[u8], out: &mut [f32]) {
        expand(isa, self, bytes, out);
    }
}

#[inline(always)]
pub(super) fn q4_0(half: impl Fn([u8; 2]) -> f32, block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = half([block[0], block[1]]);
    for (i, &pair) in block[2..].iter().enumerate() {
        out[i] = scale * (i32::from(pair & 0xf) - 8) as f32;
        out[i + 16] = scale * (i32::from(pair >> 4) - 8) as f32;
    }
}

#[inline(always)]
pub(super) fn q4_1(half: impl Fn([u8; 2]) -> f32, block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, minimum) = (half([block[0], block[1]]), half([block[2], block[3]]));
    for (i, &pair) in block[4..].iter().enumerate() {
        out[i] = scale * i32::from(pair & 0xf) as f32 + minimum;
        out[i + 16] = scale * i32::from(pair >> 4) as f32 + minimum;
    }
}

#[inline(always)]
pub(super) fn q5_0(half: impl Fn([u8; 2]) -> f32, block: &[u8; 22], out: &mut [f32; 32]) {
    let scale = half([block[0], block[1]]);
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    for (i, &pair) in block[6..].iter().enumerate() {
        let (low, high) = five_bits(pair, fifth, i);
        out[i] = scale * (low - 16) as f32;
        out[i + 16] = scale * (high - 16) as f32;
    }
}

#[inline(always)]
pub(super) fn q5_1(half: impl Fn([u8; 2]) -> f32, block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, minimum) = (half([block[0], block[1]]), half([block[2], block[3]]));
    let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    for (i, &pair) in block[8..].iter().enumerate() {
        let (low, high) = five_bits(pair, fifth, i);
        out[i] = scale * low as f32 + minimum;
        out[i + 16] = scale * high as f32 + minimum;
    }
}

/// Elements `i` and `i + 16`: their low four bits are in `pair`, bit `e` of `fifth` is the high one of element `e`.
#[inline(always)]
fn five_bits(pair: u8, fifth: u32, i: usize) -> (i32, i32) {
    let high_bit = |element: usize| ((fifth >> element & 1) << 4) as i32;
    (i32::from(pair & 0xf) | high_bit(i), i32::from(pair >> 4) | high_bit(i + 16))
}

#[inline(always)]
pub(super) fn q8_0(half: impl Fn([u8; 2]) -> f32, block: &[u8; 34], out: &mut [f32; 32]) {
    let scale = half([block[0], block[1]]);
    for (out, &q) in out.iter_mut().zip(&block[2..]) {
        *out = scale * f32::from(q.cast_signed());
    }
}

#[inline(always)]
pub(super) fn floats(_: impl Fn([u8; 2]) -> f32, bytes: &[u8; 64], out: &mut [f32; 16]) {
    for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = f32::from_le_bytes(bytes);
    }
}

#[inline(always)]
pub(super) fn halves(half: impl Fn([u8; 2]) -> f32, bytes: &[u8; 32], out: &mut [f32; 16]) {
    for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = half(bytes);
    }
}

/// Each is the upper half of a number.
#[inline(always)]
pub(super) fn upper_halves(_: impl Fn([u8; 2]) -> f32, bytes: &[u8; 32], out: &mut [f32; 16]) {
    for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16);
    }
}

/// Half to single precision, exact for every bit pattern.
#[inline(always)]
pub(super) fn half(bytes: [u8; 2]) -> f32 {
    const SMALLEST_NORMAL: u32 = 113 << 23;
    let bits = u32::from(u16::from_le_bytes(bytes));
    let sign = (bits & 0x8000) << 16;
    // Exponent and fraction in their new places, the exponent with its new bias.
    let magnitude = ((bits & 0x7fff) << 13) + (112 << 23);
    let magnitude = match bits & 0x7c00 {
        // A subnormal number is what its fraction adds to the smallest normal one.
        0 => (f32::from_bits(magnitude + (1 << 23)) - f32::from_bits(SMALLEST_NORMAL)).to_bits(),
        // Infinity, and what is no number.
        0x7c00 => magnitude | 0x7f80_0000,
        _ => magnitude,
    };
    f32::from_bits(magnitude | sign)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // These results are exact.
mod tests {
    use super::half;

    #[test]
    fn half_precision_is_exact_for_every_bit_pattern() {
        for bits in 0..=u16::MAX {
            let (sign, exponent, fraction) = (bits >> 15, (bits >> 10) & 0x1f, f64::from(bits & 0x3ff));
            let magnitude = match exponent {
                0 => fraction * 2.0_f64.powi(-24),
                0x1f if fraction == 0.0 => f64::INFINITY,
                0x1f => f64::NAN,
                _ => (1.0 + fraction / 1024.0) * 2.0_f64.powi(i32::from(exponent) - 15),
            };
            let want = if sign == 1 { -magnitude } else { magnitude };
            let got = f64::from(half(bits.to_le_bytes()));
            assert!(got == want || (got.is_nan() && want.is_nan()), "{bits:#06x}: {got} is not {want}");
            assert_eq!(got.is_sign_negative(), want.is_sign_negative() || (want.is_nan() && sign == 1), "{bits:#06x}");
        }
    }
}
