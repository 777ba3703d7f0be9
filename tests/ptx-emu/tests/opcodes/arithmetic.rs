//! One register instruction at a time, with results worked out by hand from the PTX manual.

use crate::support::single::{INF, NAN, SUB, cases, f, g, n, n16, n64, run};

#[test]
fn integer_arithmetic() {
    cases! {
        "add.s32" "rrr": [5, n(-7)] => n(-2), [n(i32::MAX), 1] => n(i32::MIN);
        "add.u32" "rrr": [n(-1), 2] => 1;
        "add.s64" "ddd": [n64(-1), 1] => 0, [1 << 40, 5] => (1 << 40) + 5;
        "add.u64" "ddd": [n64(-1), 2] => 1;
        "add.s16" "hhh": [n16(i16::MAX), 1] => n16(i16::MIN);
        "add.u16" "hhh": [0xffff, 2] => 1;
        "sub.s32" "rrr": [3, 5] => n(-2);
        "sub.u32" "rrr": [3, 5] => n(-2);
        "sub.s64" "ddd": [3, 5] => n64(-2);
        "sub.u64" "ddd": [0, 1] => n64(-1);
        "sub.s16" "hhh": [3, 5] => n16(-2);
        "sub.u16" "hhh": [0, 1] => 0xffff;
        "mul.lo.s32" "rrr": [n(-3), 7] => n(-21), [0x10000, 0x10001] => 0x10000;
        "mul.lo.u32" "rrr": [0x10000, 0x10001] => 0x10000;
        "mul.lo.s64" "ddd": [n64(-3), 1 << 33] => n64(-3 << 33);
        "mul.lo.u64" "ddd": [3, 1 << 63] => 1 << 63;
        "mul.lo.s16" "hhh": [n16(-3), 7] => n16(-21);
        "mul.lo.u16" "hhh": [0x100, 0x101] => 0x100;
        "mul.hi.u32" "rrr": [0x8000_0000, 6] => 3;
        "mul.hi.s32" "rrr": [n(-1), 2] => n(-1), [n(i32::MIN), n(i32::MIN)] => 0x4000_0000;
        "mul.hi.u64" "ddd": [1 << 63, 6] => 3;
        "mul.hi.s64" "ddd": [n64(-1), 2] => n64(-1);
        "mul.hi.s16" "hhh": [n16(-1), 2] => n16(-1);
        "mul.hi.u16" "hhh": [0x8000, 6] => 3;
        "mul.wide.s32" "drr": [n(-3), 5] => n64(-15), [n(i32::MIN), 2] => n64(-(1 << 32));
        "mul.wide.u32" "drr": [n(-1), n(-1)] => 0xffff_fffe_0000_0001;
        "mul.wide.s16" "rhh": [n16(-3), 5] => n(-15);
        "mul.wide.u16" "rhh": [0xffff, 0xffff] => 0xfffe_0001;
        "mad.lo.s32" "rrrr": [n(-3), 5, 20] => 5;
        "mad.lo.u32" "rrrr": [0x10000, 0x10000, 9] => 9;
        "mad.lo.s64" "dddd": [n64(-3), 5, 20] => 5;
        "mad.lo.u64" "dddd": [3, 5, 20] => 35;
        "mad.lo.s16" "hhhh": [n16(-3), 5, 20] => 5;
        "mad.lo.u16" "hhhh": [0x100, 0x100, 9] => 9;
        "mad.hi.u32" "rrrr": [0x8000_0000, 6, 10] => 13;
        "mad.hi.s32" "rrrr": [n(-1), 2, 10] => 9;
        "mad.hi.s64" "dddd": [n64(-1), 2, 10] => 9;
        "mad.hi.u64" "dddd": [1 << 63, 6, 10] => 13;
        "mad.hi.s16" "hhhh": [n16(-1), 2, 10] => 9;
        "mad.hi.u16" "hhhh": [0x8000, 6, 10] => 13;
        "mad.wide.s32" "drrd": [n(-3), 5, 20] => 5;
        "mad.wide.u32" "drrd": [n(-1), 2, 1] => 0x1_ffff_ffff;
        "mad.wide.s16" "rhhr": [n16(-3), 5, 20] => 5;
        "mad.wide.u16" "rhhr": [0xffff, 2, 1] => 0x1_ffff;
        "min.s32" "rrr": [n(-3), 2] => n(-3);
        "min.u32" "rrr": [n(-3), 2] => 2;
        "min.s64" "ddd": [n64(-3), 2] => n64(-3);
        "min.u64" "ddd": [n64(-3), 2] => 2;
        "min.s16" "hhh": [n16(-3), 2] => n16(-3);
        "min.u16" "hhh": [n16(-3), 2] => 2;
        "max.s32" "rrr": [n(-3), 2] => 2;
        "max.u32" "rrr": [n(-3), 2] => n(-3);
        "max.s64" "ddd": [n64(-3), 2] => 2;
        "max.u64" "ddd": [n64(-3), 2] => n64(-3);
        "max.s16" "hhh": [n16(-3), 2] => 2;
        "max.u16" "hhh": [n16(-3), 2] => n16(-3);
        "neg.s32" "rr": [5] => n(-5), [n(i32::MIN)] => n(i32::MIN);
        "neg.s64" "dd": [5] => n64(-5);
        "neg.s16" "hh": [5] => n16(-5);
        "abs.s32" "rr": [n(-5)] => 5;
        "abs.s64" "dd": [n64(-5)] => 5;
        "abs.s16" "hh": [n16(-5)] => 5;
        "div.s32" "rrr": [n(-7), 2] => n(-3), [7, n(-2)] => n(-3);
        "div.u32" "rrr": [n(-7), 2] => 0x7fff_fffc;
        "div.s64" "ddd": [n64(-7), 2] => n64(-3);
        "div.u64" "ddd": [n64(-7), 2] => 0x7fff_ffff_ffff_fffc;
        "div.s16" "hhh": [n16(-7), 2] => n16(-3);
        "div.u16" "hhh": [n16(-7), 2] => 0x7ffc;
        "rem.s32" "rrr": [n(-7), 2] => n(-1), [7, n(-4)] => 3;
        "rem.u32" "rrr": [n(-7), 10] => 9;
        "rem.s64" "ddd": [n64(-7), 2] => n64(-1);
        "rem.u64" "ddd": [23, 10] => 3;
        "rem.s16" "hhh": [n16(-7), 2] => n16(-1);
        "rem.u16" "hhh": [23, 10] => 3;
        "dp4a.s32.s32" "rrrr": [0x01ff_0203, 0x0101_0102, 10] => 18;
        "dp4a.u32.u32" "rrrr": [0xff00_0000, 0x0200_0000, 1] => 511;
        "dp4a.s32.u32" "rrrr": [0xff00_0000, 0xff00_0000, 0] => n(-255);
        "dp4a.u32.s32" "rrrr": [0xff00_0000, 0xff00_0000, 0] => n(-255);
    }
}

