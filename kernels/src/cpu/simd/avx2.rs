//! Eight lanes, with fused multiplication and addition.

use std::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtph_ps, _mm_cvtsi32_si128, _mm_cvtss_f32, _mm_loadl_epi64, _mm_loadu_si128,
    _mm_movehl_ps, _mm_shuffle_ps, _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cvtepi8_epi32,
    _mm256_cvtepi32_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_extractf128_ps, _mm256_fmadd_ps as multiply_add,
    _mm256_loadu_ps as load, _mm256_mul_ps, _mm256_set1_ps as splat, _mm256_setzero_ps as zero, _mm256_slli_epi32,
    _mm256_storeu_ps as store,
};

use super::super::dequant::{self, ElementType};

const LANES: usize = 8;

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sums<const R: usize>(totals: [__m256; R]) -> [f32; R] {
    let mut out = [0.0; R];
    for r in 0..R {
        out[r] = sum(totals[r]);
    }
    out
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn half(bytes: [u8; 2]) -> f32 {
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(u16::from_le_bytes(bytes)))))
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn q8_0(block: &[u8; 34], mut emit: impl FnMut(usize, __m256)) {
    let scale = splat(half([block[0], block[1]]));
    for (at, q) in block[2..].as_chunks::<LANES>().0.iter().enumerate() {
        // SAFETY: it holds exactly one vector of bytes.
        let q = unsafe { _mm_loadl_epi64(q.as_ptr().cast()) };
        emit(at, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))));
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn floats(bytes: &[u8; 64], mut emit: impl FnMut(usize, __m256)) {
    for (at, bytes) in bytes.as_chunks::<{ 4 * LANES }>().0.iter().enumerate() {
        // SAFETY: it holds exactly one vector.
        emit(at, unsafe { load(bytes.as_ptr().cast()) });
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn halves(bytes: &[u8; 32], mut emit: impl FnMut(usize, __m256)) {
    for (at, bytes) in bytes.as_chunks::<{ 2 * LANES }>().0.iter().enumerate() {
        // SAFETY: it holds exactly one vector of half-precision numbers.
        emit(at, _mm256_cvtph_ps(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }));
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn upper_halves(bytes: &[u8; 32], mut emit: impl FnMut(usize, __m256)) {
    for (at, bytes) in bytes.as_chunks::<{ 2 * LANES }>().0.iter().enumerate() {
        // SAFETY: it holds exactly one vector of upper halves.
        let wide = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) });
        emit(at, _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)));
    }
}

block_through_array!(#[target_feature(enable = "avx2,fma,f16c")], __m256, q4_0, 18, 32);
block_through_array!(#[target_feature(enable = "avx2,fma,f16c")], __m256, q4_1, 20, 32);
block_through_array!(#[target_feature(enable = "avx2,fma,f16c")], __m256, q5_0, 22, 32);
block_through_array!(#[target_feature(enable = "avx2,fma,f16c")], __m256, q5_1, 24, 32);
block_through_array!(#[target_feature(enable = "avx2,fma,f16c")], __m256, q4_k, 144, 256);
block_through_array!(#[target_feature(enable = "avx2,fma,f16c")], __m256, q5_k, 176, 256);
block_through_array!(#[target_feature(enable = "avx2,fma,f16c")], __m256, q6_k, 210, 256);

inner_loops!(#[target_feature(enable = "avx2,fma,f16c")], __m256, true);
