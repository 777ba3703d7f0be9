//! `cvt` and arithmetic on half-precision numbers.
#![allow(clippy::cast_lossless, reason = "one conversion for all pairs of types, some of which lose bits")]

use super::{Run, Slot, Table, same};
use crate::half::{from_bf16, from_e4m3, from_e5m2, from_f16, to_bf16, to_e4m3_saturating, to_e5m2_saturating, to_f16};
use crate::program::Args;
use crate::regs::{LANES, Regs};
use crate::ty::Ty;
use crate::vector::{LaneLoop, lane_loop};

pub(super) fn register(table: &mut Table) {
    between_integers(table);
    saturating(table);
    integer_to_float(table);
    float_to_integer(table);
    between_floats(table);
    halves(table);
    half_arithmetic(table);
    half_signs(table);
}

/// Applies `f` to values that may live in either file on either side.
#[inline(always)]
fn convert(regs: &mut Regs, args: &Args, mask: u32, f: impl Fn(u64) -> u64) {
    let mut values = [0; LANES];
    if args.is_wide(1) {
        values = regs.get::<u64>(args.r[1]);
    } else {
        let narrow = regs.get::<u32>(args.r[1]);
        for lane in 0..LANES {
            values[lane] = u64::from(narrow[lane]);
        }
    }
    for value in &mut values {
        *value = f(*value);
    }
    if args.is_wide(0) {
        regs.set::<u64>(args.r[0], mask, &values);
    } else {
        let mut narrow = [0; LANES];
        for lane in 0..LANES {
            narrow[lane] = values[lane] as u32;
        }
        regs.set::<u32>(args.r[0], mask, &narrow);
    }
}

/// Calls `$each!` with name, table type and Rust type of every integer type.
macro_rules! for_integers {
    ($each:ident) => {
        $each! {
            "u8", U8: u8; "s8", S8: i8; "u16", U16: u16; "s16", S16: i16;
            "u32", U32: u32; "s32", S32: i32; "u64", U64: u64; "s64", S64: i64;
        }
    };
}

/// The source is read in its type, brought to the target's, and extended to the register by the target's sign.
fn between_integers(table: &mut Table) {
    macro_rules! pair {
        ($from:literal, $from_ty:ident: $source:ty => $($to:literal, $to_ty:ident: $target:ty, $extend:ty;)*) => {$(
            table.add(
                concat!("cvt.", $to, ".", $from),
                &[Slot::DstRelaxed(Ty::$to_ty), Slot::SrcRelaxed(Ty::$from_ty)],
                Run::Lanes(lane_loop!(|regs, args, mask| {
                    convert(regs, args, mask, |a| a as $source as $target as $extend as u64);
                })),
            );
        )*};
    }
    macro_rules! each_source {
        ($($from:literal, $from_ty:ident: $source:ty;)*) => {$(
            pair! {
                $from, $from_ty: $source =>
                "u8", U8: u8, u64; "s8", S8: i8, i64; "u16", U16: u16, u64; "s16", S16: i16, i64;
                "u32", U32: u32, u64; "s32", S32: i32, i64; "u64", U64: u64, u64; "s64", S64: i64, i64;
            }
        )*};
    }
    for_integers!(each_source);
}

/// `cvt.sat` between 32-bit integers and narrower ones.
fn saturating(table: &mut Table) {
    macro_rules! saturate {
        ($($name:literal, $from:ident: $source:ty => $to:ident: $target:ty;)*) => {$(
            table.add(
                concat!("cvt.sat.", $name),
                &[Slot::DstRelaxed(Ty::$to), Slot::SrcRelaxed(Ty::$from)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| convert(regs, args, mask, |a| {
                    let value = i64::from(a as $source);
                    value.clamp(i64::from(<$target>::MIN), i64::from(<$target>::MAX)) as u64
                }))),
            );
        )*};
    }
    saturate! {
        "s8.s32", S32: i32 => S8: i8; "u8.s32", S32: i32 => U8: u8; "u8.u32", U32: u32 => U8: u8;
        "s16.s32", S32: i32 => S16: i16; "u16.s32", S32: i32 => U16: u16; "u16.u32", U32: u32 => U16: u16;
        "s8.u32", U32: u32 => S8: i8; "s32.u32", U32: u32 => S32: i32; "u32.s32", S32: i32 => U32: u32;
    }
}

fn integer_to_float(table: &mut Table) {
    macro_rules! each {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            table.add(
                concat!("cvt.rn.f32.", $name),
                &[Slot::Dst(Ty::F32), Slot::SrcRelaxed(Ty::$ty)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| {
                    convert(regs, args, mask, |a| u64::from((a as $rust as f32).to_bits()));
                })),
            );
            table.add(
                concat!("cvt.rn.f64.", $name),
                &[Slot::Dst(Ty::F64), Slot::SrcRelaxed(Ty::$ty)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| {
                    convert(regs, args, mask, |a| (a as $rust as f64).to_bits());
                })),
            );
        )*};
    }
    for_integers!(each);
}