#[test]
fn bits() {
    cases! {
        "and.b32" "rrr": [0b1100, 0b1010] => 0b1000;
        "or.b32" "rrr": [0b1100, 0b1010] => 0b1110;
        "xor.b32" "rrr": [0b1100, 0b1010] => 0b0110;
        "not.b32" "rr": [0b1100] => 0xffff_fff3;
        "and.b64" "ddd": [3 << 40, 1 << 40] => 1 << 40;
        "or.b64" "ddd": [1 << 41, 1 << 40] => 3 << 40;
        "xor.b64" "ddd": [3 << 40, 1 << 40] => 1 << 41;
        "not.b64" "dd": [0] => u64::MAX;
        "and.b16" "hhh": [0xff0, 0xf00] => 0xf00;
        "or.b16" "hhh": [0xf0, 0xf00] => 0xff0;
        "xor.b16" "hhh": [0xff0, 0xf00] => 0x0f0;
        "not.b16" "hh": [0xff0] => 0xf00f;
        "shl.b32" "rrr": [3, 4] => 48, [3, 32] => 0, [3, 31] => 0x8000_0000;
        "shl.b64" "ddr": [3, 40] => 3 << 40, [3, 64] => 0;
        "shl.b16" "hhr": [3, 15] => 0x8000, [3, 16] => 0;
        "shr.u32" "rrr": [0x8000_0000, 31] => 1, [0x8000_0000, 32] => 0;
        "shr.s32" "rrr": [n(-8), 2] => n(-2), [n(-8), 99] => n(-1);
        "shr.b32" "rrr": [0x8000_0000, 4] => 0x0800_0000;
        "shr.u64" "ddr": [1 << 63, 63] => 1, [1, 64] => 0;
        "shr.s64" "ddr": [n64(-8), 2] => n64(-2), [n64(-8), 64] => n64(-1);
        "shr.b64" "ddr": [1 << 63, 60] => 8;
        "shr.u16" "hhr": [0x8000, 15] => 1, [0x8000, 16] => 0;
        "shr.s16" "hhr": [n16(-8), 2] => n16(-2);
        "shr.b16" "hhr": [0x8000, 4] => 0x800;
        "shf.l.wrap.b32" "rrrr": [0x8000_0001, 0x0000_0010, 4] => 0x108, [7, 9, 32] => 9;
        "shf.l.clamp.b32" "rrrr": [0x8000_0001, 0x0000_0010, 4] => 0x108, [7, 9, 40] => 7;
        "shf.r.wrap.b32" "rrrr": [0x10, 0x0000_0003, 4] => 0x3000_0001, [7, 9, 33] => 0x8000_0003;
        "shf.r.clamp.b32" "rrrr": [0x10, 0x0000_0003, 4] => 0x3000_0001, [7, 9, 40] => 9;
        "popc.b32" "rr": [0xf0f0] => 8;
        "popc.b64" "rd": [0xf0f0_0000_0001] => 9;
        "clz.b32" "rr": [1] => 31, [0] => 32;
        "clz.b64" "rd": [1] => 63, [0] => 64;
        "brev.b32" "rr": [1] => 0x8000_0000;
        "brev.b64" "dd": [1] => 1 << 63;
        "bfind.u32" "rr": [0x1000] => 12, [0] => n(-1);
        "bfind.s32" "rr": [n(-5)] => 2, [4] => 2, [n(-1)] => n(-1);
        "bfind.u64" "rd": [1 << 40] => 40, [0] => n(-1);
        "bfind.s64" "rd": [n64(-5)] => 2, [1 << 40] => 40, [n64(-1)] => n(-1);
        "bfind.shiftamt.u32" "rr": [0x1000] => 19, [0] => n(-1);
        "bfind.shiftamt.s32" "rr": [n(-5)] => 29, [n(-1)] => n(-1);
        "bfind.shiftamt.u64" "rd": [1 << 40] => 23, [0] => n(-1);
        "bfind.shiftamt.s64" "rd": [n64(-5)] => 61, [0] => n(-1);
        "bfi.b32" "rrrrr": [0x5, 0xffff_ffff, 4, 8] => 0xffff_f05f, [0x5, 0xff, 32, 8] => 0xff, [0x5, 0xff, 0, 0] => 0xff, [9, 0, 28, 32] => 0x9000_0000;
        "bfi.b64" "dddrr": [0x5, u64::MAX, 40, 8] => 0xffff_05ff_ffff_ffff, [7, 1, 0, 64] => 7;
        "bfe.u32" "rrrr": [0xabcd_1234, 8, 12] => 0xd12, [0xabcd_1234, 28, 12] => 0xa, [0xab, 0, 0] => 0, [0xab, 40, 4] => 0;
        "bfe.s32" "rrrr": [0x0000_0f00, 8, 4] => n(-1), [0x0000_0700, 8, 4] => 7, [0x8000_0000, 40, 4] => n(-1), [0x8000_0000, 28, 12] => n(-8);
        "bfe.u64" "ddrr": [0xabcd << 40, 44, 8] => 0xbc;
        "bfe.s64" "ddrr": [0xf << 40, 40, 4] => n64(-1);
        "prmt.b32" "rrrr": [0x3322_1100, 0x7766_5544, 0x5140] => 0x5511_4400, [0x0000_0080, 0, 0x8888] => 0xffff_ffff, [0x7f, 0, 0x8888] => 0;
        "lop3.b32 $0, $1, $2, $3, 0xea;" "rrrr": [0b1100, 0b1010, 0b0001] => 0b1001;
        "lop3.b32 $0, $1, $2, $3, 0x96;" "rrrr": [0b1100, 0b1010, 0b1111] => 0b1001;
        "lop3.b32 $0, $1, $2, $3, 0xca;" "rrrr": [0xff00, 0x1234, 0xabcd] => 0x12cd;
    }
}

