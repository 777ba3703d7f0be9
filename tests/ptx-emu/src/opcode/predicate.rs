//! Comparisons, selection and predicate logic.
#![allow(
    clippy::double_comparisons,
    clippy::neg_cmp_op_on_partial_ord,
    reason = "the comparisons that PTX has are about NaN"
)]

use super::{Run, Slot, Table};
use crate::program::Args;
use crate::regs::{FULL, Lane, Regs};
use crate::ty::Ty;
use crate::vector::{LaneLoop, lane_loop};

const COMPARE_INT: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

pub(super) fn register(table: &mut Table) {
    integer_compares(table);
    float_compares(table);
    selects(table);
    logic(table);
}

/// The six forms of one comparison: plain, and combined with another predicate.
macro_rules! setp {
    ($table:ident, $compare:expr, $name:expr, $ty:ident: $rust:ty, |$a:ident, $b:ident| $e:expr) => {{
        let plain = [Slot::Dst(Ty::Pred), Slot::Src(Ty::$ty), Slot::Src(Ty::$ty)];
        let combined = [plain.as_slice(), &[Slot::SrcNot]].concat();
        let (compare, name): (&str, &str) = ($compare, $name);
        $table.add(
            format!("setp.{compare}.{name}"),
            &plain,
            Run::Lanes(lane_loop!(|regs, args, mask| {
                regs.compare(args, mask, |$a: $rust, $b: $rust| $e);
            })),
        );
        $table.add(
            format!("setp.{compare}.and.{name}"),
            &combined,
            Run::Lanes(LaneLoop::plain(|regs, args, mask| {
                combine(regs, args, mask, |$a: $rust, $b: $rust| $e, |new, old| new & old);
            })),
        );
        $table.add(
            format!("setp.{compare}.or.{name}"),
            &combined,
            Run::Lanes(LaneLoop::plain(|regs, args, mask| {
                combine(regs, args, mask, |$a: $rust, $b: $rust| $e, |new, old| new | old);
            })),
        );
        $table.add(
            format!("setp.{compare}.xor.{name}"),
            &combined,
            Run::Lanes(LaneLoop::plain(|regs, args, mask| {
                combine(regs, args, mask, |$a: $rust, $b: $rust| $e, |new, old| new ^ old);
            })),
        );
    }};
}

#[inline(always)]
fn combine<T: Lane>(
    regs: &mut Regs,
    args: &Args,
    mask: u32,
    test: impl Fn(T, T) -> bool,
    merge: impl Fn(u32, u32) -> u32,
) {
    let other = regs.pred(args.r[3]) ^ if args.negated { FULL } else { 0 };
    regs.compare(args, mask, test);
    let merged = merge(regs.pred(args.r[0]), other);
    regs.set_pred(args.r[0], mask, merged);
}

fn integer_compares(table: &mut Table) {
    macro_rules! compare {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            setp!(table, COMPARE_INT[0], $name, $ty: $rust, |a, b| a == b);
            setp!(table, COMPARE_INT[1], $name, $ty: $rust, |a, b| a != b);
            setp!(table, COMPARE_INT[2], $name, $ty: $rust, |a, b| a < b);
            setp!(table, COMPARE_INT[3], $name, $ty: $rust, |a, b| a <= b);
            setp!(table, COMPARE_INT[4], $name, $ty: $rust, |a, b| a > b);
            setp!(table, COMPARE_INT[5], $name, $ty: $rust, |a, b| a >= b);
        )*};
    }
    compare! {
        "s16", S16: i16; "u16", U16: u16; "s32", S32: i32; "u32", U32: u32; "s64", S64: i64; "u64", U64: u64;
    }
    macro_rules! equality {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            setp!(table, "eq", $name, $ty: $rust, |a, b| a == b);
            setp!(table, "ne", $name, $ty: $rust, |a, b| a != b);
        )*};
    }
    equality! { "b16", B16: u16; "b32", B32: u32; "b64", B64: u64; }
    macro_rules! unsigned_names {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            setp!(table, "lo", $name, $ty: $rust, |a, b| a < b);
            setp!(table, "ls", $name, $ty: $rust, |a, b| a <= b);
            setp!(table, "hi", $name, $ty: $rust, |a, b| a > b);
            setp!(table, "hs", $name, $ty: $rust, |a, b| a >= b);
        )*};
    }
    unsigned_names! { "u16", U16: u16; "u32", U32: u32; "u64", U64: u64; }
}