/// Out of range gives the nearest integer in range, NaN gives zero.
fn float_to_integer(table: &mut Table) {
    macro_rules! each {
        ($($name:literal, $ty:ident: $rust:ty;)*) => {$(
            each!(@rounding $name, $ty: $rust, "rni", |x| x.round_ties_even());
            each!(@rounding $name, $ty: $rust, "rzi", |x| x.trunc());
            each!(@rounding $name, $ty: $rust, "rmi", |x| x.floor());
            each!(@rounding $name, $ty: $rust, "rpi", |x| x.ceil());
        )*};
        (@rounding $name:literal, $ty:ident: $rust:ty, $rounding:literal, |$x:ident| $round:expr) => {
            for flush in ["", ".ftz"] {
                table.add(
                    format!("cvt.{}{flush}.{}.f32", $rounding, $name),
                    &[Slot::DstRelaxed(Ty::$ty), Slot::Src(Ty::F32)],
                    Run::Lanes(LaneLoop::plain(|regs, args, mask| convert(regs, args, mask, |a| {
                        let $x = f32::from_bits(a as u32);
                        ($round) as $rust as i64 as u64
                    }))),
                );
            }
            table.add(
                concat!("cvt.", $rounding, ".", $name, ".f64"),
                &[Slot::DstRelaxed(Ty::$ty), Slot::Src(Ty::F64)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| convert(regs, args, mask, |a| {
                    let $x = f64::from_bits(a);
                    ($round) as $rust as i64 as u64
                }))),
            );
        };
    }
    for_integers!(each);
}

fn between_floats(table: &mut Table) {
    same!(table, "cvt.rni.f32.f32", F32: f32, |a| a.round_ties_even());
    same!(table, "cvt.rzi.f32.f32", F32: f32, |a| a.trunc());
    same!(table, "cvt.rmi.f32.f32", F32: f32, |a| a.floor());
    same!(table, "cvt.rpi.f32.f32", F32: f32, |a| a.ceil());
    // Saturation clamps to [0, 1] and turns NaN into 0.
    same!(table, "cvt.sat.f32.f32", F32: f32, |a| if a.is_nan() { 0.0 } else { a.clamp(0.0, 1.0) });
    table.add(
        "cvt.f64.f32",
        &[Slot::Dst(Ty::F64), Slot::Src(Ty::F32)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map1(args, mask, |a: f32| f64::from(a));
        })),
    );
    table.add(
        "cvt.rn.f32.f64",
        &[Slot::Dst(Ty::F32), Slot::Src(Ty::F64)],
        Run::Lanes(lane_loop!(|regs, args, mask| {
            regs.map1(args, mask, |a: f64| a as f32);
        })),
    );
}

#[inline(always)]
fn pair(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

fn halves(table: &mut Table) {
    macro_rules! narrow {
        ($($name:literal, $ty:ident, |$a:ident| $e:expr;)*) => {$(
            table.add($name, &[Slot::Dst(Ty::$ty), Slot::Src(Ty::F32)], Run::Lanes(lane_loop!(|regs, args, mask| {
                regs.map1(args, mask, |$a: f32| -> u16 { $e });
            })));
        )*};
    }
    narrow! {
        "cvt.rn.bf16.f32", Bf16, |a| to_bf16(a);
        "cvt.rn.relu.bf16.f32", Bf16, |a| to_bf16(a.max(0.0));
        "cvt.rn.f16.f32", F16, |a| to_f16(a);
    }
    // The first operand goes to the upper half.
    macro_rules! narrow_pair {
        ($($name:literal, $ty:ident, |$high:ident, $low:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::$ty), Slot::Src(Ty::F32), Slot::Src(Ty::F32)],
                Run::Lanes(lane_loop!(|regs, args, mask| regs.map2(args, mask, |$high: f32, $low: f32| -> u32 { $e }))),
            );
        )*};
    }
    narrow_pair! {
        "cvt.rn.bf16x2.f32", Bf16x2, |high, low| pair(to_bf16(high), to_bf16(low));
        "cvt.rn.f16x2.f32", F16x2, |high, low| pair(to_f16(high), to_f16(low));
        "cvt.rn.satfinite.e4m3x2.f32", B16, |high, low| {
            u32::from(to_e4m3_saturating(high)) << 8 | u32::from(to_e4m3_saturating(low))
        };
        "cvt.rn.satfinite.e5m2x2.f32", B16, |high, low| {
            u32::from(to_e5m2_saturating(high)) << 8 | u32::from(to_e5m2_saturating(low))
        };
    }
    macro_rules! widen {
        ($($name:literal, $from:ident => $to:ident: $rust:ty, |$a:ident| $e:expr;)*) => {$(
            table.add($name, &[Slot::Dst(Ty::$to), Slot::Src(Ty::$from)], Run::Lanes(lane_loop!(|regs, args, mask| {
                regs.map1(args, mask, |$a: u16| -> $rust { $e });
            })));
        )*};
    }
    widen! {
        "cvt.f32.bf16", Bf16 => F32: f32, |a| from_bf16(a);
        "cvt.f32.f16", F16 => F32: f32, |a| from_f16(a);
        "cvt.rn.f16x2.e4m3x2", B16 => F16x2: u32, |a| {
            let [low, high] = a.to_le_bytes();
            pair(to_f16(from_e4m3(high)), to_f16(from_e4m3(low)))
        };
        "cvt.rn.f16x2.e5m2x2", B16 => F16x2: u32, |a| {
            let [low, high] = a.to_le_bytes();
            pair(to_f16(from_e5m2(high)), to_f16(from_e5m2(low)))
        };
    }
}