#[test]
fn moves_packs_and_addresses() {
    cases! {
        "mov.b16" "hh": [0x1234] => 0x1234;
        "mov.u16" "hh": [0x1234] => 0x1234;
        "mov.s16" "hh": [0x1234] => 0x1234;
        "mov.b32" "rr": [7] => 7;
        "mov.u32" "rr": [7] => 7;
        "mov.s32" "rr": [7] => 7;
        "mov.f32" "rr": [f(1.5)] => f(1.5);
        "mov.b64" "dd": [7 << 40] => 7 << 40;
        "mov.u64" "dd": [7 << 40] => 7 << 40;
        "mov.s64" "dd": [7 << 40] => 7 << 40;
        "mov.f64" "dd": [g(1.5)] => g(1.5);
        "mov.b32 $0, {$1, $2};" "rhh": [0x1234, 0xabcd] => 0xabcd_1234;
        "mov.b64 $0, {$1, $2};" "drr": [1, 2] => 0x2_0000_0001;
        "mov.b64 $0, {$1, $2, $3, $4};" "dhhhh": [1, 2, 3, 0xffff] => 0xffff_0003_0002_0001;
        "mov.b32 {%h1, $0}, $1;" "hr": [0xabcd_1234] => 0xabcd;
        "mov.b32 {$0, _}, $1;" "hr": [0xabcd_1234] => 0x1234;
        "mov.b64 {_, $0}, $1;" "rd": [0x2_0000_0001] => 2;
        "mov.b64 {%h1, %h2, $0, %h3}, $1;" "hd": [0xffff_0003_0002_0001] => 3;
        "cvta.to.global.u64" "dd": [0x7f00_0000_0000] => 0x7f00_0000_0000;
        "cvta.const.u64" "dd": [0x7f00_0000_0000] => 0x7f00_0000_0000;
        "cvta.to.const.u64" "dd": [0x7f00_0000_0000] => 0x7f00_0000_0000;
        "cvta.global.u64" "dd": [0x7f00_0000_0000] => 0x7f00_0000_0000;
        "cvta.shared.u64 %d2, $1; cvta.to.shared.u64 $0, %d2;" "dd": [0x1234] => 0x1234;
        "cvta.local.u64 %d2, $1; cvta.to.local.u64 $0, %d2;" "dd": [0x1234] => 0x1234;
        "cvta.shared.u64 %d2, $1; cvt.u32.u64 $0, %d2;" "rd": [0x1234] => 0x1234;
    }
}

