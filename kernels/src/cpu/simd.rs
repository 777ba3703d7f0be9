//! The two inner loops everything else is built from, in scalar, AVX2 and AVX-512 form.
//!
//! * [`dot_tile`]: the products of `T` vectors with `R` vectors. Each product is accumulated in one vector register, in order,
//!   and summed across lanes at the end, so its value does not depend on the tile it was computed in.
//! * [`weighted_sum`]: a linear combination of rows, added in row order.
//!
//! This is the only file of the CPU operations with unsafe code: unaligned vector loads, bounded by the length checks at the top of
//! each tile, and calls of functions that need an instruction set, which the [`Isa`] value proves to exist.

use super::isa::{Isa, Kind};

/// The most vectors of `x` that keep a four-row tile inside the registers.
pub(super) const fn tile_tokens(isa: Isa) -> usize {
    match isa.0 {
        Kind::Scalar => 2,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => 3,
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => 6,
    }
}

/// `out[t][r] = Σ_i x[t][i] · w[r][i]`.
///
/// # Panics
///
/// When the vectors are not all of one length.
pub(super) fn dot_tile<const T: usize, const R: usize>(isa: Isa, x: [&[f32]; T], w: [&[f32]; R]) -> [[f32; R]; T] {
    match isa.0 {
        Kind::Scalar => scalar::dot_tile(x, w),
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2::dot_tile(x, w) },
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::dot_tile(x, w) },
    }
}

/// `out[i] = Σ_r weights[r] · row(r)[i]`.
///
/// # Panics
///
/// When a row is not as long as `out`.
pub(super) fn weighted_sum<'a>(isa: Isa, weights: &[f32], row: impl Fn(usize) -> &'a [f32], out: &mut [f32]) {
    match isa.0 {
        Kind::Scalar => scalar::weighted_sum(weights, row, out),
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2::weighted_sum(weights, row, out) },
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::weighted_sum(weights, row, out) },
    }
}

/// Writes both loops for one vector type. Inside, `LANES`, `zero`, `load`, `multiply_add` and `sum` must be in scope.
macro_rules! inner_loops {
    ($(#[$feature:meta])?, $vector:ty, $fused:expr) => {
        $(#[$feature])?
        pub(super) fn dot_tile<const T: usize, const R: usize>(
            x: [&[f32]; T],
            w: [&[f32]; R],
        ) -> [[f32; R]; T] {
            let len = w[0].len();
            assert!(x.iter().chain(&w).all(|v| v.len() == len), "vectors of unequal length");
            let mut sums = [[zero(); R]; T];
            let mut rows: [$vector; R] = [zero(); R];
            let whole = len - len % LANES;
            let mut at = 0;
            while at < whole {
                for r in 0..R {
                    // SAFETY: `at + LANES <= whole <= len`, the length of every vector.
                    rows[r] = unsafe { load(w[r].as_ptr().add(at)) };
                }
                for t in 0..T {
                    // SAFETY: as above.
                    let token = unsafe { load(x[t].as_ptr().add(at)) };
                    for r in 0..R {
                        sums[t][r] = multiply_add(token, rows[r], sums[t][r]);
                    }
                }
                at += LANES;
            }
            if whole < len {
                for t in 0..T {
                    let token = load_padded(&x[t][whole..]);
                    for r in 0..R {
                        sums[t][r] = multiply_add(token, load_padded(&w[r][whole..]), sums[t][r]);
                    }
                }
            }
            let mut out = [[0.0; R]; T];
            for t in 0..T {
                for r in 0..R {
                    out[t][r] = sum(sums[t][r]);
                }
            }
            out
        }

        /// The last elements of a vector, followed by zeros.
        $(#[$feature])?
        #[inline]
        fn load_padded(rest: &[f32]) -> $vector {
            let mut lanes = [0.0; LANES];
            lanes[..rest.len()].copy_from_slice(rest);
            // SAFETY: `lanes` holds exactly one vector.
            unsafe { load(lanes.as_ptr()) }
        }

        $(#[$feature])?
        pub(super) fn weighted_sum<'a>(
            weights: &[f32],
            row: impl Fn(usize) -> &'a [f32],
            out: &mut [f32],
        ) {
            out.fill(0.0);
            for (index, &weight) in weights.iter().enumerate() {
                let row = row(index);
                assert_eq!(row.len(), out.len(), "a row of another length");
                for (sum, &value) in out.iter_mut().zip(row) {
                    *sum = if $fused { weight.mul_add(value, *sum) } else { *sum + weight * value };
                }
            }
        }
    };
}

/// Eight-lane arrays; the compiler turns them into whatever the target's baseline has.
mod scalar {
    const LANES: usize = 8;

    fn zero() -> [f32; LANES] {
        [0.0; LANES]
    }

    /// # Safety
    ///
    /// `from` must be valid for reading `LANES` floats.
    #[inline]
    unsafe fn load(from: *const f32) -> [f32; LANES] {
        // SAFETY: promised by the caller.
        unsafe { from.cast::<[f32; LANES]>().read_unaligned() }
    }

    #[inline]
    fn multiply_add(a: [f32; LANES], b: [f32; LANES], mut sum: [f32; LANES]) -> [f32; LANES] {
        for lane in 0..LANES {
            sum[lane] += a[lane] * b[lane];
        }
        sum
    }

    #[inline]
    fn sum(lanes: [f32; LANES]) -> f32 {
        lanes.iter().sum()
    }

    inner_loops!(, [f32; LANES], false);
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehl_ps, _mm_shuffle_ps, _mm256_castps256_ps128,
        _mm256_extractf128_ps, _mm256_fmadd_ps as multiply_add, _mm256_loadu_ps as load, _mm256_setzero_ps as zero,
    };

    const LANES: usize = 8;

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn sum(v: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }

    inner_loops!(#[target_feature(enable = "avx2,fma")], __m256, true);
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512, _mm512_fmadd_ps as multiply_add, _mm512_loadu_ps as load, _mm512_reduce_add_ps as sum,
        _mm512_setzero_ps as zero,
    };

    const LANES: usize = 16;

    inner_loops!(#[target_feature(enable = "avx512f")], __m512, true);
}
