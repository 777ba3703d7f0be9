//! The inner loops everything else is built from, in scalar, AVX2 and AVX-512 form.
//!
//! * [`dot_tile`]: the products of `T` vectors with `R` vectors. Each product is accumulated in one vector register, in order,
//!   and summed across lanes at the end, so its value does not depend on the tile it was computed in.
//! * [`dot_stored`]: the products of one vector with `R` vectors of a stored type, expanded block by block in registers. They have
//!   the bits that [`expand`] and [`dot_tile`] give.
//! * [`expand`]: a vector of a stored type in single precision.
//! * [`weighted_sum`]: a linear combination of rows, added in row order.
//!
//! This is the only file of the CPU operations with unsafe code: unaligned vector loads, bounded by the length checks at the top of
//! each tile, and calls of functions that need an instruction set, which the [`Isa`] value proves to exist.

use super::dequant::ElementType;
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

/// `out[r] = Σ_i x[i] · w[r][i]`, where the bytes of `w[r]` are elements of type `element`.
///
/// # Panics
///
/// When a vector of `w` has not as many elements as `x`.
pub(super) fn dot_stored<const R: usize>(isa: Isa, x: &[f32], element: ElementType, w: [&[u8]; R]) -> [f32; R] {
    assert!(w.iter().all(|w| element.bytes(x.len()) == Some(w.len())), "vectors of unequal length");
    match isa.0 {
        Kind::Scalar => scalar::dot_stored(x, element, w),
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2::dot_stored(x, element, w) },
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::dot_stored(x, element, w) },
    }
}