#[test]
fn predicates() {
    cases! {
        "selp.b32" "rrrp": [1, 2, 1] => 1, [1, 2, 0] => 2;
        "selp.f32" "rrrp": [1, 2, 0] => 2;
        "selp.u32" "rrrp": [1, 2, 0] => 2;
        "selp.s32" "rrrp": [1, 2, 1] => 1;
        "selp.b16" "hhhp": [1, 2, 0] => 2;
        "selp.u16" "hhhp": [1, 2, 0] => 2;
        "selp.s16" "hhhp": [1, 2, 1] => 1;
        "selp.b64" "dddp": [1, 2, 0] => 2;
        "selp.u64" "dddp": [1, 2, 1] => 1;
        "selp.s64" "dddp": [1, 2, 1] => 1;
        "selp.f64" "dddp": [1, 2, 0] => 2;
        "and.pred" "ppp": [1, 1] => 1, [1, 0] => 0;
        "or.pred" "ppp": [0, 0] => 0, [1, 0] => 1;
        "xor.pred" "ppp": [1, 1] => 0, [1, 0] => 1;
        "not.pred" "pp": [1] => 0, [0] => 1;
        "mov.pred" "pp": [1] => 1, [0] => 0;
        "setp.lt.and.s32" "prrp": [1, 2, 1] => 1, [1, 2, 0] => 0, [2, 1, 1] => 0;
        "setp.lt.or.s32" "prrp": [1, 2, 0] => 1, [2, 1, 0] => 0, [2, 1, 1] => 1;
        "setp.lt.xor.s32" "prrp": [1, 2, 1] => 0, [2, 1, 1] => 1;
        "setp.lt.and.s32 $0, $1, $2, !$3;" "prrp": [1, 2, 0] => 1, [1, 2, 1] => 0;
        "setp.lt.and.s32 %p3, $1, $2, %p3; mov.pred $0, %p3;" "prrp": [1, 2, 1] => 1, [1, 2, 0] => 0;
    }
}

/// All comparisons of all types, against the same words in Rust.
#[test]
fn comparisons() {
    let integers = [0, 1, n64(-1), n64(i64::MIN), 0x7fff, 0x8000, 0x7fff_ffff, 0x8000_0000];
    let pairs: Vec<[u64; 2]> = integers.iter().flat_map(|&a| integers.map(|b| [a, b])).take(32).collect();
    let rows: Vec<&[u64]> = pairs.iter().map(<[u64; 2]>::as_slice).collect();
    let signed = |value: u64, bits: u32| (value << (64 - bits)) as i64 >> (64 - bits);
    let unsigned = |value: u64, bits: u32| value << (64 - bits) >> (64 - bits);
    for (file, bits) in [("phh", 16), ("prr", 32), ("pdd", 64)] {
        for (name, test) in [
            ("eq", (|order| order == 0) as fn(i32) -> bool),
            ("ne", |order| order != 0),
            ("lt", |order| order < 0),
            ("le", |order| order <= 0),
            ("gt", |order| order > 0),
            ("ge", |order| order >= 0),
        ] {
            for kind in ["s", "u", "b"] {
                if kind == "b" && !matches!(name, "eq" | "ne") {
                    continue;
                }
                let got = run(&format!("setp.{name}.{kind}{bits}"), file, &rows);
                for ([a, b], got) in pairs.iter().zip(got) {
                    let order = match kind {
                        "s" => signed(*a, bits).cmp(&signed(*b, bits)),
                        _ => unsigned(*a, bits).cmp(&unsigned(*b, bits)),
                    };
                    assert_eq!(got == 1, test(order as i32), "setp.{name}.{kind}{bits} {a:#x} {b:#x}");
                }
            }
        }
        for (alias, name) in [("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")] {
            let alias = run(&format!("setp.{alias}.u{bits}"), file, &rows);
            assert_eq!(alias, run(&format!("setp.{name}.u{bits}"), file, &rows));
        }
    }
}

#[test]
fn float_comparisons_know_nan() {
    // The result for less, equal, greater, unordered.
    let cases = [
        ("eq", [0, 1, 0, 0]),
        ("ne", [1, 0, 1, 0]),
        ("lt", [1, 0, 0, 0]),
        ("le", [1, 1, 0, 0]),
        ("gt", [0, 0, 1, 0]),
        ("ge", [0, 1, 1, 0]),
        ("equ", [0, 1, 0, 1]),
        ("neu", [1, 0, 1, 1]),
        ("ltu", [1, 0, 0, 1]),
        ("leu", [1, 1, 0, 1]),
        ("gtu", [0, 0, 1, 1]),
        ("geu", [0, 1, 1, 1]),
        ("num", [1, 1, 1, 0]),
        ("nan", [0, 0, 0, 1]),
    ];
    for (name, expected) in cases {
        let rows: [&[u64]; 4] = [&[f(1.0), f(2.0)], &[f(0.0), f(-0.0)], &[f(2.0), f(-3.0)], &[NAN, f(1.0)]];
        assert_eq!(run(&format!("setp.{name}.f32"), "prr", &rows), expected, "{name}");
        assert_eq!(run(&format!("setp.{name}.ftz.f32"), "prr", &rows), expected, "{name}");
        let rows: [&[u64]; 4] = [&[g(1.0), g(2.0)], &[g(0.0), g(-0.0)], &[g(2.0), g(-3.0)], &[g(f64::NAN), g(1.0)]];
        assert_eq!(run(&format!("setp.{name}.f64"), "pdd", &rows), expected, "{name}");
    }
    cases! {
        "setp.gt.f32" "prr": [SUB, 0] => 1;
        "setp.gt.ftz.f32" "prr": [SUB, 0] => 0;
    }
}

