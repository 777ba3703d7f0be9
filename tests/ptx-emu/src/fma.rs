//! Fused multiply-add over lanes and matrix tiles.
//!
//! `f32::mul_add` is one instruction where the processor has FMA and a slow library call where the compiler may not use
//! it. The code here is compiled twice and the processor asked at run time; calling the faster copy is the only unsafe
//! operation of this crate.
#![allow(unsafe_code, reason = "calls of functions with target features, guarded by detection")]

use crate::regs::{LANES, Row};

/// Rows of A, of C and the depth of one matrix instruction.
pub(crate) const M: usize = 16;
/// Columns of B and C.
pub(crate) const N: usize = 8;

/// `a * b + c` per lane, on the bits of `f32` values, rounded once.
#[inline]
pub(crate) fn lanes(a: &Row<u32>, b: &Row<u32>, c: &Row<u32>) -> Row<u32> {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the processor has the features that the function is compiled for.
        return unsafe { lanes_fma(a, b, c) };
    }
    lanes_with(a, b, c)
}

/// `c += a * b` for a 16 by K and a K by 8 matrix.
#[inline]
pub(crate) fn multiply<const K: usize>(a: &[[f32; K]; M], b: &[[f32; N]; K], c: &mut [[f32; N]; M]) {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the processor has the features that the function is compiled for.
        return unsafe { multiply_fma(a, b, c) };
    }
    multiply_with(a, b, c);
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn lanes_fma(a: &Row<u32>, b: &Row<u32>, c: &Row<u32>) -> Row<u32> {
    lanes_with(a, b, c)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_fma<const K: usize>(a: &[[f32; K]; M], b: &[[f32; N]; K], c: &mut [[f32; N]; M]) {
    multiply_with(a, b, c);
}

#[inline(always)]
fn lanes_with(a: &Row<u32>, b: &Row<u32>, c: &Row<u32>) -> Row<u32> {
    let mut out = [0; LANES];
    for lane in 0..LANES {
        let [a, b, c] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        out[lane] = a.mul_add(b, c).to_bits();
    }
    out
}

/// Four rows at a time stay in vector registers.
#[inline(always)]
fn multiply_with<const K: usize>(a: &[[f32; K]; M], b: &[[f32; N]; K], c: &mut [[f32; N]; M]) {
    for (rows, sums) in a.chunks_exact(4).zip(c.chunks_exact_mut(4)) {
        let mut tile = [sums[0], sums[1], sums[2], sums[3]];
        for (k, column) in b.iter().enumerate() {
            for (row, sum) in rows.iter().zip(&mut tile) {
                for n in 0..N {
                    sum[n] = row[k].mul_add(column[n], sum[n]);
                }
            }
        }
        sums.copy_from_slice(&tile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copies_agree() {
        let value = |seed: u32| f32::from_bits(0x3f00_0000 | seed.wrapping_mul(0x9e37_79b9) >> 8 & 0x00ff_ffff);
        let [a, b, c]: [Row<u32>; 3] = [1, 2, 3].map(|s| std::array::from_fn(|i| value(i as u32 * 7 + s).to_bits()));
        assert_eq!(lanes(&a, &b, &c), lanes_with(&a, &b, &c));
        let a: [[f32; 16]; M] = std::array::from_fn(|i| std::array::from_fn(|k| value((i * 16 + k) as u32)));
        let b: [[f32; N]; 16] = std::array::from_fn(|k| std::array::from_fn(|n| value((k * 8 + n + 500) as u32)));
        let mut fast = [[1.0; N]; M];
        let mut plain = fast;
        multiply(&a, &b, &mut fast);
        multiply_with(&a, &b, &mut plain);
        assert_eq!(fast, plain);
    }
}
