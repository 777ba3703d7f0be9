//! Moves, logic, shifts and other work on bits.

use super::{Run, Slot, Table, same};
use crate::program::Args;
use crate::regs::{LANES, Regs};
use crate::ty::{Space, Ty};
use crate::vector::lane_loop;

pub(super) fn register(table: &mut Table) {
    logic(table);
    shifts(table);
    counts(table);
    fields(table);
    moves(table);
    packs(table);
    addresses(table);
    table.add(
        "lop3.b32",
        &[Slot::Dst(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Int],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            let table = args.imm[0] as u32;
            regs.map3(args, mask, |a, b, c| lop3(a, b, c, table));
        })),
    );
    table.add(
        "prmt.b32",
        &[Slot::Dst(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32)],
        Run::Lanes(lane_loop!(|regs, args, mask| regs.map3(args, mask, permute))),
    );
}

fn logic(table: &mut Table) {
    macro_rules! logic {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            same!(table, concat!("and.", $name), $ty: $rust, |a, b| a & b);
            same!(table, concat!("or.", $name), $ty: $rust, |a, b| a | b);
            same!(table, concat!("xor.", $name), $ty: $rust, |a, b| a ^ b);
            same!(table, concat!("not.", $name), $ty: $rust, |a| !a);
        )*};
    }
    logic! { "b16", B16: u16; "b32", B32: u32; "b64", B64: u64; }
}

/// Shift counts are 32 bits wide whatever is shifted, and clamped to its width.
fn shifts(table: &mut Table) {
    macro_rules! shift {
        ($($name:literal, $ty:ident: $rust:ty, |$a:ident, $n:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::$ty), Slot::Src(Ty::$ty), Slot::Src(Ty::U32)],
                Run::Lanes(lane_loop!(|regs, args, mask| regs.map2(args, mask, |$a: $rust, $n: u32| -> $rust { $e }))),
            );
        )*};
    }
    shift! {
        "shl.b16", B16: u16, |a, n| if n < 16 { a << n } else { 0 };
        "shl.b32", B32: u32, |a, n| if n < 32 { a << n } else { 0 };
        "shl.b64", B64: u64, |a, n| if n < 64 { a << n } else { 0 };
        "shr.b16", B16: u16, |a, n| if n < 16 { a >> n } else { 0 };
        "shr.b32", B32: u32, |a, n| if n < 32 { a >> n } else { 0 };
        "shr.b64", B64: u64, |a, n| if n < 64 { a >> n } else { 0 };
        "shr.u16", U16: u16, |a, n| if n < 16 { a >> n } else { 0 };
        "shr.u32", U32: u32, |a, n| if n < 32 { a >> n } else { 0 };
        "shr.u64", U64: u64, |a, n| if n < 64 { a >> n } else { 0 };
        "shr.s16", S16: i16, |a, n| a >> n.min(15);
        "shr.s32", S32: i32, |a, n| a >> n.min(31);
        "shr.s64", S64: i64, |a, n| a >> n.min(63);
    }
    macro_rules! funnel {
        ($($name:literal, |$pair:ident, $n:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::U32)],
                Run::Lanes(lane_loop!(|regs, args, mask| regs.map3(args, mask, |low: u32, high: u32, $n: u32| -> u32 {
                    let $pair = u64::from(high) << 32 | u64::from(low);
                    ($e) as u32
                }))),
            );
        )*};
    }
    funnel! {
        "shf.l.wrap.b32", |pair, n| (pair << (n & 31)) >> 32;
        "shf.l.clamp.b32", |pair, n| (pair << n.min(32)) >> 32;
        "shf.r.wrap.b32", |pair, n| pair >> (n & 31);
        "shf.r.clamp.b32", |pair, n| pair >> n.min(32);
    }
}