#[test]
fn single_precision() {
    cases! {
        "add.f32" "rrr": [f(1.5), f(2.25)] => f(3.75), [f(16_777_216.0), f(1.0)] => f(16_777_216.0), [SUB, SUB] => 2 * SUB;
        "add.rn.f32" "rrr": [f(1.5), f(2.25)] => f(3.75);
        "add.ftz.f32" "rrr": [SUB, f(0.0)] => 0, [f(1.0), f(1.0)] => f(2.0);
        "add.rn.ftz.f32" "rrr": [SUB, f(0.0)] => 0;
        "sub.rn.ftz.f32" "rrr": [0x0080_0000, 0x0080_0001] => 0x8000_0000;
        "mul.rn.ftz.f32" "rrr": [SUB, f(4.0)] => 0;
        "mad.rn.f32" "rrrr": [f(2.0), f(3.0), f(1.0)] => f(7.0);
        "div.rn.ftz.f32" "rrr": [SUB, f(3.0)] => 0, [f(1.0), f(3.0)] => 0x3eaa_aaab;
        "div.full.ftz.f32" "rrr": [SUB, f(3.0)] => 0, [f(6.0), f(3.0)] => f(2.0);
        "min.ftz.f32" "rrr": [SUB, f(1.0)] => 0;
        "rcp.rn.ftz.f32" "rr": [SUB] => f(INF), [f(3.0)] => 0x3eaa_aaab;
        "sqrt.rn.ftz.f32" "rr": [SUB] => 0, [f(2.0)] => 0x3fb5_04f3;
        "sin.approx.ftz.f32" "rr": [SUB] => 0;
        "cos.approx.ftz.f32" "rr": [SUB] => f(1.0);
        "sub.f32" "rrr": [f(1.5), f(2.25)] => f(-0.75);
        "sub.rn.f32" "rrr": [f(1.5), f(2.25)] => f(-0.75);
        "sub.ftz.f32" "rrr": [0x0080_0000, 0x0080_0001] => 0x8000_0000;
        "mul.f32" "rrr": [f(1.5), f(-2.0)] => f(-3.0);
        "mul.rn.f32" "rrr": [f(1.5), f(-2.0)] => f(-3.0);
        "mul.ftz.f32" "rrr": [SUB, f(4.0)] => 0;
        "fma.rn.f32" "rrrr": [f(1.0 + f32::EPSILON), f(1.0 - f32::EPSILON), f(-1.0)] => f(-(f32::EPSILON * f32::EPSILON)), [f(2.0), f(3.0), f(1.0)] => f(7.0);
        "fma.rn.ftz.f32" "rrrr": [f(2.0), f(3.0), SUB] => f(6.0);
        "fma.rm.f32" "rrrr": [f(1.0), f(1.0), f(-1e-20)] => 0x3f7f_ffff, [f(1.0), f(1.0), f(1e-20)] => f(1.0);
        "div.rn.f32" "rrr": [f(1.0), f(3.0)] => 0x3eaa_aaab, [f(1.0), f(0.0)] => f(INF);
        "div.full.f32" "rrr": [f(6.0), f(3.0)] => f(2.0);
        "div.approx.f32" "rrr": [f(6.0), f(3.0)] => f(2.0);
        "div.approx.ftz.f32" "rrr": [SUB, f(3.0)] => 0;
        "min.f32" "rrr": [f(1.0), f(-2.0)] => f(-2.0), [NAN, f(3.0)] => f(3.0), [f(3.0), NAN] => f(3.0), [f(0.0), f(-0.0)] => f(-0.0), [f(-0.0), f(0.0)] => f(-0.0);
        "max.f32" "rrr": [f(1.0), f(-2.0)] => f(1.0), [NAN, f(3.0)] => f(3.0), [f(3.0), NAN] => f(3.0), [f(-0.0), f(0.0)] => f(0.0), [f(0.0), f(-0.0)] => f(0.0);
        "max.f32" "rrrr": [f(1.0), f(-2.0), f(5.0)] => f(5.0);
        "min.f32" "rrrr": [f(1.0), f(-2.0), f(5.0)] => f(-2.0);
        "max.ftz.f32" "rrr": [SUB, f(-1.0)] => 0;
        "neg.f32" "rr": [f(1.5)] => f(-1.5), [f(0.0)] => f(-0.0);
        "neg.ftz.f32" "rr": [SUB] => f(-0.0);
        "abs.f32" "rr": [f(-1.5)] => f(1.5);
        "abs.ftz.f32" "rr": [SUB] => 0;
        "copysign.f32" "rrr": [f(-1.0), f(3.0)] => f(-3.0), [f(1.0), f(-3.0)] => f(3.0);
        "rcp.rn.f32" "rr": [f(4.0)] => f(0.25), [f(3.0)] => 0x3eaa_aaab, [f(-0.0)] => f(-INF);
        "rcp.approx.ftz.f32" "rr": [f(4.0)] => f(0.25), [SUB] => f(INF), [f(INF)] => 0;
        "rcp.approx.f32" "rr": [f(4.0)] => f(0.25);
        "sqrt.rn.f32" "rr": [f(2.0)] => 0x3fb5_04f3, [f(9.0)] => f(3.0);
        "sqrt.approx.f32" "rr": [f(9.0)] => f(3.0);
        "sqrt.approx.ftz.f32" "rr": [SUB] => 0;
        "rsqrt.approx.f32" "rr": [f(4.0)] => f(0.5), [f(0.0)] => f(INF);
        "rsqrt.approx.ftz.f32" "rr": [f(0.25)] => f(2.0);
        "lg2.approx.f32" "rr": [f(8.0)] => f(3.0), [f(0.0)] => f(-INF);
        "lg2.approx.ftz.f32" "rr": [f(0.125)] => f(-3.0);
        "sin.approx.f32" "rr": [f(0.0)] => 0;
        "cos.approx.f32" "rr": [f(0.0)] => f(1.0);
        "tanh.approx.f32" "rr": [f(0.0)] => 0, [f(100.0)] => f(1.0);
        "ex2.approx.ftz.f32" "rr": [f(0.0)] => f(1.0), [f(3.0)] => f(8.0), [f(-126.0)] => 0x0080_0000, [f(-126.5)] => 0, [f(127.0)] => f(1.701_411_8e38), [f(128.0)] => f(INF), [f(-INF)] => 0, [f(-1e30)] => 0;
        "ex2.approx.f32" "rr": [f(-127.0)] => SUB, [f(-3.0)] => f(0.125), [f(-1e30)] => 0;
    }
}

