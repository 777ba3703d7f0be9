//! From the element types of weight files to `f32`.
//!
//! Numbers are little-endian. A block of a quantised type holds [`BLOCK`] elements:
//!
//! | type | bytes | contents | element `i` |
//! |---|--:|---|---|
//! | Q8_0 | 34 | scale `d` as f16; 32 × i8 `q` | `d · q[i]` |
//! | Q4_1 | 20 | scale `d`, minimum `m` as f16; 16 bytes of two 4-bit `q`, elements 0–15 low, 16–31 high | `d · q[i] + m` |

/// Elements per block of a quantised type.
pub const BLOCK: usize = 32;

/// Bytes of a `Q8_0` block.
pub const Q8_0_BLOCK_BYTES: usize = 34;

/// Bytes of a `Q4_1` block.
pub const Q4_1_BLOCK_BYTES: usize = 20;

/// Copies float32 numbers; `bytes` holds four per element of `out`.
///
/// # Panics
///
/// When the lengths do not fit, as in all functions of this module.
pub fn f32(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |bytes: &[u8; 4]| f32::from_le_bytes(*bytes));
}

/// Widens IEEE half-precision numbers; `bytes` holds two per element of `out`.
///
/// # Panics
///
/// When the lengths do not fit.
pub fn f16(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |bytes: &[u8; 2]| half(*bytes));
}

/// Widens bfloat16 numbers; `bytes` holds two per element of `out`.
///
/// # Panics
///
/// When the lengths do not fit.
pub fn bf16(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, |&[low, high]: &[u8; 2]| f32::from_le_bytes([0, 0, low, high]));
}

/// Expands `Q8_0` blocks.
///
/// # Panics
///
/// When the lengths do not fit.
pub fn q8_0(bytes: &[u8], out: &mut [f32]) {
    blocks::<Q8_0_BLOCK_BYTES>(bytes, out, |block, out| {
        let scale = half([block[0], block[1]]);
        for (out, &q) in out.iter_mut().zip(&block[2..]) {
            *out = scale * f32::from(q.cast_signed());
        }
    });
}

/// Expands `Q4_1` blocks.
///
/// # Panics
///
/// When the lengths do not fit.
pub fn q4_1(bytes: &[u8], out: &mut [f32]) {
    blocks::<Q4_1_BLOCK_BYTES>(bytes, out, |block, out| {
        let scale = half([block[0], block[1]]);
        let minimum = half([block[2], block[3]]);
        let (low, high) = out.split_at_mut(BLOCK / 2);
        for ((low, high), &pair) in low.iter_mut().zip(high).zip(&block[4..]) {
            *low = scale * f32::from(pair & 0xf) + minimum;
            *high = scale * f32::from(pair >> 4) + minimum;
        }
    });
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn(&[u8; N]) -> f32) {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && elements.len() == out.len(), "bytes for another number of elements");
    for (out, element) in out.iter_mut().zip(elements) {
        *out = value(element);
    }
}

fn blocks<const N: usize>(bytes: &[u8], out: &mut [f32], expand: impl Fn(&[u8; N], &mut [f32; BLOCK])) {
    let (blocks, rest) = bytes.as_chunks::<N>();
    let (out, out_rest) = out.as_chunks_mut::<BLOCK>();
    assert!(rest.is_empty() && out_rest.is_empty() && blocks.len() == out.len(), "bytes for another number of blocks");
    for (out, block) in out.iter_mut().zip(blocks) {
        expand(block, out);
    }
}

/// Half to single precision, exact for every bit pattern.
fn half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let sign = (bits & 0x8000) << 16;
    let exponent = (bits >> 10) & 0x1f;
    let fraction = bits & 0x3ff;
    match exponent {
        // Zero and subnormal numbers are multiples of 2⁻²⁴.
        0 => f32::from_bits(sign | (fraction as f32 * 2.0_f32.powi(-24)).to_bits()),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | (fraction << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13)),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // These results are exact.
mod tests {
    use super::super::testing::Random;
    use super::{bf16, f16, f32, half, q4_1, q8_0};

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
        }
    }

    #[test]
    fn plain_types_copy_and_widen() {
        let mut out = [0.0; 2];
        f32(&[0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc1], &mut out);
        assert_eq!(out, [1.0, -10.0]);
        bf16(&[0x80, 0x3f, 0x20, 0xc1], &mut out);
        assert_eq!(out, [1.0, -10.0]);
        f16(&[0x00, 0x3c, 0x00, 0xc9], &mut out);
        assert_eq!(out, [1.0, -10.0]);
    }

    #[test]
    fn blocks_match_an_element_by_element_reading() {
        let mut random = Random::announced(0x7134_5f31);
        // Scales 0.5 and -1.75, minimum 3.
        let scales = [[0x00, 0x38], [0x00, 0xbf]];
        let mut bytes8 = Vec::new();
        let mut bytes4 = Vec::new();
        for scale in scales {
            bytes8.extend(scale);
            bytes8.extend((0..32).map(|_| random.next() as u8));
            bytes4.extend(scale);
            bytes4.extend([0x00, 0x42]);
            bytes4.extend((0..16).map(|_| random.next() as u8));
        }
        let (mut out8, mut out4) = ([0.0; 64], [0.0; 64]);
        q8_0(&bytes8, &mut out8);
        q4_1(&bytes4, &mut out4);
        for i in 0..64 {
            let (block, at) = (i / 32, i % 32);
            let scale = [0.5, -1.75][block];
            assert_eq!(out8[i], scale * f32::from(bytes8[block * 34 + 2 + at].cast_signed()));
            let pair = bytes4[block * 20 + 4 + at % 16];
            let q = if at < 16 { pair % 16 } else { pair / 16 };
            assert_eq!(out4[i], scale * f32::from(q) + 3.0);
        }
    }
}