fn counts(table: &mut Table) {
    macro_rules! count {
        ($($name:literal, $ty:ident: $rust:ty, |$a:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::U32), Slot::Src(Ty::$ty)],
                Run::Lanes(lane_loop!(|regs, args, mask| regs.map1(args, mask, |$a: $rust| -> u32 { $e }))),
            );
        )*};
    }
    // bfind gives all ones where no bit is found; with .shiftamt, the shift that brings the bit to the top.
    count! {
        "popc.b32", B32: u32, |a| a.count_ones();
        "popc.b64", B64: u64, |a| a.count_ones();
        "clz.b32", B32: u32, |a| a.leading_zeros();
        "clz.b64", B64: u64, |a| a.leading_zeros();
        "bfind.u32", U32: u32, |a| a.checked_ilog2().unwrap_or(u32::MAX);
        "bfind.shiftamt.u32", U32: u32, |a| if a == 0 { u32::MAX } else { a.leading_zeros() };
        "bfind.s32", S32: i32, |a| ((a ^ (a >> 31)) as u32).checked_ilog2().unwrap_or(u32::MAX);
        "bfind.u64", U64: u64, |a| a.checked_ilog2().unwrap_or(u32::MAX);
        "bfind.s64", S64: i64, |a| ((a ^ (a >> 63)) as u64).checked_ilog2().unwrap_or(u32::MAX);
        "bfind.shiftamt.s32", S32: i32, |a| ((a ^ (a >> 31)) as u32).checked_ilog2().map_or(u32::MAX, |bit| 31 - bit);
        "bfind.shiftamt.u64", U64: u64, |a| a.checked_ilog2().map_or(u32::MAX, |bit| 63 - bit);
        "bfind.shiftamt.s64", S64: i64, |a| ((a ^ (a >> 63)) as u64).checked_ilog2().map_or(u32::MAX, |bit| 63 - bit);
    }
    same!(table, "brev.b32", B32: u32, |a| a.reverse_bits());
    same!(table, "brev.b64", B64: u64, |a| a.reverse_bits());
}

fn fields(table: &mut Table) {
    let position = [Slot::Src(Ty::U32), Slot::Src(Ty::U32)];
    macro_rules! insert {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            table.add(
                $name,
                &[[Slot::Dst(Ty::$ty), Slot::Src(Ty::$ty), Slot::Src(Ty::$ty)].as_slice(), &position].concat(),
                Run::Lanes(lane_loop!(|regs, args, mask| regs.map4(args, mask, |field: $rust, into: $rust, at, bits| {
                    let (at, bits) = (at & 0xff, bits & 0xff);
                    let ones = if bits >= <$rust>::BITS { <$rust>::MAX } else { (1 << bits) - 1 };
                    let place = ones.checked_shl(at).unwrap_or(0);
                    (into & !place) | (field.checked_shl(at).unwrap_or(0) & place)
                }))),
            );
        )*};
    }
    insert! { "bfi.b32", B32: u32; "bfi.b64", B64: u64; }
    macro_rules! extract {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            table.add(
                $name,
                &[[Slot::Dst(Ty::$ty), Slot::Src(Ty::$ty)].as_slice(), &position].concat(),
                Run::Lanes(lane_loop!(|regs, args, mask| regs.map3(args, mask, |a: $rust, at: u32, bits: u32| -> $rust {
                    // Bits past the top are copies of the sign, which an arithmetic shift brings in by itself.
                    let shifted = a >> (at & 0xff).min(<$rust>::BITS - 1);
                    let shifted = if at & 0xff < <$rust>::BITS || <$rust>::MIN != 0 { shifted } else { 0 };
                    let bits = (bits & 0xff).min(<$rust>::BITS);
                    if bits == 0 { 0 } else { shifted << (<$rust>::BITS - bits) >> (<$rust>::BITS - bits) }
                }))),
            );
        )*};
    }
    extract! { "bfe.u32", U32: u32; "bfe.s32", S32: i32; "bfe.u64", U64: u64; "bfe.s64", S64: i64; }
}

fn moves(table: &mut Table) {
    macro_rules! mov {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            table.add(
                concat!("mov.", $name),
                &[Slot::Dst(Ty::$ty), Slot::Value(Ty::$ty)],
                Run::Lanes(lane_loop!(|regs, args, mask| regs.map1(args, mask, |a: $rust| a))),
            );
        )*};
    }
    mov! {
        "b16", B16: u16; "u16", U16: u16; "s16", S16: u16;
        "b32", B32: u32; "u32", U32: u32; "s32", S32: u32; "f32", F32: u32;
        "b64", B64: u64; "u64", U64: u64; "s64", S64: u64; "f64", F64: u64;
    }
}