/// Two units in the last place is what the manual promises for `ex2.approx`.
#[test]
fn exponentials_are_accurate() {
    let inputs: Vec<[u64; 1]> = (0..1024).map(|i| [f(-126.0 + i as f32 * 0.2483)]).collect();
    for chunk in inputs.chunks(32) {
        let rows: Vec<&[u64]> = chunk.iter().map(<[u64; 1]>::as_slice).collect();
        for (row, got) in rows.iter().zip(run("ex2.approx.ftz.f32", "rr", &rows)) {
            let x = f32::from_bits(row[0] as u32);
            let exact = f64::from(x).exp2();
            let error = (f64::from(f32::from_bits(got as u32)) - exact).abs() / exact;
            assert!(x >= 128.0 || error < 2.0 / f64::from(1 << 23), "2^{x}: {error:e}");
        }
    }
    assert!(f32::from_bits(run("ex2.approx.ftz.f32", "rr", &[&[NAN]])[0] as u32).is_nan());
}

#[test]
fn double_precision() {
    cases! {
        "add.f64" "ddd": [g(1.5), g(2.25)] => g(3.75);
        "add.rn.f64" "ddd": [g(1.5), g(2.25)] => g(3.75);
        "sub.f64" "ddd": [g(1.5), g(2.25)] => g(-0.75);
        "sub.rn.f64" "ddd": [g(1.5), g(2.25)] => g(-0.75);
        "mul.f64" "ddd": [g(1.5), g(2.0)] => g(3.0);
        "mul.rn.f64" "ddd": [g(1.5), g(2.0)] => g(3.0);
        "div.rn.f64" "ddd": [g(3.0), g(2.0)] => g(1.5);
        "fma.rn.f64" "dddd": [g(3.0), g(2.0), g(1.0)] => g(7.0);
        "min.f64" "ddd": [g(3.0), g(2.0)] => g(2.0);
        "max.f64" "ddd": [g(3.0), g(2.0)] => g(3.0);
        "neg.f64" "dd": [g(3.0)] => g(-3.0);
        "abs.f64" "dd": [g(-3.0)] => g(3.0);
        "sqrt.rn.f64" "dd": [g(9.0)] => g(3.0);
        "rcp.rn.f64" "dd": [g(4.0)] => g(0.25);
    }
}

