//! Vector code: loops over lanes and matrix tiles, compiled for AVX2 and FMA beside the plain copy.
//!
//! A crate is compiled for the oldest processor that it may meet. Here the code of an instruction is compiled twice, and
//! the processor is asked once, when the table of instructions is made. Results are the same bits either way; a fused
//! multiply-add is one instruction in the one copy and a slow library call in the other. One instruction, on which most of
//! the time goes, has a third copy for AVX-512.
#![allow(unsafe_code, reason = "calls of functions with target features, guarded by detection")]

use crate::access::Cx;
use crate::error::Checked;
use crate::program::Args;
use crate::regs::Regs;

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

    /// The same, with a function for processors that have AVX-512F besides these features, and nothing else.
    pub(crate) fn choose_widest(
        plain: fn(&mut Cx<'_, '_>, &Args, u32) -> Checked,
        vector: unsafe fn(&mut Cx<'_, '_>, &Args, u32) -> Checked,
        wide: unsafe fn(&mut Cx<'_, '_>, &Args, u32) -> Checked,
    ) -> Self {
        if has_wide_vectors() { Self(wide) } else { Self::choose(plain, vector) }
    }

    #[inline(always)]
    pub(crate) fn run(self, cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
        // SAFETY: the function is safe, or compiled for features that `choose` or `choose_widest` has found.
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

#[cfg(target_arch = "x86_64")]
pub(crate) fn has_wide_vectors() -> bool {
    has_vectors() && std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_wide_vectors() -> bool {
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
