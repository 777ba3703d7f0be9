//! `ldmatrix` and `mma`.

#[cfg(target_arch = "x86_64")]
mod bf16_product;

use super::{Members, Run, Slot, Table};
use crate::access::Cx;
use crate::error::Checked;
use crate::half::{from_bf16, from_e4m3, from_e5m2, from_f16};
use crate::program::Args;
use crate::regs::{LANES, Lane, Regs, Row};
use crate::ty::{Space, Ty};
use crate::vector::{Access, M, N, access, multiply, transposed};

const WHOLE_WARP: Members = Members::Warp { full: true };

pub(super) fn register(table: &mut Table) {
    macro_rules! loads {
        ($count:literal, $transposed:literal) => {
            access!(load_matrices::<$count, $transposed, false>, load_matrices::<$count, $transposed, true>)
        };
    }
    let loads: [(u8, Access, Access); 3] = [
        (1, loads!(1, false), loads!(1, true)),
        (2, loads!(2, false), loads!(2, true)),
        (4, loads!(4, false), loads!(4, true)),
    ];
    for space in ["shared", "shared::cta"] {
        for (count, plain, transposed) in loads {
            let slots = [Slot::DstVec(Ty::B32, count), Slot::Addr];
            for (infix, run) in [("", plain), (".trans", transposed)] {
                let name = format!("ldmatrix.sync.aligned.m8n8.x{count}{infix}.{space}.b16");
                table.add_access(name, &slots, Space::Shared, 16, Run::Collective(WHOLE_WARP, run));
            }
        }
    }
    let a_and_b = [Slot::SrcVec(Ty::B32, 4), Slot::SrcVec(Ty::B32, 2)];
    let floats = [&[Slot::DstVec(Ty::F32, 4)], a_and_b.as_slice(), &[Slot::SrcVec(Ty::F32, 4)]].concat();
    let integers = [&[Slot::DstVec(Ty::S32, 4)], a_and_b.as_slice(), &[Slot::SrcVec(Ty::S32, 4)]].concat();
    table.add(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        &floats,
        Run::Collective(WHOLE_WARP, bf16_product()),
    );
    macro_rules! mma {
        ($($name:literal, $slots:ident, |$regs:ident, $args:ident| $e:expr;)*) => {$({
            #[inline(always)]
            fn run(cx: &mut Cx<'_, '_>, $args: &Args, _: u32) -> Checked {
                cx.block.stats.matrix_instructions += 1;
                let $regs = &mut cx.core.regs;
                $e;
                Ok(())
            }
            table.add(concat!("mma.sync.aligned.", $name), &$slots, Run::Collective(WHOLE_WARP, access!(run)));
        })*};
    }
    mma! {
        "m16n8k16.row.col.f32.f16.f16.f32", floats, |regs, args| multiply_floats::<16, 2>(regs, args, f16, f16);
        "m16n8k32.row.col.f32.e4m3.e4m3.f32", floats, |regs, args| multiply_floats::<32, 4>(regs, args, e4m3, e4m3);
        "m16n8k32.row.col.f32.e4m3.e5m2.f32", floats, |regs, args| multiply_floats::<32, 4>(regs, args, e4m3, e5m2);
        "m16n8k32.row.col.f32.e5m2.e4m3.f32", floats, |regs, args| multiply_floats::<32, 4>(regs, args, e5m2, e4m3);
        "m16n8k32.row.col.f32.e5m2.e5m2.f32", floats, |regs, args| multiply_floats::<32, 4>(regs, args, e5m2, e5m2);
        "m16n8k32.row.col.s32.s8.s8.s32", integers, |regs, args| multiply_integers(regs, args, s8, s8);
        "m16n8k32.row.col.s32.s8.u8.s32", integers, |regs, args| multiply_integers(regs, args, s8, u8);
        "m16n8k32.row.col.s32.u8.s8.s32", integers, |regs, args| multiply_integers(regs, args, u8, s8);
        "m16n8k32.row.col.s32.u8.u8.s32", integers, |regs, args| multiply_integers(regs, args, u8, u8);
    }
}