#[test]
fn conversions() {
    cases! {
        "cvt.s64.s32" "dr": [n(-5)] => n64(-5);
        "cvt.u64.u32" "dr": [n(-5)] => n(-5);
        "cvt.u32.u64" "rd": [0x5_0000_0007] => 7;
        "cvt.s32.s64" "rd": [n64(-5)] => n(-5);
        "cvt.u32.u16" "rh": [0xffff] => 0xffff;
        "cvt.s32.s16" "rh": [0xffff] => n(-1);
        "cvt.u16.u32" "hr": [0x1_2345] => 0x2345;
        "cvt.u32.u8" "rh": [0x1ff] => 0xff;
        "cvt.s32.s8" "rr": [0x1ff] => n(-1);
        "cvt.s16.s8" "hh": [0x80] => n16(-128);
        "cvt.u8.u32" "hr": [0x1ff] => 0xff;
        "cvt.s8.s32" "rr": [0x80] => n(-128);
        "cvt.u64.u8" "dr": [0x1ff] => 0xff;
        "cvt.sat.s8.s32" "rr": [300] => 127, [n(-300)] => n(-128);
        "cvt.sat.u8.s32" "rr": [300] => 255, [n(-300)] => 0;
        "cvt.sat.u16.u32" "rr": [70000] => 65535;
        "cvt.sat.s32.u32" "rr": [n(-1)] => 0x7fff_ffff;
        "cvt.rn.f32.s32" "rr": [n(-5)] => f(-5.0), [16_777_217] => f(16_777_216.0), [16_777_219] => f(16_777_220.0);
        "cvt.rn.f32.u32" "rr": [n(-1)] => f(4_294_967_296.0);
        "cvt.rn.f32.s64" "rd": [n64(-5)] => f(-5.0);
        "cvt.rn.f32.u64" "rd": [1 << 40] => f(1_099_511_627_776.0);
        "cvt.rn.f32.u16" "rh": [0xffff] => f(65535.0);
        "cvt.rn.f32.s16" "rh": [0xffff] => f(-1.0);
        "cvt.rn.f32.u8" "rr": [0x1ff] => f(255.0);
        "cvt.rn.f32.s8" "rr": [0xff] => f(-1.0);
        "cvt.rn.f64.s32" "dr": [n(-5)] => g(-5.0);
        "cvt.rn.f64.s64" "dd": [n64(-5)] => g(-5.0);
        "cvt.rzi.s32.f32" "rr": [f(-1.9)] => n(-1), [f(3e9)] => 0x7fff_ffff, [NAN] => 0;
        "cvt.rni.s32.f32" "rr": [f(2.5)] => 2, [f(3.5)] => 4;
        "cvt.rmi.s32.f32" "rr": [f(-1.1)] => n(-2);
        "cvt.rpi.s32.f32" "rr": [f(1.1)] => 2;
        "cvt.rzi.u32.f32" "rr": [f(-1.0)] => 0, [f(3e9)] => 3_000_000_000;
        "cvt.rzi.ftz.u32.f32" "rr": [f(7.9)] => 7;
        "cvt.rzi.s64.f32" "dr": [f(-1e10)] => n64(-10_000_000_000);
        "cvt.rzi.u8.f32" "rr": [f(300.0)] => 255;
        "cvt.rzi.s32.f64" "rd": [g(-1.9)] => n(-1);
        "cvt.rni.f32.f32" "rr": [f(2.5)] => f(2.0), [f(-0.5)] => f(-0.0);
        "cvt.rzi.f32.f32" "rr": [f(-2.7)] => f(-2.0);
        "cvt.rmi.f32.f32" "rr": [f(-2.1)] => f(-3.0);
        "cvt.rpi.f32.f32" "rr": [f(2.1)] => f(3.0);
        "cvt.sat.f32.f32" "rr": [f(2.0)] => f(1.0), [f(-2.0)] => f(0.0), [f(0.5)] => f(0.5), [NAN] => 0;
        "cvt.f64.f32" "dr": [f(1.5)] => g(1.5);
        "cvt.rn.f32.f64" "rd": [g(0.1)] => f(0.1);
        "cvt.rn.bf16.f32" "hr": [f(1.0)] => 0x3f80, [0x3f80_8000] => 0x3f80, [0x3f81_8000] => 0x3f82, [NAN] => 0x7fff;
        "cvt.rn.relu.bf16.f32" "hr": [f(-1.0)] => 0, [f(1.0)] => 0x3f80;
        "cvt.rn.f16.f32" "hr": [f(1.5)] => 0x3e00, [f(1e6)] => 0x7c00, [f(5.960_464_5e-8)] => 1;
        "cvt.rn.bf16x2.f32" "rrr": [f(1.0), f(-2.0)] => 0x3f80_c000;
        "cvt.rn.f16x2.f32" "rrr": [f(1.0), f(-2.0)] => 0x3c00_c000;
        "cvt.f32.bf16" "rh": [0xc040] => f(-3.0);
        "cvt.f32.f16" "rh": [0x3e00] => f(1.5), [0xfc00] => f(-INF), [1] => f(5.960_464_5e-8);
        "cvt.rn.satfinite.e4m3x2.f32" "hrr": [f(1.0), f(-1e9)] => 0x38fe;
        "cvt.rn.satfinite.e5m2x2.f32" "hrr": [f(1.0), f(-1e9)] => 0x3cfb, [f(1.125), f(1.375)] => 0x3c3e, [NAN, f(1.5e-5)] => 0x7f01;
        "cvt.rn.f16x2.e5m2x2" "rh": [0x3cfb] => 0x3c00_fb00;
        "cvt.rn.f16x2.e4m3x2" "rh": [0x38fe] => 0x3c00_df00;
    }
}