/// Converts the elements of type `element` in `bytes` to single precision.
///
/// # Panics
///
/// When `bytes` does not hold as many elements as `out`.
pub(super) fn expand(isa: Isa, element: ElementType, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(element.bytes(out.len()), Some(bytes.len()), "bytes for another number of elements");
    match isa.0 {
        Kind::Scalar => scalar::expand(element, bytes, out),
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2::expand(element, bytes, out) },
        // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::expand(element, bytes, out) },
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

/// Gives `$call` the bytes and the elements of a block of each type, and the function that expands one. The elements of a type
/// without blocks go through sixteen at a time.
macro_rules! by_element {
    ($element:expr, $call:ident) => {
        match $element {
            ElementType::F32 => $call!(64, 16, |block, out| floats(block, out)),
            ElementType::F16 => $call!(32, 16, |block, out| halves(block, out)),
            ElementType::Bf16 => $call!(32, 16, |block, out| upper_halves(block, out)),
            ElementType::Q4_0 => $call!(18, 32, |block, out| dequant::q4_0(|bytes| half(bytes), block, out)),
            ElementType::Q4_1 => $call!(20, 32, |block, out| dequant::q4_1(|bytes| half(bytes), block, out)),
            ElementType::Q5_0 => $call!(22, 32, |block, out| dequant::q5_0(|bytes| half(bytes), block, out)),
            ElementType::Q5_1 => $call!(24, 32, |block, out| dequant::q5_1(|bytes| half(bytes), block, out)),
            ElementType::Q8_0 => $call!(34, 32, |block, out| dequant::q8_0(
                |bytes| half(bytes),
                |scale, q, out| scaled(scale, q, out),
                block,
                out
            )),
            ElementType::Q4K => $call!(144, 256, |block, out| dequant::q4_k(|bytes| half(bytes), block, out)),
            ElementType::Q5K => $call!(176, 256, |block, out| dequant::q5_k(|bytes| half(bytes), block, out)),
            ElementType::Q6K => $call!(210, 256, |block, out| dequant::q6_k(|bytes| half(bytes), block, out)),
        }
    };
}

/// Writes the loops for one vector type. Inside, `LANES`, `zero`, `load`, `multiply_add` and `sum` must be in scope, and for
/// blocks `half`, `scaled`, `floats`, `halves` and `upper_halves`.
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
        pub(super) fn dot_stored<const R: usize>(x: &[f32], element: ElementType, w: [&[u8]; R]) -> [f32; R] {
            macro_rules! call {
                ($bytes:literal, $elements:literal, $block:expr) => {
                    dot_blocks::<$bytes, $elements, R>(x, w, $block)
                };
            }
            by_element!(element, call)
        }

        /// The products with vectors whose blocks of `N` elements have `BYTES` bytes.
        $(#[$feature])?
        #[inline]
        fn dot_blocks<const BYTES: usize, const N: usize, const R: usize>(
            x: &[f32],
            w: [&[u8]; R],
            expand_block: impl Fn(&[u8; BYTES], &mut [f32; N]),
        ) -> [f32; R] {
            let (x, x_rest) = x.as_chunks::<N>();
            let w = w.map(|w| w.as_chunks::<BYTES>());
            assert!(w.iter().all(|(w, _)| w.len() == x.len()), "vectors of unequal length");
            let mut sums = [zero(); R];
            let mut values = [0.0; N];
            for (block, x) in x.iter().enumerate() {
                for r in 0..R {
                    expand_block(&w[r].0[block], &mut values);
                    for (x, values) in x.as_chunks::<LANES>().0.iter().zip(values.as_chunks::<LANES>().0) {
                        // SAFETY: both hold exactly one vector.
                        let (x, values) = unsafe { (load(x.as_ptr()), load(values.as_ptr())) };
                        sums[r] = multiply_add(x, values, sums[r]);
                    }
                }
            }
            if !x_rest.is_empty() {
                for r in 0..R {
                    let mut bytes = [0; BYTES];
                    bytes[..w[r].1.len()].copy_from_slice(w[r].1);
                    expand_block(&bytes, &mut values);
                    for (x, values) in x_rest.chunks(LANES).zip(values.chunks(LANES)) {
                        sums[r] = multiply_add(load_padded(x), load_padded(values), sums[r]);
                    }
                }
            }
            let mut out = [0.0; R];
            for r in 0..R {
                out[r] = sum(sums[r]);
            }
            out
        }

        $(#[$feature])?
        pub(super) fn expand(element: ElementType, bytes: &[u8], out: &mut [f32]) {
            macro_rules! call {
                ($bytes:literal, $elements:literal, $block:expr) => {
                    expand_blocks::<$bytes, $elements>(bytes, out, $block)
                };
            }
            by_element!(element, call);
        }

        $(#[$feature])?
        #[inline]
        fn expand_blocks<const BYTES: usize, const N: usize>(
            bytes: &[u8],
            out: &mut [f32],
            expand_block: impl Fn(&[u8; BYTES], &mut [f32; N]),
        ) {
            let (blocks, rest) = bytes.as_chunks::<BYTES>();
            let (out, out_rest) = out.as_chunks_mut::<N>();
            for (block, out) in blocks.iter().zip(out) {
                expand_block(block, out);
            }
            if !out_rest.is_empty() {
                let (mut bytes, mut values) = ([0; BYTES], [0.0; N]);
                bytes[..rest.len()].copy_from_slice(rest);
                expand_block(&bytes, &mut values);
                out_rest.copy_from_slice(&values[..out_rest.len()]);
            }
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
    use super::super::dequant::{self, ElementType};

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

    use dequant::half;

    #[inline]
    fn floats(bytes: &[u8; 64], out: &mut [f32; 16]) {
        each(bytes, f32::from_le_bytes, out);
    }

    #[inline]
    fn halves(bytes: &[u8; 32], out: &mut [f32; 16]) {
        each(bytes, half, out);
    }

    #[inline]
    fn upper_halves(bytes: &[u8; 32], out: &mut [f32; 16]) {
        each(bytes, dequant::upper_half, out);
    }

    #[inline]
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32, out: &mut [f32; 16]) {
        for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
            *out = value(bytes);
        }
    }

    #[inline]
    fn scaled(scale: f32, q: &[u8; 32], out: &mut [f32; 32]) {
        for (out, &q) in out.iter_mut().zip(q) {
            *out = scale * f32::from(q.cast_signed());
        }
    }

    inner_loops!(, [f32; LANES], false);
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::dequant::{self, ElementType};
    use std::arch::x86_64::{
        __m256, _mm_add_ps, _mm_add_ss, _mm_cvtph_ps, _mm_cvtsi32_si128, _mm_cvtss_f32, _mm_loadl_epi64,
        _mm_loadu_si128, _mm_movehl_ps, _mm_shuffle_ps, _mm256_castps256_ps128, _mm256_castsi256_ps,
        _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_extractf128_ps,
        _mm256_fmadd_ps as multiply_add, _mm256_loadu_ps as load, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_setzero_ps as zero, _mm256_slli_epi32, _mm256_storeu_ps,
    };

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
    fn half(bytes: [u8; 2]) -> f32 {
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(u16::from_le_bytes(bytes)))))
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn scaled(scale: f32, q: &[u8; 32], out: &mut [f32; 32]) {
        let scale = _mm256_set1_ps(scale);
        for (q, out) in q.as_chunks::<LANES>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe {
                let q = _mm256_cvtepi8_epi32(_mm_loadl_epi64(q.as_ptr().cast()));
                _mm256_storeu_ps(out.as_mut_ptr(), _mm256_mul_ps(scale, _mm256_cvtepi32_ps(q)));
            }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn floats(bytes: &[u8; 64], out: &mut [f32; 16]) {
        for (bytes, out) in bytes.as_chunks::<{ 4 * LANES }>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), load(bytes.as_ptr().cast())) };
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn halves(bytes: &[u8; 32], out: &mut [f32; 16]) {
        for (bytes, out) in bytes.as_chunks::<{ 2 * LANES }>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(bytes.as_ptr().cast()))) };
        }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    fn upper_halves(bytes: &[u8; 32], out: &mut [f32; 16]) {
        for (bytes, out) in bytes.as_chunks::<{ 2 * LANES }>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
                _mm256_storeu_ps(out.as_mut_ptr(), _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)));
            }
        }
    }

    inner_loops!(#[target_feature(enable = "avx2,fma,f16c")], __m256, true);
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::super::dequant::{self, ElementType};
    use std::arch::x86_64::{
        __m512, _mm_cvtph_ps, _mm_cvtsi32_si128, _mm_cvtss_f32, _mm_loadu_si128, _mm256_loadu_si256,
        _mm512_castsi512_ps, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps,
        _mm512_fmadd_ps as multiply_add, _mm512_loadu_ps as load, _mm512_mul_ps, _mm512_reduce_add_ps as sum,
        _mm512_set1_ps, _mm512_setzero_ps as zero, _mm512_slli_epi32, _mm512_storeu_ps,
    };

    const LANES: usize = 16;

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn half(bytes: [u8; 2]) -> f32 {
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(u16::from_le_bytes(bytes)))))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn scaled(scale: f32, q: &[u8; 32], out: &mut [f32; 32]) {
        let scale = _mm512_set1_ps(scale);
        for (q, out) in q.as_chunks::<LANES>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe {
                let q = _mm512_cvtepi8_epi32(_mm_loadu_si128(q.as_ptr().cast()));
                _mm512_storeu_ps(out.as_mut_ptr(), _mm512_mul_ps(scale, _mm512_cvtepi32_ps(q)));
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn floats(bytes: &[u8; 64], out: &mut [f32; 16]) {
        for (bytes, out) in bytes.as_chunks::<{ 4 * LANES }>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), load(bytes.as_ptr().cast())) };
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn halves(bytes: &[u8; 32], out: &mut [f32; 16]) {
        for (bytes, out) in bytes.as_chunks::<{ 2 * LANES }>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(bytes.as_ptr().cast()))) };
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn upper_halves(bytes: &[u8; 32], out: &mut [f32; 16]) {
        for (bytes, out) in bytes.as_chunks::<{ 2 * LANES }>().0.iter().zip(out.as_chunks_mut::<LANES>().0) {
            // SAFETY: both hold exactly one vector.
            unsafe {
                let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(bytes.as_ptr().cast()));
                _mm512_storeu_ps(out.as_mut_ptr(), _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)));
            }
        }
    }

    inner_loops!(#[target_feature(enable = "avx512f")], __m512, true);
}
