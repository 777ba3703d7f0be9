//! The types with blocks of 256, whose scales are small integers with a scale of their own.

/// `d`, `m`, twelve bytes of eight 6-bit scales and eight minima, then 4-bit `q`.
///
/// Of each 32 bytes of `q`, the low halves are 32 elements and the high halves the next 32. An element is
/// `d · scale · q - m · minimum`, with one scale and minimum for 32 elements.
#[inline(always)]
pub(in super::super) fn q4_k(half: impl Fn([u8; 2]) -> f32, block: &[u8; 144], out: &mut [f32; 256]) {
    let scales = Scales::new(half, block[..16].try_into().expect("sixteen bytes"));
    for (pair, (q, out)) in block[16..].as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0).enumerate() {
        let (low, high) = (scales.of(2 * pair), scales.of(2 * pair + 1));
        for i in 0..32 {
            out[i] = low.0 * i32::from(q[i] & 0xf) as f32 - low.1;
            out[i + 32] = high.0 * i32::from(q[i] >> 4) as f32 - high.1;
        }
    }
}

/// As [`q4_k`], with 32 bytes of fifth bits before `q`: bit `s` of byte `i` belongs to element `i` of the 32 with scale `s`.
#[inline(always)]
pub(in super::super) fn q5_k(half: impl Fn([u8; 2]) -> f32, block: &[u8; 176], out: &mut [f32; 256]) {
    let scales = Scales::new(half, block[..16].try_into().expect("sixteen bytes"));
    let fifth: &[u8; 32] = block[16..48].try_into().expect("32 bytes");
    for (pair, (q, out)) in block[48..].as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0).enumerate() {
        let (low, high) = (scales.of(2 * pair), scales.of(2 * pair + 1));
        for i in 0..32 {
            let bits = fifth[i] >> (2 * pair);
            out[i] = low.0 * i32::from(q[i] & 0xf | (bits & 1) << 4) as f32 - low.1;
            out[i + 32] = high.0 * i32::from(q[i] >> 4 | (bits >> 1 & 1) << 4) as f32 - high.1;
        }
    }
}

/// 128 bytes of low four bits, 64 bytes of high two bits, sixteen signed bytes of scales, `d`.
///
/// Each half of the block has 64 bytes of low bits, 32 of high bits and eight scales for its 128 elements. An element is
/// `d · scale · (q - 32)`, with one scale for 16 elements.
#[inline(always)]
pub(in super::super) fn q6_k(half: impl Fn([u8; 2]) -> f32, block: &[u8; 210], out: &mut [f32; 256]) {
    let scale = half([block[208], block[209]]);
    for (half, out) in out.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let low: &[u8; 64] = block[64 * half..64 * half + 64].try_into().expect("64 bytes");
        let high: &[u8; 32] = block[128 + 32 * half..160 + 32 * half].try_into().expect("32 bytes");
        let scales: &[u8; 8] = block[192 + 8 * half..200 + 8 * half].try_into().expect("eight bytes");
        // Quarters of 32 elements: two in the low halves of the bytes, two in the high ones.
        for quarter in 0..4 {
            for sixteen in 0..2 {
                let scale = scale * f32::from(scales[2 * quarter + sixteen].cast_signed());
                for i in 16 * sixteen..16 * sixteen + 16 {
                    let low = low[32 * (quarter % 2) + i] >> (4 * (quarter / 2)) & 0xf;
                    let high = high[i] >> (2 * quarter) & 3;
                    out[32 * quarter + i] = scale * (i32::from(low | high << 4) - 32) as f32;
                }
            }
        }
    }
}

/// The scales and minima at the start of a block.
struct Scales<'a> {
    scale: f32,
    minimum: f32,
    packed: &'a [u8; 12],
}

impl<'a> Scales<'a> {
    #[inline(always)]
    fn new(half: impl Fn([u8; 2]) -> f32, start: &'a [u8; 16]) -> Self {
        let packed = start[4..].try_into().expect("twelve bytes");
        Self { scale: half([start[0], start[1]]), minimum: half([start[2], start[3]]), packed }
    }

    /// The scale and the minimum of the 32 elements `index`.
    ///
    /// Four scales and then four minima have their own byte, six bits each; the other four of both share four bytes for their low
    /// halves, and have their high bits in the two bits that are left there.
    #[inline(always)]
    fn of(&self, index: usize) -> (f32, f32) {
        let packed = self.packed;
        let (scale, minimum) = if index < 4 {
            (packed[index] & 63, packed[index + 4] & 63)
        } else {
            let low = packed[index + 4];
            (low & 0xf | packed[index - 4] >> 6 << 4, low >> 4 | packed[index] >> 6 << 4)
        };
        (self.scale * f32::from(scale), self.minimum * f32::from(minimum))
    }
}
