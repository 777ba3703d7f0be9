//! `mma.m16n8k16` of bf16, from registers to registers: vector code for AVX2 and for AVX-512.
//!
//! Lane `4 g + t` of a register of A has columns `2 t` and the next of row `g`, one of B has rows `2 t` and the next of
//! column `g`, one of C has row `g` of column `2 t` or the next. So four neighbouring lanes of A, a quarter or half of a
//! vector, have one row, and turn into factors of that row by copying a lane to its neighbours; a vector of C has four
//! columns of the same rows. Nothing is brought into another order but B. Each element is a chain of fused multiply-adds in
//! the order of the depth, as in [`crate::vector::multiply`].
#![allow(unsafe_code, reason = "loads and stores of vectors")]

use std::arch::x86_64 as x86;

use super::{A, B, C};
use crate::program::Args;
use crate::regs::{Lane, Regs, Row};

/// The bits of the higher number of a word.
const HIGH: i32 = -0x1_0000;

/// Calls a macro with the four places of a row in its group of lanes.
macro_rules! at_each_place {
    ($multiply:ident) => {
        $multiply! { 0 1 2 3 }
    };
}

/// Two rows to a vector.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(crate) fn multiply(regs: &mut Regs, args: &Args) {
    let columns = columns_of_b(regs, args);
    let high = x86::_mm256_set1_epi32(HIGH);
    // Of each half of the rows: pairs of rows, each with the even columns and with the odd ones. All of them are ready before
    // the first is written, since D may be where A or B is.
    let mut sums = [[[x86::_mm256_setzero_ps(); 2]; 4]; 2];
    for (half, sums) in sums.iter_mut().enumerate() {
        let c = [0, 1].map(|odd| row(regs, args, C + 2 * half + odd));
        for (rows, sums) in sums.iter_mut().enumerate() {
            for (c, sum) in c.iter().zip(sums) {
                *sum = x86::_mm256_castsi256_ps(eight_lanes(c, rows));
            }
        }
        for (depth, columns) in columns.chunks_exact(8).enumerate() {
            let words = row(regs, args, A + half + 2 * depth);
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
            at_each_place!(multiply_place);
        }
    }
    for (half, sums) in sums.iter().enumerate() {
        for (rows, sums) in sums.iter().enumerate() {
            for (odd, &sum) in sums.iter().enumerate() {
                let row = u32::row_mut(regs, args.r[2 * half + odd]);
                put_eight_lanes(row, rows, x86::_mm256_castps_si256(sum));
            }
        }
    }
}

/// Four rows to a vector.
#[target_feature(enable = "avx512f,avx2,fma")]
#[inline]
pub(crate) fn multiply_wide(regs: &mut Regs, args: &Args) {
    let columns = columns_of_b(regs, args);
    let high = x86::_mm512_set1_epi32(HIGH);
    // Of each half of the rows: four rows and the next four, each with the even columns and with the odd ones.
    let mut sums: [[[x86::__m512; 2]; 2]; 2] = std::array::from_fn(|half| {
        std::array::from_fn(|rows| {
            std::array::from_fn(|odd| {
                x86::_mm512_castsi512_ps(sixteen_lanes(row(regs, args, C + 2 * half + odd), rows))
            })
        })
    });
    for (depth, columns) in columns.chunks_exact(8).enumerate() {
        for (half, sums) in sums.iter_mut().enumerate() {
            let words = row(regs, args, A + half + 2 * depth);
            for (rows, sums) in sums.iter_mut().enumerate() {
                let words = sixteen_lanes(words, rows);
                let low = x86::_mm512_castsi512_ps(x86::_mm512_slli_epi32::<16>(words));
                let high = x86::_mm512_castsi512_ps(x86::_mm512_and_si512(words, high));
                macro_rules! multiply_place {
                    ($($place:literal)*) => {$(
                        let factors = [
                            x86::_mm512_permute_ps::<{ $place * 0x55 }>(low),
                            x86::_mm512_permute_ps::<{ $place * 0x55 }>(high),
                        ];
                        for (factor, columns) in factors.into_iter().zip(&columns[2 * $place..][..2]) {
                            for (sum, &column) in sums.iter_mut().zip(columns) {
                                *sum = x86::_mm512_fmadd_ps(factor, x86::_mm512_broadcast_f32x4(column), *sum);
                            }
                        }
                    )*};
                }
                at_each_place!(multiply_place);
            }
        }
    }
    for (half, sums) in sums.iter().enumerate() {
        for (rows, sums) in sums.iter().enumerate() {
            for (odd, &sum) in sums.iter().enumerate() {
                let row = u32::row_mut(regs, args.r[2 * half + odd]);
                put_sixteen_lanes(row, rows, x86::_mm512_castps_si512(sum));
            }
        }
    }
}

#[inline(always)]
fn row<'a>(regs: &'a Regs, args: &Args, operand: usize) -> &'a Row<u32> {
    u32::row(regs, args.r[operand])
}