/// The product that kernels spend their time with has vector code of its own.
#[expect(clippy::unnecessary_wraps, reason = "the signature is that of all accesses")]
fn bf16_product() -> Access {
    fn plain(cx: &mut Cx<'_, '_>, args: &Args, _: u32) -> Checked {
        cx.block.stats.matrix_instructions += 1;
        multiply_floats::<16, 2>(&mut cx.core.regs, args, bf16, bf16);
        Ok(())
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    fn vector(cx: &mut Cx<'_, '_>, args: &Args, _: u32) -> Checked {
        cx.block.stats.matrix_instructions += 1;
        bf16_product::multiply(&mut cx.core.regs, args);
        Ok(())
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    fn wide(cx: &mut Cx<'_, '_>, args: &Args, _: u32) -> Checked {
        cx.block.stats.matrix_instructions += 1;
        bf16_product::multiply_wide(&mut cx.core.regs, args);
        Ok(())
    }
    #[cfg(not(target_arch = "x86_64"))]
    use {plain as vector, plain as wide};

    Access::choose_widest(plain, vector, wide)
}

// The elements of a word, lowest first.

#[inline(always)]
fn bf16(word: u32) -> [f32; 2] {
    [from_bf16(word as u16), from_bf16((word >> 16) as u16)]
}

#[inline(always)]
fn f16(word: u32) -> [f32; 2] {
    [from_f16(word as u16), from_f16((word >> 16) as u16)]
}

#[inline(always)]
fn e4m3(word: u32) -> [f32; 4] {
    let [a, b, c, d] = word.to_le_bytes();
    [from_e4m3(a), from_e4m3(b), from_e4m3(c), from_e4m3(d)]
}

#[inline(always)]
fn e5m2(word: u32) -> [f32; 4] {
    let [a, b, c, d] = word.to_le_bytes();
    [from_e5m2(a), from_e5m2(b), from_e5m2(c), from_e5m2(d)]
}

#[inline(always)]
fn s8(word: u32) -> [i32; 4] {
    let [a, b, c, d] = word.to_le_bytes();
    [i32::from(a as i8), i32::from(b as i8), i32::from(c as i8), i32::from(d as i8)]
}

#[inline(always)]
fn u8(word: u32) -> [i32; 4] {
    let [a, b, c, d] = word.to_le_bytes();
    [i32::from(a), i32::from(b), i32::from(c), i32::from(d)]
}

/// Loads `COUNT` 8 by 8 matrices of 16-bit elements. Lane `8 q + r` holds the address of row `r` of matrix `q`; lane `l`
/// receives elements `2 (l % 4)` and the next of row `l / 4`, or of column `l / 4` if transposed.
#[inline(always)]
fn load_matrices<const COUNT: usize, const TRANSPOSED: bool, const TOGETHER: bool>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    _: u32,
) -> Checked {
    let addresses = cx.core.regs.addresses(args, COUNT, args.imm[0]);
    let givers = ((1_u64 << (8 * COUNT)) - 1) as u32;
    cx.block.count_shared(&addresses, givers, 16);
    let mut rows = [[0; 16]; LANES];
    if !(TOGETHER && load_rows::<COUNT>(cx, &addresses, givers, &mut rows)?) {
        for lane in 0..8 * COUNT {
            rows[lane] = cx.load(args, lane, addresses[lane])?;
        }
    }
    let (matrices, _) = rows.as_chunks::<8>();
    for (matrix, &reg) in matrices.iter().zip(&args.r[..COUNT]) {
        // The four lanes of a group receive a row, two elements each.
        let matrix = if TRANSPOSED { transposed(matrix) } else { *matrix };
        let out = u32::row_mut(&mut cx.core.regs, reg);
        for (group, row) in out.chunks_exact_mut(4).zip(&matrix) {
            let (words, _) = row.as_chunks::<4>();
            for (lane, &word) in group.iter_mut().zip(words) {
                *lane = u32::from_le_bytes(word);
            }
        }
    }
    Ok(())
}

/// All rows together, if they can be loaded so.
#[inline(always)]
fn load_rows<const COUNT: usize>(
    cx: &mut Cx<'_, '_>,
    addresses: &Row<u64>,
    givers: u32,
    rows: &mut Row<[u8; 16]>,
) -> Checked<bool> {
    let Some(units) = cx.block.shared_load_units::<16>(cx.core.id, cx.pc, addresses, givers)? else {
        return Ok(false);
    };
    for (row, &start) in rows[..8 * COUNT].iter_mut().zip(&units.at) {
        row.copy_from_slice(&units.bytes[start as usize..][..16]);
    }
    Ok(true)
}

/// Where the operands of `mma` are among the registers of an instruction.
const A: usize = 4;
const B: usize = 8;
const C: usize = 10;

/// The elements of A in rows of the depth.
///
/// Lane `l` has group `g = l / 4` and place `t = l % 4`. Register `q` covers rows `g` or, if odd, `g + 8`, and of the
/// depth the first or, from 2 on, the second half; its elements start at `t` times their number.
#[inline(always)]
fn rows_of_a<T: Copy + Default, const K: usize, const PACK: usize>(
    regs: &Regs,
    args: &Args,
    unpack: impl Fn(u32) -> [T; PACK],
) -> [[T; K]; M] {
    let mut a = [[T::default(); K]; M];
    for q in 0..4 {
        let words = u32::row(regs, args.r[A + q]);
        for group in 0..8 {
            let row = &mut a[q % 2 * 8 + group][q / 2 * (K / 2)..][..K / 2];
            for (elements, &word) in row.chunks_exact_mut(PACK).zip(&words[4 * group..]) {
                elements.copy_from_slice(&unpack(word));
            }
        }
    }
    a
}

/// Where a row of [`rows_of_b`] has a column of B: even ones first, as registers of C and D hold them.
#[inline(always)]
fn slot(column: usize) -> usize {
    column % 2 * 4 + column / 2
}

/// The elements of B in rows of the columns, the even columns first. Register `q` covers the first or second half of the
/// depth, as in A, and the group is the column.
#[inline(always)]
fn rows_of_b<T: Copy + Default, const K: usize, const PACK: usize>(
    regs: &Regs,
    args: &Args,
    unpack: impl Fn(u32) -> [T; PACK],
) -> [[T; N]; K] {
    let mut b = [[T::default(); N]; K];
    for q in 0..2 {
        let words = u32::row(regs, args.r[B + q]);
        for place in 0..4 {
            let mut column = [0; N];
            for group in 0..8 {
                column[slot(group)] = words[group * 4 + place];
            }
            for n in 0..N {
                for (index, value) in unpack(column[n]).into_iter().enumerate() {
                    b[q * (K / 2) + place * PACK + index][n] = value;
                }
            }
        }
    }
    b
}

/// C in rows, the even columns first: of neighbours, the one register holds the even, the next the odd one.
#[inline(always)]
fn rows_of_c<T: Copy + Default>(regs: &Regs, args: &Args, unpack: impl Fn(u32) -> T) -> [[T; N]; M] {
    let mut c = [[T::default(); N]; M];
    for q in 0..4 {
        let words = u32::row(regs, args.r[C + q]);
        for group in 0..8 {
            for place in 0..4 {
                c[q / 2 * 8 + group][q % 2 * 4 + place] = unpack(words[group * 4 + place]);
            }
        }
    }
    c
}

/// Writes D, which has the layout of C.
#[inline(always)]
fn put_d<T: Copy>(regs: &mut Regs, args: &Args, d: &[[T; N]; M], pack: impl Fn(T) -> u32) {
    for q in 0..4 {
        let words = u32::row_mut(regs, args.r[q]);
        for group in 0..8 {
            for place in 0..4 {
                words[group * 4 + place] = pack(d[q / 2 * 8 + group][q % 2 * 4 + place]);
            }
        }
    }
}

/// `PACK` elements of a word, `K` deep.
#[inline(always)]
fn multiply_floats<const K: usize, const PACK: usize>(
    regs: &mut Regs,
    args: &Args,
    unpack_a: impl Fn(u32) -> [f32; PACK],
    unpack_b: impl Fn(u32) -> [f32; PACK],
) {
    let a = rows_of_a::<_, K, PACK>(regs, args, unpack_a);
    let b = rows_of_b::<_, K, PACK>(regs, args, unpack_b);
    let mut c = rows_of_c(regs, args, f32::from_bits);
    multiply(&a, &b, &mut c);
    put_d(regs, args, &c, f32::to_bits);
}

#[inline(always)]
fn multiply_integers(
    regs: &mut Regs,
    args: &Args,
    unpack_a: impl Fn(u32) -> [i32; 4],
    unpack_b: impl Fn(u32) -> [i32; 4],
) {
    let a: [[i32; 32]; M] = rows_of_a(regs, args, unpack_a);
    let b: [[i32; N]; 32] = rows_of_b(regs, args, unpack_b);
    let mut c = rows_of_c(regs, args, |word| word as i32);
    for (sums, row) in c.iter_mut().zip(&a) {
        for (&factor, column) in row.iter().zip(&b) {
            for (sum, &value) in sums.iter_mut().zip(column) {
                *sum = sum.wrapping_add(factor * value);
            }
        }
    }
    put_d(regs, args, &c, |sum| sum as u32);
}
