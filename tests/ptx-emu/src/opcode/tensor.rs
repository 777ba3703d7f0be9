//! `ldmatrix` and `mma`.

use super::{Access, Members, Run, Slot, Table};
use crate::block::Cx;
use crate::error::Checked;
use crate::fma::{M, N, multiply};
use crate::half::{from_bf16, from_e4m3, from_f16};
use crate::program::Args;
use crate::regs::{LANES, Lane, Regs};
use crate::ty::{Space, Ty};

const WHOLE_WARP: Members = Members::Warp { full: true };

pub(super) fn register(table: &mut Table) {
    let loads: [(u8, Access, Access); 3] = [
        (1, load_matrices::<1, false>, load_matrices::<1, true>),
        (2, load_matrices::<2, false>, load_matrices::<2, true>),
        (4, load_matrices::<4, false>, load_matrices::<4, true>),
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
    macro_rules! mma {
        ($($name:literal, $slots:ident, |$cx:ident, $args:ident| $e:expr;)*) => {$(
            table.add(concat!("mma.sync.aligned.", $name), &$slots, Run::Collective(WHOLE_WARP, |$cx, $args, _| {
                $cx.block.stats.matrix_instructions += 1;
                $e;
                Ok(())
            }));
        )*};
    }
    mma! {
        "m16n8k16.row.col.f32.bf16.bf16.f32", floats, |cx, args| {
            multiply_floats::<16, 2>(&mut cx.core.regs, args, |word| halves(word).map(from_bf16));
        };
        "m16n8k16.row.col.f32.f16.f16.f32", floats, |cx, args| {
            multiply_floats::<16, 2>(&mut cx.core.regs, args, |word| halves(word).map(from_f16));
        };
        "m16n8k32.row.col.f32.e4m3.e4m3.f32", floats, |cx, args| {
            multiply_floats::<32, 4>(&mut cx.core.regs, args, |word| word.to_le_bytes().map(from_e4m3));
        };
        "m16n8k32.row.col.s32.s8.s8.s32", integers, |cx, args| multiply_integers(&mut cx.core.regs, args);
    }
}

#[inline(always)]
fn halves(word: u32) -> [u16; 2] {
    [word as u16, (word >> 16) as u16]
}

/// Loads `COUNT` 8 by 8 matrices of 16-bit elements. Lane `8 q + r` holds the address of row `r` of matrix `q`; lane `l`
/// receives elements `2 (l % 4)` and the next of row `l / 4`, or of column `l / 4` if transposed.
fn load_matrices<const COUNT: usize, const TRANSPOSED: bool>(cx: &mut Cx<'_, '_>, args: &Args, _: u32) -> Checked {
    let addresses = cx.core.regs.addresses(args, COUNT, args.imm[0]);
    let givers = ((1_u64 << (8 * COUNT)) - 1) as u32;
    cx.block.count_shared(&addresses, givers, 16);
    for matrix in 0..COUNT {
        let mut rows = [[0; 16]; 8];
        for (row, bytes) in rows.iter_mut().enumerate() {
            let lane = matrix * 8 + row;
            Cx::aligned(lane, addresses[lane], 16, Space::Shared)?;
            *bytes = cx.block.shared_load(cx.who(lane), addresses[lane])?;
        }
        let element = |row: usize, column: usize| [rows[row][2 * column], rows[row][2 * column + 1]];
        let mut out = [0; LANES];
        for (lane, word) in out.iter_mut().enumerate() {
            let (group, first) = (lane / 4, lane % 4 * 2);
            let [low, high] = if TRANSPOSED {
                [element(first, group), element(first + 1, group)]
            } else {
                [element(group, first), element(group, first + 1)]
            };
            *word = u32::from_le_bytes([low[0], low[1], high[0], high[1]]);
        }
        cx.core.regs.set::<u32>(args.r[matrix], u32::MAX, &out);
    }
    Ok(())
}

/// Where the operands of `mma` are among the registers of an instruction.
const A: usize = 4;
const B: usize = 8;
const C: usize = 10;

/// Calls `put(row, k, word)` with each register word of A; it holds the elements from column `k` on.
///
/// Lane `l` has group `g = l / 4` and place `t = l % 4`. Register `q` covers rows `g` or, if odd, `g + 8`, and of the
/// depth the first or, from 2 on, the second half; its elements start at `t` times their number.
#[inline(always)]
fn each_of_a<const K: usize, const PACK: usize>(regs: &Regs, args: &Args, mut put: impl FnMut(usize, usize, u32)) {
    for q in 0..4 {
        let words = u32::row(regs, args.r[A + q]);
        for group in 0..8 {
            for place in 0..4 {
                put(q % 2 * 8 + group, q / 2 * (K / 2) + place * PACK, words[group * 4 + place]);
            }
        }
    }
}

/// As `each_of_a`, with `put(k, column, word)`: the column is the group.
#[inline(always)]
fn each_of_b<const K: usize, const PACK: usize>(regs: &Regs, args: &Args, mut put: impl FnMut(usize, usize, u32)) {
    for q in 0..2 {
        let words = u32::row(regs, args.r[B + q]);
        for place in 0..4 {
            for group in 0..8 {
                put(q * (K / 2) + place * PACK, group, words[group * 4 + place]);
            }
        }
    }
}

/// Calls `put(row, column, words)` with each pair of neighbours in C, which two registers hold.
#[inline(always)]
fn each_of_c(regs: &Regs, args: &Args, mut put: impl FnMut(usize, usize, [u32; 2])) {
    for half in 0..2 {
        let [even, odd] = [0, 1].map(|q| u32::row(regs, args.r[C + 2 * half + q]));
        for group in 0..8 {
            for place in 0..4 {
                let lane = group * 4 + place;
                put(half * 8 + group, place * 2, [even[lane], odd[lane]]);
            }
        }
    }
}

/// Writes D, which has the layout of C.
#[inline(always)]
fn put_d(regs: &mut Regs, args: &Args, value: impl Fn(usize, usize) -> u32) {
    for q in 0..4 {
        let words = u32::row_mut(regs, args.r[q]);
        for group in 0..8 {
            for place in 0..4 {
                words[group * 4 + place] = value(q / 2 * 8 + group, place * 2 + q % 2);
            }
        }
    }
}

/// `PACK` elements of a word, `K` deep.
#[inline(always)]
fn multiply_floats<const K: usize, const PACK: usize>(
    regs: &mut Regs,
    args: &Args,
    unpack: impl Fn(u32) -> [f32; PACK],
) {
    let mut a = [[0.0; K]; M];
    each_of_a::<K, PACK>(regs, args, |row, k, word| {
        for (index, value) in unpack(word).into_iter().enumerate() {
            a[row][k + index] = value;
        }
    });
    let mut b = [[0.0; N]; K];
    each_of_b::<K, PACK>(regs, args, |k, column, word| {
        for (index, value) in unpack(word).into_iter().enumerate() {
            b[k + index][column] = value;
        }
    });
    let mut c = [[0.0; N]; M];
    each_of_c(regs, args, |row, column, words| {
        c[row][column] = f32::from_bits(words[0]);
        c[row][column + 1] = f32::from_bits(words[1]);
    });
    multiply(&a, &b, &mut c);
    put_d(regs, args, |row, column| c[row][column].to_bits());
}

fn multiply_integers(regs: &mut Regs, args: &Args) {
    let mut a = [[0_i32; 32]; M];
    each_of_a::<32, 4>(regs, args, |row, k, word| {
        a[row][k..k + 4].copy_from_slice(&word.to_le_bytes().map(|byte| i32::from(byte as i8)));
    });
    let mut b = [[0_i32; N]; 32];
    each_of_b::<32, 4>(regs, args, |k, column, word| {
        for (index, byte) in word.to_le_bytes().into_iter().enumerate() {
            b[k + index][column] = i32::from(byte as i8);
        }
    });
    let mut c = [[0_i32; N]; M];
    each_of_c(regs, args, |row, column, words| {
        c[row][column] = words[0] as i32;
        c[row][column + 1] = words[1] as i32;
    });
    for (sums, row) in c.iter_mut().zip(&a) {
        for (&factor, column) in row.iter().zip(&b) {
            for (sum, &value) in sums.iter_mut().zip(column) {
                *sum = sum.wrapping_add(factor * value);
            }
        }
    }
    put_d(regs, args, |row, column| c[row][column] as u32);
}
