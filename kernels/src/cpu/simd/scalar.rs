//! Eight-lane arrays; the compiler turns them into whatever the target's baseline has.

use super::super::dequant::{self, ElementType, half};

const LANES: usize = 8;

#[inline]
fn zero() -> [f32; LANES] {
    [0.0; LANES]
}

#[inline]
fn splat(value: f32) -> [f32; LANES] {
    [value; LANES]
}

/// # Safety
///
/// `from` must be valid for reading `LANES` floats.
#[inline]
unsafe fn load(from: *const f32) -> [f32; LANES] {
    // SAFETY: promised by the caller.
    unsafe { from.cast::<[f32; LANES]>().read_unaligned() }
}

/// # Safety
///
/// `to` must be valid for writing `LANES` floats.
#[inline]
unsafe fn store(to: *mut f32, values: [f32; LANES]) {
    // SAFETY: promised by the caller.
    unsafe { to.cast::<[f32; LANES]>().write_unaligned(values) }
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

#[inline]
fn sums<const R: usize>(totals: [[f32; LANES]; R]) -> [f32; R] {
    totals.map(sum)
}

block_through_array!(, [f32; LANES], floats, 64, 16);
block_through_array!(, [f32; LANES], halves, 32, 16);
block_through_array!(, [f32; LANES], upper_halves, 32, 16);
block_through_array!(, [f32; LANES], q4_0, 18, 32);
block_through_array!(, [f32; LANES], q4_1, 20, 32);
block_through_array!(, [f32; LANES], q5_0, 22, 32);
block_through_array!(, [f32; LANES], q5_1, 24, 32);
block_through_array!(, [f32; LANES], q8_0, 34, 32);
block_through_array!(, [f32; LANES], q4_k, 144, 256);
block_through_array!(, [f32; LANES], q5_k, 176, 256);
block_through_array!(, [f32; LANES], q6_k, 210, 256);

inner_loops!(, [f32; LANES], false);