/// The plain comparisons are false for NaN, those that end in `u` true.
fn float_compares(table: &mut Table) {
    macro_rules! compare {
        ($($name:literal, $ty:ident: $rust:ty, |$x:ident| $prepare:expr;)*) => {$(
            compare!(@one $name, $ty: $rust, |$x| $prepare, "eq", |a, b| a == b);
            compare!(@one $name, $ty: $rust, |$x| $prepare, "ne", |a, b| a < b || a > b);
            compare!(@one $name, $ty: $rust, |$x| $prepare, "lt", |a, b| a < b);
            compare!(@one $name, $ty: $rust, |$x| $prepare, "le", |a, b| a <= b);
            compare!(@one $name, $ty: $rust, |$x| $prepare, "gt", |a, b| a > b);
            compare!(@one $name, $ty: $rust, |$x| $prepare, "ge", |a, b| a >= b);
            compare!(@one $name, $ty: $rust, |$x| $prepare, "equ", |a, b| !(a < b || a > b));
            compare!(@one $name, $ty: $rust, |$x| $prepare, "neu", |a, b| a != b);
            compare!(@one $name, $ty: $rust, |$x| $prepare, "ltu", |a, b| !(a >= b));
            compare!(@one $name, $ty: $rust, |$x| $prepare, "leu", |a, b| !(a > b));
            compare!(@one $name, $ty: $rust, |$x| $prepare, "gtu", |a, b| !(a <= b));
            compare!(@one $name, $ty: $rust, |$x| $prepare, "geu", |a, b| !(a < b));
            compare!(@one $name, $ty: $rust, |$x| $prepare, "num", |a, b| !(a.is_nan() || b.is_nan()));
            compare!(@one $name, $ty: $rust, |$x| $prepare, "nan", |a, b| a.is_nan() || b.is_nan());
        )*};
        (@one $name:literal, $ty:ident: $rust:ty, |$x:ident| $prepare:expr, $compare:literal,
         |$a:ident, $b:ident| $e:expr) => {
            setp!(table, $compare, $name, $ty: $rust, |a, b| {
                let prepare = |$x: $rust| -> $rust { $prepare };
                let ($a, $b) = (prepare(a), prepare(b));
                $e
            });
        };
    }
    compare! {
        "f32", F32: f32, |x| x;
        "ftz.f32", F32: f32, |x| super::float::flush(x);
        "f64", F64: f64, |x| x;
    }
}

fn selects(table: &mut Table) {
    macro_rules! select {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            table.add(
                concat!("selp.", $name),
                &[Slot::Dst(Ty::$ty), Slot::Src(Ty::$ty), Slot::Src(Ty::$ty), Slot::Src(Ty::Pred)],
                Run::Lanes(lane_loop!(|regs, args, mask| regs.select::<$rust>(args, mask))),
            );
        )*};
    }
    select! {
        "b16", B16: u16; "u16", U16: u16; "s16", S16: u16;
        "b32", B32: u32; "u32", U32: u32; "s32", S32: u32; "f32", F32: u32;
        "b64", B64: u64; "u64", U64: u64; "s64", S64: u64; "f64", F64: u64;
    }
}

fn logic(table: &mut Table) {
    let two = [Slot::Dst(Ty::Pred), Slot::Src(Ty::Pred), Slot::Src(Ty::Pred)];
    macro_rules! logic {
        ($($name:literal, |$a:ident, $b:ident| $e:expr;)*) => {$(
            table.add($name, &two, Run::Lanes(lane_loop!(|regs, args, mask| {
                let ($a, $b) = (regs.pred(args.r[1]), regs.pred(args.r[2]));
                regs.set_pred(args.r[0], mask, $e);
            })));
        )*};
    }
    logic! { "and.pred", |a, b| a & b; "or.pred", |a, b| a | b; "xor.pred", |a, b| a ^ b; }
    let one = [Slot::Dst(Ty::Pred), Slot::Src(Ty::Pred)];
    table.add(
        "not.pred",
        &one,
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.set_pred(args.r[0], mask, !regs.pred(args.r[1]));
        })),
    );
    table.add(
        "mov.pred",
        &one,
        Run::Lanes(lane_loop!(|regs, args, mask| regs.set_pred(args.r[0], mask, regs.pred(args.r[1])))),
    );
}
