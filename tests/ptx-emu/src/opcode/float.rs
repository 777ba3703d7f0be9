//! Floating-point arithmetic.

use std::f32::consts::LN_2;

use super::{Table, same};

pub(super) fn register(table: &mut Table) {
    single(table);
    fused(table);
    approximate(table);
    double(table);
}

/// Replaces subnormal numbers by zero of the same sign, as `.ftz` does to inputs and results.
#[inline(always)]
pub(super) fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0_f32.copysign(x) } else { x }
}

/// `max` as PTX has it: the other operand for a NaN, and +0 above -0.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || b > a || (a == b && a.is_sign_negative()) { b } else { a }
}

#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if a.is_nan() || b < a || (a == b && b.is_sign_negative()) { b } else { a }
}

fn single(table: &mut Table) {
    macro_rules! arithmetic {
        ($($name:literal, |$a:ident, $b:ident| $e:expr;)*) => {$(
            same!(table, concat!($name, ".f32"), F32: f32, |$a, $b| $e);
            same!(table, concat!($name, ".ftz.f32"), F32: f32, |x, y| {
                let ($a, $b) = (flush(x), flush(y));
                flush($e)
            });
        )*};
    }
    arithmetic! {
        "add", |a, b| a + b;
        "add.rn", |a, b| a + b;
        "sub", |a, b| a - b;
        "sub.rn", |a, b| a - b;
        "mul", |a, b| a * b;
        "mul.rn", |a, b| a * b;
        "min", |a, b| smaller(a, b);
        "max", |a, b| larger(a, b);
        "div.rn", |a, b| a / b;
        "div.full", |a, b| a / b;
        "div.approx", |a, b| a / b;
    }
    same!(table, "max.f32", F32: f32, |a, b, c| larger(larger(a, b), c));
    same!(table, "min.f32", F32: f32, |a, b, c| smaller(smaller(a, b), c));
    // The sign comes from the first operand.
    same!(table, "copysign.f32", F32: f32, |sign, a| a.copysign(sign));
    macro_rules! unary {
        ($($name:literal, |$a:ident| $e:expr;)*) => {$(
            same!(table, concat!($name, ".f32"), F32: f32, |$a| $e);
            same!(table, concat!($name, ".ftz.f32"), F32: f32, |x| {
                let $a = flush(x);
                flush($e)
            });
        )*};
    }
    unary! {
        "neg", |a| -a;
        "abs", |a| a.abs();
        "rcp.rn", |a| 1.0 / a;
        "rcp.approx", |a| 1.0 / a;
        "sqrt.rn", |a| a.sqrt();
        "sqrt.approx", |a| a.sqrt();
        "rsqrt.approx", |a| (1.0 / f64::from(a).sqrt()) as f32;
    }
}

fn fused(table: &mut Table) {
    for name in ["fma.rn.f32", "mad.rn.f32"] {
        same!(table, name, F32: f32, |a, b, c| a.mul_add(b, c));
    }
    same!(table, "fma.rn.ftz.f32", F32: f32, |a, b, c| flush(flush(a).mul_add(flush(b), flush(c))));
    same!(table, "fma.rm.f32", F32: f32, |a, b, c| fma_down(a, b, c));
}

/// `a * b + c`, rounded towards minus infinity.
fn fma_down(a: f32, b: f32, c: f32) -> f32 {
    // The product is exact in f64; Knuth's two-sum gives what the sum loses.
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    let near = sum as f32;
    let above = (sum - f64::from(near)) + lost < 0.0;
    if above && near.is_finite() { near.next_down() } else { near }
}

/// Functions that hardware approximates. Results here are within its error bounds, not equal to its bits.
fn approximate(table: &mut Table) {
    macro_rules! function {
        ($($name:literal, |$a:ident| $e:expr;)*) => {$(
            same!(table, concat!($name, ".approx.f32"), F32: f32, |$a| $e);
            same!(table, concat!($name, ".approx.ftz.f32"), F32: f32, |x| {
                let $a = flush(x);
                flush($e)
            });
        )*};
    }
    function! {
        "lg2", |a| a.log2();
        "sin", |a| a.sin();
        "cos", |a| a.cos();
    }
    same!(table, "tanh.approx.f32", F32: f32, |a| a.tanh());
    same!(table, "ex2.approx.ftz.f32", F32: f32, |a| exp2_flushed(a));
    same!(table, "ex2.approx.f32", F32: f32, |a| if a < -126.0 { a.exp2() } else { exp2_flushed(a) });
}

/// 2 to the power of `x`; results below the normal range are zero.
///
/// Written so that a loop over lanes becomes vector code: the integer part goes into the exponent, the rest through the
/// Taylor series of 2^r, whose error on [-1/2, 1/2] is below one unit in the last place.
#[inline(always)]
fn exp2_flushed(x: f32) -> f32 {
    /// Adding and subtracting this rounds to an integer, which is then also in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let bounded = if x > 128.0 { 128.0 } else { x };
    let bounded = if bounded < -127.0 { -127.0 } else { bounded };
    let shifted = bounded + ROUND;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let r = bounded - (shifted - ROUND);
    let mut series = 0.000_015_252_733;
    for coefficient in [0.000_154_035_3, 0.001_333_355_8, 0.009_618_129, 0.055_504_11, 0.240_226_5, LN_2, 1.0] {
        series = series * r + coefficient;
    }
    // Two factors, because 2^128 has no f32.
    let half = exponent >> 1;
    let power_of_two = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
    let power = series * power_of_two(half) * power_of_two(exponent - half);
    if x.is_nan() {
        x
    } else if x < -126.0 {
        0.0
    } else {
        power
    }
}

fn double(table: &mut Table) {
    for name in ["add.f64", "add.rn.f64"] {
        same!(table, name, F64: f64, |a, b| a + b);
    }
    for name in ["sub.f64", "sub.rn.f64"] {
        same!(table, name, F64: f64, |a, b| a - b);
    }
    for name in ["mul.f64", "mul.rn.f64"] {
        same!(table, name, F64: f64, |a, b| a * b);
    }
    same!(table, "div.rn.f64", F64: f64, |a, b| a / b);
    same!(table, "fma.rn.f64", F64: f64, |a, b, c| a.mul_add(b, c));
    same!(table, "min.f64", F64: f64, |a, b| a.min(b));
    same!(table, "max.f64", F64: f64, |a, b| a.max(b));
    same!(table, "neg.f64", F64: f64, |a| -a);
    same!(table, "abs.f64", F64: f64, |a| a.abs());
    same!(table, "sqrt.rn.f64", F64: f64, |a| a.sqrt());
    same!(table, "rcp.rn.f64", F64: f64, |a| 1.0 / a);
}
