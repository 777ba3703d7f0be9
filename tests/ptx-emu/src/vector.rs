//! Vector code: loops over lanes and matrix tiles, compiled for AVX2 and FMA beside the plain copy.
//!
//! A crate is compiled for the oldest processor that it may meet. Here the code of an instruction is compiled twice, and
//! the processor is asked once, when the table of instructions is made. Results are the same bits either way; a fused
//! multiply-add is one instruction in the one copy and a slow library call in the other.
#![allow(unsafe_code, reason = "calls of functions with target features, guarded by detection")]

use crate::access::Cx;
use crate::error::Checked;
use crate::program::Args;
use crate::regs::{Regs, Row};

/// Rows of A, of C and the depth of one matrix instruction.
pub(crate) const M: usize = 16;
/// Columns of B and C.
pub(crate) const N: usize = 8;

/// The loop of an instruction that touches only registers, for the lanes in the mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLoop {
    run: unsafe fn(&mut Regs, &Args, u32),
    #[cfg(test)]
    plain: fn(&mut Regs, &Args, u32),
}

/// The code of an instruction that may fail, for the lanes in the mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access(unsafe fn(&mut Cx<'_, '_>, &Args, u32) -> Checked);

impl LaneLoop {
    /// For an instruction that is not worth a second copy.
    pub(crate) fn plain(run: fn(&mut Regs, &Args, u32)) -> Self {
        Self {
            run,
            #[cfg(test)]
            plain: run,
        }
    }

    /// For `lane_loop!`: `vector` must ask for no other features than that macro names.
    pub(crate) fn choose(plain: fn(&mut Regs, &Args, u32), vector: unsafe fn(&mut Regs, &Args, u32)) -> Self {
        Self {
            run: if has_vectors() { vector } else { plain },
            #[cfg(test)]
            plain,
        }
    }

    #[cfg(test)]
    pub(crate) fn run_plain(self, regs: &mut Regs, args: &Args, mask: u32) {
        (self.plain)(regs, args, mask);
    }

    #[inline(always)]
    pub(crate) fn run(self, regs: &mut Regs, args: &Args, mask: u32) {
        // SAFETY: the function is safe, or compiled for features that `choose` has found.
        unsafe { (self.run)(regs, args, mask) }
    }
}

impl Access {
    pub(crate) fn plain(run: fn(&mut Cx<'_, '_>, &Args, u32) -> Checked) -> Self {
        Self(run)
    }

    /// For `access!`: `vector` must ask for no other features than that macro names.
    pub(crate) fn choose(
        plain: fn(&mut Cx<'_, '_>, &Args, u32) -> Checked,
        vector: unsafe fn(&mut Cx<'_, '_>, &Args, u32) -> Checked,
    ) -> Self {
        if has_vectors() { Self(vector) } else { Self(plain) }
    }

    #[inline(always)]
    pub(crate) fn run(self, cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
        // SAFETY: the function is safe, or compiled for features that `choose` has found.
        unsafe { (self.0)(cx, args, mask) }
    }
}

