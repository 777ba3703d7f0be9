//! The inner loops everything else is built from, in scalar, AVX2 and AVX-512 form.
//!
//! * [`dot_tile`]: the products of `T` vectors with `R` vectors. Each product is accumulated in one vector register, in order,
//!   and summed across lanes at the end, so its value does not depend on the tile it was computed in.
//! * [`dot_stored`]: the products of one vector with `R` vectors of a stored type, expanded block by block in registers. They have
//!   the bits that [`expand`] and [`dot_tile`] give.
//! * [`expand`]: a vector of a stored type in single precision.
//! * [`weighted_sums`]: linear combinations of the same rows, added in row order.
//! * [`exp_shifted`] and [`silu_mul`]: what needs powers of *e*.
//!
//! `loops.rs` has the loops, once for all; the files of the instruction sets have the vector operations that they consist of.
//!
//! This is the only folder of the CPU operations with unsafe code: unaligned vector loads and stores, bounded by the length checks
//! before them, and calls of functions that need an instruction set, which the [`Isa`] value proves to exist.

use super::dequant::ElementType;
use super::isa::{Isa, Kind};

#[macro_use]
mod loops;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;
#[cfg(test)]
mod tests;

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

/// Calls a function of the module for the instruction set.
macro_rules! of_isa {
    ($isa:expr, $function:ident($($argument:expr),*)) => {
        match $isa.0 {
            Kind::Scalar => scalar::$function($($argument),*),
            // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { avx2::$function($($argument),*) },
            // SAFETY: an `Isa` of this kind exists only where the instructions were detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { avx512::$function($($argument),*) },
        }
    };
}

/// `out[t][r] = Σ_i x[t][i] · w[r][i]`.
///
/// # Panics
///
/// When the vectors are not all of one length.
pub(super) fn dot_tile<const T: usize, const R: usize>(isa: Isa, x: [&[f32]; T], w: [&[f32]; R]) -> [[f32; R]; T] {
    of_isa!(isa, dot_tile(x, w))
}

/// `out[r] = Σ_i x[i] · w[r][i]`, where the bytes of `w[r]` are elements of type `element`.
///
/// # Panics
///
/// When a vector of `w` has not as many elements as `x`.
pub(super) fn dot_stored<const R: usize>(isa: Isa, x: &[f32], element: ElementType, w: [&[u8]; R]) -> [f32; R] {
    assert!(w.iter().all(|w| element.bytes(x.len()) == Some(w.len())), "vectors of unequal length");
    of_isa!(isa, dot_stored(x, element, w))
}

/// Asks for the `BYTES` bytes that lie `distance` after `bytes` to be brought near, since they are read soon.
///
/// The processor does that by itself too, but anew for each page of memory, and not as early.
#[inline]
fn prefetch<const BYTES: usize>(bytes: &[u8; BYTES], distance: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..BYTES).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let ahead = bytes.as_ptr().wrapping_add(distance + line);
        // SAFETY: nothing is read, wherever it points, and every x86-64 processor has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, distance);
}

/// Converts the elements of type `element` in `bytes` to single precision.
///
/// # Panics
///
/// When `bytes` does not hold as many elements as `out`.
pub(super) fn expand(isa: Isa, element: ElementType, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(element.bytes(out.len()), Some(bytes.len()), "bytes for another number of elements");
    of_isa!(isa, expand(element, bytes, out));
}

/// `out[t][i] = Σ_r weights[t][r] · row(r)[i]`.
///
/// # Panics
///
/// When a row is not as long as the slices of `out`, or these differ in length, or the slices of `weights` do.
pub(super) fn weighted_sums<'a, const T: usize>(
    isa: Isa,
    weights: [&[f32]; T],
    row: impl Fn(usize) -> &'a [f32],
    out: [&mut [f32]; T],
) {
    of_isa!(isa, weighted_sums(weights, row, out));
}

/// The largest of `x`, that no comparison with what is no number decides.
pub(super) fn max(isa: Isa, x: &[f32]) -> f32 {
    of_isa!(isa, max(x))
}

/// Replaces each `x` by `e^(x - shift)`, to within two units in the last place, and returns their sum.
///
/// The sum is taken as that of a product: one sum per lane, in order, and then across the lanes.
pub(super) fn exp_shifted(isa: Isa, x: &mut [f32], shift: f32) -> f32 {
    of_isa!(isa, exp_shifted(x, shift))
}

/// `y = silu(gate) · up`, with `silu(g) = g / (1 + e⁻ᵍ)`.
///
/// # Panics
///
/// When the lengths differ.
pub(super) fn silu_mul(isa: Isa, gate: &[f32], up: &[f32], y: &mut [f32]) {
    of_isa!(isa, silu_mul(gate, up, y));
}