/// `mov` between a register and the parts it is made of, lowest part first.
fn packs(table: &mut Table) {
    table.add(
        "mov.b32",
        &[Slot::Dst(Ty::B32), Slot::SrcVec(Ty::B16, 2)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map2(args, mask, |low: u16, high: u16| u32::from(high) << 16 | u32::from(low));
        })),
    );
    table.add(
        "mov.b64",
        &[Slot::Dst(Ty::B64), Slot::SrcVec(Ty::B32, 2)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map2(args, mask, |low: u32, high: u32| u64::from(high) << 32 | u64::from(low));
        })),
    );
    table.add(
        "mov.b64",
        &[Slot::Dst(Ty::B64), Slot::SrcVec(Ty::B16, 4)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map4(args, mask, |a: u16, b: u16, c, d| {
                u64::from(a) | u64::from(b) << 16 | u64::from(c & 0xffff) << 32 | u64::from(d) << 48
            });
        })),
    );
    table.add(
        "mov.b32",
        &[Slot::DstVec(Ty::B16, 2), Slot::Src(Ty::B32)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            let whole = regs.get::<u32>(args.r[2]);
            unpack(regs, args, mask, 2, |lane, part| whole[lane] >> (16 * part) & 0xffff);
        })),
    );
    table.add(
        "mov.b64",
        &[Slot::DstVec(Ty::B32, 2), Slot::Src(Ty::B64)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            let whole = regs.get::<u64>(args.r[2]);
            unpack(regs, args, mask, 2, |lane, part| (whole[lane] >> (32 * part)) as u32);
        })),
    );
    table.add(
        "mov.b64",
        &[Slot::DstVec(Ty::B16, 4), Slot::Src(Ty::B64)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            let whole = regs.get::<u64>(args.r[4]);
            unpack(regs, args, mask, 4, |lane, part| (whole[lane] >> (16 * part)) as u32 & 0xffff);
        })),
    );
}

#[inline(always)]
fn unpack(regs: &mut Regs, args: &Args, mask: u32, parts: usize, part_of: impl Fn(usize, usize) -> u32) {
    for part in 0..parts {
        let mut out = [0; LANES];
        for (lane, value) in out.iter_mut().enumerate() {
            *value = part_of(lane, part);
        }
        regs.set::<u32>(args.r[part], mask, &out);
    }
}

/// `cvta`: between generic addresses and those of one space.
fn addresses(table: &mut Table) {
    let slots = [Slot::Dst(Ty::U64), Slot::Value(Ty::U64)];
    for name in ["cvta.global.u64", "cvta.to.global.u64", "cvta.const.u64", "cvta.to.const.u64"] {
        table.add(name, &slots, Run::Lanes(lane_loop!(|regs, args, mask| regs.map1(args, mask, |a: u64| a))));
    }
    table.add(
        "cvta.shared.u64",
        &slots,
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map1(args, mask, |a: u64| a.wrapping_add(Space::Shared.window()));
        })),
    );
    table.add(
        "cvta.to.shared.u64",
        &slots,
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map1(args, mask, |a: u64| a.wrapping_sub(Space::Shared.window()));
        })),
    );
    table.add(
        "cvta.local.u64",
        &slots,
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map1(args, mask, |a: u64| a.wrapping_add(Space::Local.window()));
        })),
    );
    table.add(
        "cvta.to.local.u64",
        &slots,
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map1(args, mask, |a: u64| a.wrapping_sub(Space::Local.window()));
        })),
    );
}

/// Each result bit is looked up in `table` by the three input bits, `a` highest.
#[inline(always)]
fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let mut out = 0;
    for row in 0..8 {
        let pick = |set: u32, word: u32| if row & set != 0 { word } else { !word };
        let chosen = 0u32.wrapping_sub(table >> row & 1);
        out |= pick(4, a) & pick(2, b) & pick(1, c) & chosen;
    }
    out
}

/// `prmt`: each nibble of `selector` picks one of the eight bytes; its top bit spreads that byte's sign instead.
#[inline(always)]
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let mut out = 0;
    for place in 0..4 {
        let pick = selector >> (4 * place) & 15;
        let byte = (bytes >> (8 * (pick & 7))) as u8;
        let byte = if pick & 8 == 0 { byte } else { 0u8.wrapping_sub(byte >> 7) };
        out |= u32::from(byte) << (8 * place);
    }
    out
}