/// The rows of B, each with its even and its odd columns.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn columns_of_b(regs: &Regs, args: &Args) -> [[x86::__m128; 2]; 16] {
    let high = x86::_mm256_set1_epi32(HIGH);
    let mut columns = [[x86::_mm_setzero_ps(); 2]; 16];
    for (register, columns) in columns.chunks_exact_mut(8).enumerate() {
        let words = row(regs, args, B + register);
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
#[target_feature(enable = "avx2,fma")]
#[inline]
fn twice(four: x86::__m128) -> x86::__m256 {
    x86::_mm256_broadcast_ps(&four)
}

/// Lanes `8 index` to `8 index + 7`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn eight_lanes(row: &Row<u32>, index: usize) -> x86::__m256i {
    let eight: &[u32; 8] = row[8 * index..][..8].try_into().expect("eight");
    // SAFETY: the 32 bytes that are read are those of the array, and need no alignment.
    unsafe { x86::_mm256_loadu_si256(std::ptr::from_ref(eight).cast()) }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn put_eight_lanes(row: &mut Row<u32>, index: usize, values: x86::__m256i) {
    let eight: &mut [u32; 8] = (&mut row[8 * index..][..8]).try_into().expect("eight");
    // SAFETY: the 32 bytes that are written are those of the array, and need no alignment.
    unsafe { x86::_mm256_storeu_si256(std::ptr::from_mut(eight).cast(), values) }
}

/// Lanes `16 index` to `16 index + 15`.
#[target_feature(enable = "avx512f")]
#[inline]
fn sixteen_lanes(row: &Row<u32>, index: usize) -> x86::__m512i {
    let sixteen: &[u32; 16] = row[16 * index..][..16].try_into().expect("sixteen");
    // SAFETY: the 64 bytes that are read are those of the array, and need no alignment.
    unsafe { x86::_mm512_loadu_si512(std::ptr::from_ref(sixteen).cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn put_sixteen_lanes(row: &mut Row<u32>, index: usize, values: x86::__m512i) {
    let sixteen: &mut [u32; 16] = (&mut row[16 * index..][..16]).try_into().expect("sixteen");
    // SAFETY: the 64 bytes that are written are those of the array, and need no alignment.
    unsafe { x86::_mm512_storeu_si512(std::ptr::from_mut(sixteen).cast(), values) }
}

#[cfg(test)]
mod tests {
    use super::super::{bf16, multiply_floats};
    use super::*;
    use crate::half::from_bf16;
    use crate::random::Random;
    use crate::regs::FULL;
    use crate::vector::{M, N, has_vectors, has_wide_vectors};

    /// The product of random operands, element by element one chain of fused multiply-adds in the order of the depth, with
    /// places as the PTX manual has them. D is where C was, as kernels have it, or where another operand was.
    fn check(multiply: impl Fn(&mut Regs, &Args)) {
        for place in [C, A, B] {
            check_at(place, &multiply);
        }
    }

    fn check_at(place: usize, multiply: impl Fn(&mut Regs, &Args)) {
        println!("seed 7");
        let mut random = Random::new(7);
        // Pairs of bf16, and f32, of either sign and from 2^-15 to 2^17, now and then subnormal, infinite or no number.
        let mut word = |_| {
            let [low, high] = std::array::from_fn(|_| match random.below(400) {
                0 => 0x7f80,
                1 => 0x7fc0,
                2..10 => random.below(0x80) as u32,
                _ => 0x3800 + random.below(0x1000) as u32,
            });
            (low | high << 16) ^ (random.below(1 << 32) as u32 & 0x8000_8000)
        };
        let mut rows = |_| std::array::from_fn(&mut word);
        let a: [Row<u32>; 4] = std::array::from_fn(&mut rows);
        let b: [Row<u32>; 2] = std::array::from_fn(&mut rows);
        let c: [Row<u32>; 4] = std::array::from_fn(&mut rows);
        let mut regs = Regs::new(10, 0, 0);
        let mut args = Args::default();
        for (first, rows) in [(A, &a[..]), (B, &b[..]), (C, &c[..])] {
            for (index, values) in rows.iter().enumerate() {
                args.r[first + index] = (first - A + index) as u16;
                regs.set::<u32>(args.r[first + index], FULL, values);
            }
        }
        args.r.copy_within(place..place + 4, 0);
        multiply(&mut regs, &args);
        let half = |word: u32, k: usize| from_bf16((word >> (16 * (k % 2))) as u16);
        for (row, column) in (0..M).flat_map(|row| (0..N).map(move |column| (row, column))) {
            let (reg, lane) = (row / 8 * 2 + column % 2, row % 8 * 4 + column / 2);
            let sum = (0..16).fold(f32::from_bits(c[reg][lane]), |sum, k| {
                let factor = half(a[row / 8 + k / 8 * 2][row % 8 * 4 + k % 8 / 2], k);
                factor.mul_add(half(b[k / 8][column * 4 + k % 8 / 2], k), sum)
            });
            let found = regs.lane::<f32>(args.r[reg], lane);
            let is_right = if sum.is_nan() { found.is_nan() } else { found.to_bits() == sum.to_bits() };
            assert!(is_right, "row {row} column {column} of operand {place}: {found}, not {sum}");
        }
    }

    #[test]
    fn the_product_has_the_bits_of_a_chain_of_fused_sums() {
        if !has_vectors() {
            println!("skipped: no AVX2");
            return;
        }
        // SAFETY: the processor has the features.
        check(|regs, args| unsafe { multiply(regs, args) });
    }

    #[test]
    fn the_wide_product_has_the_same_bits() {
        if !has_wide_vectors() {
            println!("skipped: no AVX-512");
            return;
        }
        // SAFETY: the processor has the features.
        check(|regs, args| unsafe { multiply_wide(regs, args) });
    }

    #[test]
    fn the_plain_product_has_the_same_bits() {
        check(|regs, args| multiply_floats::<16, 2>(regs, args, bf16, bf16));
    }
}