#[test]
fn half_precision() {
    cases! {
        "add.f16" "hhh": [0x3c00, 0x3e00] => 0x4100;
        "sub.f16" "hhh": [0x3c00, 0x3e00] => 0xb800;
        "mul.f16" "hhh": [0x3e00, 0x3e00] => 0x4080;
        "fma.rn.f16" "hhhh": [0x3e00, 0x3e00, 0x3c00] => 0x4280;
        "max.f16" "hhh": [0x3c00, 0x3e00] => 0x3e00;
        "min.f16" "hhh": [0x3c00, 0x3e00] => 0x3c00;
        "add.f16x2" "rrr": [0x3c00_3e00, 0x3e00_3c00] => 0x4100_4100;
        "sub.f16x2" "rrr": [0x6400_6403, 0x6400_6400] => 0x0000_4200;
        "mul.f16x2" "rrr": [0x3e00_3c00, 0x3e00_4000] => 0x4080_4000;
        "fma.rn.f16x2" "rrrr": [0x3e00_3c00, 0x3e00_4000, 0x3c00_0000] => 0x4280_4000;
        "add.bf16" "hhh": [0x3f80, 0x4000] => 0x4040;
        "add.rn.bf16x2" "rrr": [0x3f80_4000, 0x4000_4000] => 0x4040_4080;
        "mul.rn.bf16x2" "rrr": [0x4040_4000, 0x4000_4000] => 0x40c0_4080;
        "fma.rn.bf16" "hhhh": [0x4040, 0x4000, 0x3f80] => 0x40e0;
        "fma.rn.bf16x2" "rrrr": [0x4040_4000, 0x4000_4000, 0x3f80_0000] => 0x40e0_4080;
        "add.bf16x2" "rrr": [0x3f80_4000, 0x4000_4000] => 0x4040_4080;
        "add.rn.bf16" "hhh": [0x3f80, 0x4000] => 0x4040;
        "add.rn.f16" "hhh": [0x3c00, 0x3e00] => 0x4100;
        "add.rn.f16x2" "rrr": [0x3c00_3e00, 0x3e00_3c00] => 0x4100_4100;
        "sub.bf16" "hhh": [0x3f80, 0x4000] => 0xbf80;
        "sub.rn.bf16" "hhh": [0x3f80, 0x4000] => 0xbf80;
        "sub.bf16x2" "rrr": [0x3f80_4000, 0x4000_3f80] => 0xbf80_3f80;
        "sub.rn.bf16x2" "rrr": [0x3f80_4000, 0x4000_3f80] => 0xbf80_3f80;
        "sub.rn.f16" "hhh": [0x3c00, 0x3e00] => 0xb800;
        "sub.rn.f16x2" "rrr": [0x3c00_3e00, 0x3e00_3c00] => 0xb800_3800;
        "mul.bf16" "hhh": [0x4040, 0x4000] => 0x40c0;
        "mul.rn.bf16" "hhh": [0x4040, 0x4000] => 0x40c0;
        "mul.bf16x2" "rrr": [0x4040_4000, 0x4000_4000] => 0x40c0_4080;
        "mul.rn.f16" "hhh": [0x3e00, 0x3e00] => 0x4080;
        "mul.rn.f16x2" "rrr": [0x3e00_3c00, 0x3e00_4000] => 0x4080_4000;
        "max.bf16" "hhh": [0x4040, 0x4000] => 0x4040;
        "min.bf16" "hhh": [0x4040, 0x4000] => 0x4000;
        "max.f16x2" "rrr": [0x3c00_3e00, 0x3e00_3c00] => 0x3e00_3e00;
        "min.f16x2" "rrr": [0x3c00_3e00, 0x3e00_3c00] => 0x3c00_3c00;
        "neg.f16" "hh": [0x3c00] => 0xbc00;
        "neg.bf16" "hh": [0x3f80] => 0xbf80;
        "neg.f16x2" "rr": [0x3c00_be00] => 0xbc00_3e00;
        "neg.bf16x2" "rr": [0x3f80_bf80] => 0xbf80_3f80;
        "abs.f16" "hh": [0xbc00] => 0x3c00;
        "abs.bf16" "hh": [0xbf80] => 0x3f80;
        "abs.f16x2" "rr": [0x3c00_be00] => 0x3c00_3e00;
        "abs.bf16x2" "rr": [0xbf80_3f80] => 0x3f80_3f80;
        "max.bf16x2" "rrr": [0x4040_4000, 0x4000_4040] => 0x4040_4040;
        "min.bf16x2" "rrr": [0x4040_4000, 0x4000_4040] => 0x4000_4000;
    }
}

/// All of them, for the list of what is tested.
pub(crate) fn all() {
    integer_arithmetic();
    bits();
    moves_packs_and_addresses();
    predicates();
    comparisons();
    float_comparisons_know_nan();
    single_precision();
    exponentials_are_accurate();
    double_precision();
    conversions();
    half_precision();
}