/// Compiles the body of a [`LaneLoop`] twice: `lane_loop!(|regs, args, mask| ..)`.
macro_rules! lane_loop {
    (|$regs:ident, $args:ident, $mask:ident| $body:expr) => {{
        fn plain($regs: &mut $crate::regs::Regs, $args: &$crate::program::Args, $mask: u32) {
            $body;
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
        fn vector($regs: &mut $crate::regs::Regs, $args: &$crate::program::Args, $mask: u32) {
            $body;
        }
        $crate::vector::LaneLoop::choose(plain, vector)
    }};
}
pub(crate) use lane_loop;

/// Compiles a function of an [`Access`] twice, which must be `#[inline(always)]`: `access!(ballot)`. Or one function for
/// vector code and another, which need not be fast, for processors without: `access!(load::<16, false>, load::<16, true>)`.
macro_rules! access {
    ($function:expr) => {
        $crate::vector::access!($function, $function)
    };
    ($plain:expr, $vector:expr) => {{
        fn plain(
            cx: &mut $crate::access::Cx<'_, '_>,
            args: &$crate::program::Args,
            mask: u32,
        ) -> $crate::error::Checked {
            $plain(cx, args, mask)
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
        fn vector(
            cx: &mut $crate::access::Cx<'_, '_>,
            args: &$crate::program::Args,
            mask: u32,
        ) -> $crate::error::Checked {
            $vector(cx, args, mask)
        }
        $crate::vector::Access::choose(plain, vector)
    }};
}
pub(crate) use access;

#[cfg(target_arch = "x86_64")]
pub(crate) fn has_vectors() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt")
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_vectors() -> bool {
    false
}

/// Has the processor fetch a value and what is around it, to be there when they are read.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of the architecture has the instruction, which changes nothing but caches.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// `c += a * b` for a 16 by K and a K by 8 matrix; each element of C is a chain of fused multiply-adds in the order of K.
///
/// Eight rows at a time stay in vector registers.
#[inline(always)]
pub(crate) fn multiply<const K: usize>(a: &[[f32; K]; M], b: &[[f32; N]; K], c: &mut [[f32; N]; M]) {
    for (rows, sums) in a.chunks_exact(8).zip(c.chunks_exact_mut(8)) {
        let mut tile: [[f32; N]; 8] = std::array::from_fn(|row| sums[row]);
        for (k, columns) in b.iter().enumerate() {
            for (row, sum) in rows.iter().zip(&mut tile) {
                for n in 0..N {
                    sum[n] = row[k].mul_add(columns[n], sum[n]);
                }
            }
        }
        sums.copy_from_slice(&tile);
    }
}

/// What [`multiply`] makes of bf16 operands, from registers to registers.
///
/// Lane `4 g + t` of a register of A has columns `2 t` and the next of row `g`, one of B has rows `2 t` and the next of
/// column `g`, one of C has row `g` of column `2 t` or the next. So a vector of eight lanes of A has two rows, one in each
/// half, and turns into factors of both by copying a lane to its neighbours; a vector of C has four columns of the same two
/// rows. Nothing is brought into another order but B.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn multiply_bf16(a: [&Row<u32>; 4], b: [&Row<u32>; 2], c: [&Row<u32>; 4]) -> [Row<u32>; 4] {
    use std::arch::x86_64 as x86;

    let columns = columns_of_b(b);
    let high = x86::_mm256_set1_epi32(-0x1_0000);
    let mut d = [[0; 32]; 4];
    for half in 0..2 {
        // Pairs of rows, each with the even columns and with the odd ones.
        let mut sums: [[x86::__m256; 2]; 4] = std::array::from_fn(|rows| {
            std::array::from_fn(|odd| x86::_mm256_castsi256_ps(eight_lanes(c[2 * half + odd], rows)))
        });
        for (depth, columns) in columns.chunks_exact(8).enumerate() {
            let words = a[half + 2 * depth];
            macro_rules! multiply_place {
                ($($place:literal)*) => {$(
                    for (rows, sums) in sums.iter_mut().enumerate() {
                        let pair = x86::_mm256_shuffle_epi32::<{ $place * 0x55 }>(eight_lanes(words, rows));
                        let low = x86::_mm256_castsi256_ps(x86::_mm256_slli_epi32::<16>(pair));
                        let high = x86::_mm256_castsi256_ps(x86::_mm256_and_si256(pair, high));
                        for (odd, sum) in sums.iter_mut().enumerate() {
                            *sum = x86::_mm256_fmadd_ps(low, twice(columns[2 * $place][odd]), *sum);
                            *sum = x86::_mm256_fmadd_ps(high, twice(columns[2 * $place + 1][odd]), *sum);
                        }
                    }
                )*};
            }
            multiply_place! { 0 1 2 3 }
        }
        for (rows, sums) in sums.iter().enumerate() {
            for (odd, &sum) in sums.iter().enumerate() {
                put_eight_lanes(&mut d[2 * half + odd], rows, x86::_mm256_castps_si256(sum));
            }
        }
    }
    d
}

/// The rows of B, each with its even and its odd columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn columns_of_b(b: [&Row<u32>; 2]) -> [[std::arch::x86_64::__m128; 2]; 16] {
    use std::arch::x86_64 as x86;

    let high = x86::_mm256_set1_epi32(-0x1_0000);
    let mut columns = [[x86::_mm_setzero_ps(); 2]; 16];
    for (words, columns) in b.iter().zip(columns.chunks_exact_mut(8)) {
        // Two columns each, an even one in the lower half; turned, one pair of rows of all even and of all odd columns.
        let [v0, v1, v2, v3]: [x86::__m256i; 4] = std::array::from_fn(|pair| eight_lanes(words, pair));
        let (low01, high01) = (x86::_mm256_unpacklo_epi32(v0, v1), x86::_mm256_unpackhi_epi32(v0, v1));
        let (low23, high23) = (x86::_mm256_unpacklo_epi32(v2, v3), x86::_mm256_unpackhi_epi32(v2, v3));
        let turned = [
            x86::_mm256_unpacklo_epi64(low01, low23),
            x86::_mm256_unpackhi_epi64(low01, low23),
            x86::_mm256_unpacklo_epi64(high01, high23),
            x86::_mm256_unpackhi_epi64(high01, high23),
        ];
        for (pair, rows) in turned.into_iter().zip(columns.chunks_exact_mut(2)) {
            let parts = [x86::_mm256_slli_epi32::<16>(pair), x86::_mm256_and_si256(pair, high)];
            for (part, row) in parts.into_iter().zip(rows) {
                let part = x86::_mm256_castsi256_ps(part);
                *row = [x86::_mm256_castps256_ps128(part), x86::_mm256_extractf128_ps::<1>(part)];
            }
        }
    }
    columns
}

