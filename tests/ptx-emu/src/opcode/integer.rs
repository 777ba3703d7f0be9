//! Integer arithmetic.

use super::{Run, Slot, Table, same};
use crate::ty::Ty;
use crate::vector::lane_loop;

pub(super) fn register(table: &mut Table) {
    any_sign(table);
    signed(table);
    unsigned(table);
    widening(table);
    multiply_add_wide(table);
    dot_product(table);
}

/// Instructions whose result does not depend on the sign, under both names.
fn any_sign(table: &mut Table) {
    macro_rules! modular {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            same!(table, concat!("add.", $name), $ty: $rust, |a, b| a.wrapping_add(b));
            same!(table, concat!("sub.", $name), $ty: $rust, |a, b| a.wrapping_sub(b));
            same!(table, concat!("mul.lo.", $name), $ty: $rust, |a, b| a.wrapping_mul(b));
            same!(table, concat!("mad.lo.", $name), $ty: $rust, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
            same!(table, concat!("min.", $name), $ty: $rust, |a, b| a.min(b));
            same!(table, concat!("max.", $name), $ty: $rust, |a, b| a.max(b));
        )*};
    }
    modular! {
        "s16", S16: i16; "u16", U16: u16;
        "s32", S32: i32; "u32", U32: u32;
        "s64", S64: i64; "u64", U64: u64;
    }
}

fn signed(table: &mut Table) {
    macro_rules! signed {
        ($($name:literal, $ty:ident: $rust:ty, $wide:ty;)*) => {$(
            same!(table, concat!("neg.", $name), $ty: $rust, |a| a.wrapping_neg());
            same!(table, concat!("abs.", $name), $ty: $rust, |a| a.wrapping_abs());
            // The result of a division by zero is unspecified; all ones is what hardware gives.
            same!(table, concat!("div.", $name), $ty: $rust, |a, b| if b == 0 { -1 } else { a.wrapping_div(b) });
            same!(table, concat!("rem.", $name), $ty: $rust, |a, b| if b == 0 { a } else { a.wrapping_rem(b) });
            same!(table, concat!("mul.hi.", $name), $ty: $rust, |a, b| {
                ((<$wide>::from(a) * <$wide>::from(b)) >> <$rust>::BITS) as $rust
            });
            same!(table, concat!("mad.hi.", $name), $ty: $rust, |a, b, c| {
                (((<$wide>::from(a) * <$wide>::from(b)) >> <$rust>::BITS) as $rust).wrapping_add(c)
            });
        )*};
    }
    signed! {
        "s16", S16: i16, i32;
        "s32", S32: i32, i64;
        "s64", S64: i64, i128;
    }
}

fn unsigned(table: &mut Table) {
    macro_rules! unsigned {
        ($($name:literal, $ty:ident: $rust:ty, $wide:ty;)*) => {$(
            same!(table, concat!("div.", $name), $ty: $rust, |a, b| a.checked_div(b).unwrap_or(<$rust>::MAX));
            same!(table, concat!("rem.", $name), $ty: $rust, |a, b| a.checked_rem(b).unwrap_or(a));
            same!(table, concat!("mul.hi.", $name), $ty: $rust, |a, b| {
                ((<$wide>::from(a) * <$wide>::from(b)) >> <$rust>::BITS) as $rust
            });
            same!(table, concat!("mad.hi.", $name), $ty: $rust, |a, b, c| {
                (((<$wide>::from(a) * <$wide>::from(b)) >> <$rust>::BITS) as $rust).wrapping_add(c)
            });
        )*};
    }
    unsigned! {
        "u16", U16: u16, u32;
        "u32", U32: u32, u64;
        "u64", U64: u64, u128;
    }
}

/// `mul.wide`: the result is twice as wide as the factors.
fn widening(table: &mut Table) {
    macro_rules! wide {
        ($($name:literal, $from:ident: $narrow:ty => $to:ident: $wide:ty;)*) => {$(
            table.add(
                concat!("mul.wide.", $name),
                &[Slot::Dst(Ty::$to), Slot::Src(Ty::$from), Slot::Src(Ty::$from)],
                Run::Lanes(lane_loop!(|regs, args, mask| {
                    regs.map2(args, mask, |a: $narrow, b: $narrow| <$wide>::from(a) * <$wide>::from(b));
                })),
            );
        )*};
    }
    wide! {
        "s16", S16: i16 => S32: i32;
        "u16", U16: u16 => U32: u32;
        "s32", S32: i32 => S64: i64;
        "u32", U32: u32 => U64: u64;
    }
}

fn multiply_add_wide(table: &mut Table) {
    macro_rules! wide {
        ($($name:literal, $from:ident: $narrow:ty => $to:ident: $wide:ty;)*) => {$(
            table.add(
                concat!("mad.wide.", $name),
                &[Slot::Dst(Ty::$to), Slot::Src(Ty::$from), Slot::Src(Ty::$from), Slot::Src(Ty::$to)],
                Run::Lanes(lane_loop!(|regs, args, mask| {
                    regs.map3(args, mask, |a: $narrow, b: $narrow, c: $wide| {
                        (<$wide>::from(a) * <$wide>::from(b)).wrapping_add(c)
                    });
                })),
            );
        )*};
    }
    wide! {
        "s16", S16: i16 => S32: i32;
        "u16", U16: u16 => U32: u32;
        "s32", S32: i32 => S64: i64;
        "u32", U32: u32 => U64: u64;
    }
}

/// `dp4a`: four products of bytes, added to the third operand.
fn dot_product(table: &mut Table) {
    macro_rules! dot {
        ($($name:literal, $a:ident: $a_byte:ty, $b:ident: $b_byte:ty => $sum:ident;)*) => {$(
            table.add(
                concat!("dp4a.", $name),
                &[Slot::Dst(Ty::$sum), Slot::Src(Ty::$a), Slot::Src(Ty::$b), Slot::Src(Ty::$sum)],
                Run::Lanes(lane_loop!(|regs, args, mask| {
                    regs.map3(args, mask, |a: u32, b: u32, c: i32| {
                        let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
                        products.fold(c, |sum, (a, b)| {
                            sum.wrapping_add(i32::from(a as $a_byte) * i32::from(b as $b_byte))
                        })
                    });
                })),
            );
        )*};
    }
    dot! {
        "s32.s32", S32: i8, S32: i8 => S32;
        "u32.u32", U32: u8, U32: u8 => U32;
        "s32.u32", S32: i8, U32: u8 => S32;
        "u32.s32", U32: u8, S32: i8 => S32;
    }
}