/// Each operation is exact in `f32` before its one rounding, or, for `fma`, nearly always.
fn half_arithmetic(table: &mut Table) {
    macro_rules! arithmetic {
        ($($suffix:literal, $single:ident, $double:ident, $from:ident, $to:ident;)*) => {$(
            arithmetic!(@two concat!("add.", $suffix), $single, $double, $from, $to, |a, b| a + b);
            arithmetic!(@two concat!("sub.", $suffix), $single, $double, $from, $to, |a, b| a - b);
            arithmetic!(@two concat!("mul.", $suffix), $single, $double, $from, $to, |a, b| a * b);
            arithmetic!(@two concat!("add.rn.", $suffix), $single, $double, $from, $to, |a, b| a + b);
            arithmetic!(@two concat!("sub.rn.", $suffix), $single, $double, $from, $to, |a, b| a - b);
            arithmetic!(@two concat!("mul.rn.", $suffix), $single, $double, $from, $to, |a, b| a * b);
            arithmetic!(@two concat!("max.", $suffix), $single, $double, $from, $to, |a, b| a.max(b));
            arithmetic!(@two concat!("min.", $suffix), $single, $double, $from, $to, |a, b| a.min(b));
            table.add(
                concat!("fma.rn.", $suffix),
                &[Slot::Dst(Ty::$single), Slot::Src(Ty::$single), Slot::Src(Ty::$single), Slot::Src(Ty::$single)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| regs.map3(args, mask, |a: u16, b: u16, c: u16| -> u16 {
                    half_fma([a, b, c], $from, $to)
                }))),
            );
            table.add(
                concat!("fma.rn.", $suffix, "x2"),
                &[Slot::Dst(Ty::$double), Slot::Src(Ty::$double), Slot::Src(Ty::$double), Slot::Src(Ty::$double)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| regs.map3(args, mask, |a: u32, b: u32, c: u32| -> u32 {
                    let low = half_fma([a as u16, b as u16, c as u16], $from, $to);
                    let high = half_fma([(a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16], $from, $to);
                    pair(high, low)
                }))),
            );
        )*};
        (@two $name:expr, $single:ident, $double:ident, $from:ident, $to:ident, |$a:ident, $b:ident| $e:expr) => {
            table.add(
                $name,
                &[Slot::Dst(Ty::$single), Slot::Src(Ty::$single), Slot::Src(Ty::$single)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| regs.map2(args, mask, |a: u16, b: u16| -> u16 {
                    let ($a, $b) = ($from(a), $from(b));
                    $to($e)
                }))),
            );
            table.add(
                concat_x2($name),
                &[Slot::Dst(Ty::$double), Slot::Src(Ty::$double), Slot::Src(Ty::$double)],
                Run::Lanes(LaneLoop::plain(|regs, args, mask| regs.map2(args, mask, |a: u32, b: u32| -> u32 {
                    let one = |$a: f32, $b: f32| $to($e);
                    let low = one($from(a as u16), $from(b as u16));
                    pair(one($from((a >> 16) as u16), $from((b >> 16) as u16)), low)
                }))),
            );
        };
    }
    arithmetic! {
        "f16", F16, F16x2, from_f16, to_f16;
        "bf16", Bf16, Bf16x2, from_bf16, to_bf16;
    }
}

/// Sign changes, which no format of 16 bits tells from those of the others.
fn half_signs(table: &mut Table) {
    same!(table, "neg.f16", F16: u16, |a| a ^ 0x8000);
    same!(table, "neg.bf16", Bf16: u16, |a| a ^ 0x8000);
    same!(table, "neg.f16x2", F16x2: u32, |a| a ^ 0x8000_8000);
    same!(table, "neg.bf16x2", Bf16x2: u32, |a| a ^ 0x8000_8000);
    same!(table, "abs.f16", F16: u16, |a| a & 0x7fff);
    same!(table, "abs.bf16", Bf16: u16, |a| a & 0x7fff);
    same!(table, "abs.f16x2", F16x2: u32, |a| a & 0x7fff_7fff);
    same!(table, "abs.bf16x2", Bf16x2: u32, |a| a & 0x7fff_7fff);
}

fn concat_x2(name: &str) -> String {
    format!("{name}x2")
}

/// The product is exact in `f64`, and so is the sum unless the exponents lie more than 30 apart.
#[inline(always)]
fn half_fma(values: [u16; 3], from: impl Fn(u16) -> f32, to: impl Fn(f32) -> u16) -> u16 {
    let [a, b, c] = values.map(|bits| f64::from(from(bits)));
    to((a * b + c) as f32)
}