/// The four numbers in both halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn twice(four: std::arch::x86_64::__m128) -> std::arch::x86_64::__m256 {
    std::arch::x86_64::_mm256_broadcast_ps(&four)
}

/// Lanes `8 index` to `8 index + 7`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn eight_lanes(row: &Row<u32>, index: usize) -> std::arch::x86_64::__m256i {
    let eight: &[u32; 8] = row[8 * index..][..8].try_into().expect("eight");
    // SAFETY: the 32 bytes that are read are those of the array, and need no alignment.
    unsafe { std::arch::x86_64::_mm256_loadu_si256(std::ptr::from_ref(eight).cast()) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn put_eight_lanes(row: &mut Row<u32>, index: usize, values: std::arch::x86_64::__m256i) {
    let eight: &mut [u32; 8] = (&mut row[8 * index..][..8]).try_into().expect("eight");
    // SAFETY: the 32 bytes that are written are those of the array, and need no alignment.
    unsafe { std::arch::x86_64::_mm256_storeu_si256(std::ptr::from_mut(eight).cast(), values) }
}

/// The transposed matrix, of 16-bit elements.
#[inline(always)]
pub(crate) fn transposed(rows: &[[u8; 16]; 8]) -> [[u8; 16]; 8] {
    let mut out = [[0; 16]; 8];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of the architecture has the instructions; what is read and written are the 16 bytes of a row,
    // which need no alignment.
    unsafe {
        use std::arch::x86_64 as x86;
        let mut matrix = rows.map(|row| x86::_mm_loadu_si128(row.as_ptr().cast()));
        // The upper and the lower rows are mixed element by element, like cards, three times.
        for _ in 0..3 {
            let [a, b, c, d, e, f, g, h] = matrix;
            matrix = [
                x86::_mm_unpacklo_epi16(a, e),
                x86::_mm_unpackhi_epi16(a, e),
                x86::_mm_unpacklo_epi16(b, f),
                x86::_mm_unpackhi_epi16(b, f),
                x86::_mm_unpacklo_epi16(c, g),
                x86::_mm_unpackhi_epi16(c, g),
                x86::_mm_unpacklo_epi16(d, h),
                x86::_mm_unpackhi_epi16(d, h),
            ];
        }
        for (out, row) in out.iter_mut().zip(matrix) {
            x86::_mm_storeu_si128(out.as_mut_ptr().cast(), row);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    for (row, bytes) in rows.iter().enumerate() {
        for (column, element) in bytes.chunks_exact(2).enumerate() {
            out[column][2 * row..][..2].copy_from_slice(element);
        }
    }
    out
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::half::from_bf16;
    use crate::random::Random;

    /// Each element is one chain of fused multiply-adds, in the order of the depth; places as the PTX manual has them.
    #[test]
    fn the_bf16_product_has_the_bits_of_a_chain_of_fused_sums() {
        if !has_vectors() {
            return;
        }
        println!("seed 7");
        let mut random = Random::new(7);
        // Pairs of bf16, and f32, of either sign and from 2^-15 to 2^17.
        let mut word = |_| {
            let [low, high] = std::array::from_fn(|_| 0x3800 + random.below(0x1000) as u32);
            (low | high << 16) ^ (random.below(1 << 32) as u32 & 0x8000_8000)
        };
        let mut rows = |_| std::array::from_fn(&mut word);
        let a: [Row<u32>; 4] = std::array::from_fn(&mut rows);
        let b: [Row<u32>; 2] = std::array::from_fn(&mut rows);
        let c: [Row<u32>; 4] = std::array::from_fn(&mut rows);
        // SAFETY: the processor has the features.
        let d = unsafe { multiply_bf16(a.each_ref(), b.each_ref(), c.each_ref()) };
        let half = |word: u32, k: usize| from_bf16((word >> (16 * (k % 2))) as u16);
        for (row, column) in (0..M).flat_map(|row| (0..N).map(move |column| (row, column))) {
            let (reg, lane) = (row / 8 * 2 + column % 2, row % 8 * 4 + column / 2);
            let sum = (0..16).fold(f32::from_bits(c[reg][lane]), |sum, k| {
                let factor = half(a[row / 8 + k / 8 * 2][row % 8 * 4 + k % 8 / 2], k);
                factor.mul_add(half(b[k / 8][column * 4 + k % 8 / 2], k), sum)
            });
            assert_eq!(d[reg][lane], sum.to_bits(), "row {row} column {column}: {sum}");
        }
    }
}
