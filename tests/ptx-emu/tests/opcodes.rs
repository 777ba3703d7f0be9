//! One instruction at a time, with results worked out by hand from the PTX manual.
//!
//! A case names the instruction, the registers it takes and rows of inputs and result. Register letters: `h` 16 bit,
//! `r` 32 bit, `d` 64 bit, `p` predicate (0 or 1); the first is the result.

mod support;

use std::fmt::Write as _;

use ptx_emu::{Memory, Module, Params};
use support::Device;

/// Inputs and the result they must give.
type Row<'a> = (&'a [u64], u64);

struct Case<'a> {
    op: &'a str,
    registers: &'a str,
    rows: &'a [Row<'a>],
}

/// PTX that runs `op` once per thread: inputs are read from 8-byte slots, the result is written to one.
fn program(op: &str, registers: &str) -> String {
    let mut body = String::from("ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n");
    let sources = registers.len() - 1;
    let _ = writeln!(body, "mad.wide.u32 %in, %t, {}, %in;\nmad.wide.u32 %out, %t, 8, %out;", 8 * sources);
    for (index, file) in registers.chars().enumerate().skip(1) {
        let at = format!("[%in+{}]", 8 * (index - 1));
        let _ = match file {
            'h' => writeln!(body, "ld.global.b16 %h{index}, {at};"),
            'r' => writeln!(body, "ld.global.b32 %r{index}, {at};"),
            'd' => writeln!(body, "ld.global.b64 %d{index}, {at};"),
            _ => writeln!(body, "ld.global.b32 %x, {at};\nsetp.ne.s32 %p{index}, %x, 0;"),
        };
    }
    let text = registers
        .chars()
        .enumerate()
        .fold(op.to_owned(), |text, (index, file)| text.replace(&format!("${index}"), &format!("%{file}{index}")));
    body += &text;
    body += "\n";
    body += match &registers[..1] {
        "h" => "cvt.u64.u16 %d0, %h0;\n",
        "r" => "cvt.u64.u32 %d0, %r0;\n",
        "p" => "selp.b64 %d0, 1, 0, %p0;\n",
        _ => "",
    };
    body += "st.global.b64 [%out], %d0;";
    let declarations = ".reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .pred %p<8>;\n.reg .b32 %t, %x;\n\
                        .reg .b64 %in, %out;";
    support::kernel(declarations, &body)
}

/// Runs `op`; operands are `$0` for the result, `$1` and so on, appended if `op` names none.
fn run(op: &str, registers: &str, inputs: &[&[u64]]) -> Vec<u64> {
    let text = if op.contains('$') {
        op.to_owned()
    } else {
        let operands: Vec<_> = (0..registers.len()).map(|index| format!("${index}")).collect();
        format!("{op} {};", operands.join(", "))
    };
    let mut device = Device::new(&program(&text, registers));
    let words: Vec<u32> =
        inputs.iter().flat_map(|row| row.iter()).flat_map(|&value| [value as u32, (value >> 32) as u32]).collect();
    let (input, output) = (device.upload(&words), device.buffer(2 * inputs.len()));
    let params = Params::new().u64(input).u64(output);
    device.run("k", inputs.len() as u32, &params).unwrap_or_else(|error| panic!("{op}: {error}"));
    device.download(output, 2 * inputs.len()).chunks(2).map(|two| u64::from(two[1]) << 32 | u64::from(two[0])).collect()
}

#[track_caller]
fn check(cases: &[Case<'_>]) {
    for case in cases {
        let inputs: Vec<&[u64]> = case.rows.iter().map(|row| row.0).collect();
        for (&(inputs, expected), got) in case.rows.iter().zip(run(case.op, case.registers, &inputs)) {
            assert_eq!(got, expected, "{} of {inputs:x?}: {got:#x}, not {expected:#x}", case.op);
        }
    }
}

macro_rules! cases {
    ($($op:literal $registers:literal: $([$($input:expr),*] => $result:expr),+;)*) => {
        check(&[$(Case { op: $op, registers: $registers, rows: &[$((&[$($input),*], $result)),+] }),*])
    };
}

/// The bits of an f32, f64 or of a negative integer of 16, 32 or 64 bits.
const fn f(x: f32) -> u64 {
    x.to_bits() as u64
}
const fn g(x: f64) -> u64 {
    x.to_bits()
}
const fn n16(x: i16) -> u64 {
    x as u16 as u64
}
const fn n(x: i32) -> u64 {
    x as u32 as u64
}
const fn n64(x: i64) -> u64 {
    x as u64
}

const NAN: u64 = 0x7fff_ffff;
const INF: f32 = f32::INFINITY;
/// Half the smallest normal f32.
const SUB: u64 = 0x0040_0000;

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
        "bfind.shiftamt.u32" "rr": [0x1000] => 19, [0] => n(-1);
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
        "max.bf16x2" "rrr": [0x4040_4000, 0x4000_4040] => 0x4040_4040;
        "min.bf16x2" "rrr": [0x4040_4000, 0x4000_4040] => 0x4000_4000;
    }
}

/// Shuffles, votes and the like, on a whole warp in which lane `i` holds `100 + i`.
#[test]
fn lanes_exchange() {
    let inputs: Vec<[u64; 1]> = (0..32).map(|i| [100 + i]).collect();
    let rows: Vec<&[u64]> = inputs.iter().map(<[u64; 1]>::as_slice).collect();
    let lanes = |of: fn(u64) -> u64| (0..32).map(of).collect::<Vec<u64>>();
    let cases: [(&str, Vec<u64>); 22] = [
        ("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", lanes(|i| 100 + (i ^ 1))),
        ("shfl.sync.down.b32 $0, $1, 4, 31, -1;", lanes(|i| if i + 4 < 32 { 104 + i } else { 100 + i })),
        ("shfl.sync.up.b32 $0, $1, 4, 0, -1;", lanes(|i| if i >= 4 { 96 + i } else { 100 + i })),
        ("shfl.sync.idx.b32 $0, $1, 5, 31, -1;", lanes(|_| 105)),
        // Segments of 8 lanes: the mask is 0b11000 in the upper half of the control word.
        ("shfl.sync.idx.b32 $0, $1, 5, 0x181f, -1;", lanes(|i| 100 + i / 8 * 8 + 5)),
        ("shfl.sync.down.b32 $0, $1, 4, 0x181f, -1;", lanes(|i| if i % 8 + 4 < 8 { 104 + i } else { 100 + i })),
        ("shfl.sync.up.b32 $0, $1, 1, 0x1800, -1;", lanes(|i| if i % 8 >= 1 { 99 + i } else { 100 + i })),
        ("shfl.sync.down.b32 %r2|%p2, $1, 4, 31, -1; selp.b32 $0, 1, 0, %p2;", lanes(|i| u64::from(i + 4 < 32))),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.ballot.b32 $0, %p2, -1;", lanes(|_| 0xc000_0000)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.ballot.b32 $0, !%p2, -1;", lanes(|_| 0x3fff_ffff)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.any.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 1)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.all.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 0)),
        ("setp.gt.u32 %p2, $1, 129; vote.sync.uni.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 0)),
        ("setp.gt.u32 %p2, $1, 99; vote.sync.uni.pred %p3, %p2, -1; selp.b32 $0, 1, 0, %p3;", lanes(|_| 1)),
        ("and.b32 %r2, $1, 7; match.any.sync.b32 $0, %r2, -1;", lanes(|i| 0x0101_0101 << (i % 8))),
        ("redux.sync.add.u32 $0, $1, -1;", lanes(|_| 3200 + 31 * 16)),
        ("redux.sync.max.u32 $0, $1, -1;", lanes(|_| 131)),
        ("redux.sync.min.u32 $0, $1, -1;", lanes(|_| 100)),
        ("sub.s32 %r2, $1, 110; redux.sync.min.s32 $0, %r2, -1;", lanes(|_| n(-10))),
        ("redux.sync.or.b32 $0, $1, -1;", lanes(|_| 0xff)),
        ("redux.sync.xor.b32 $0, $1, -1;", lanes(|_| 0)),
        (
            "setp.gt.u32 %p2, $1, 115; @%p2 bra A; activemask.b32 $0; bra B; A: activemask.b32 $0; B:",
            lanes(|i| if i > 15 { 0xffff_0000 } else { 0xffff }),
        ),
    ];
    for (op, expected) in cases {
        assert_eq!(run(op, "rr", &rows), expected, "{op}");
    }
}

#[test]
fn special_registers() {
    let program = support::kernel(
        ".reg .b32 %r<8>;\n.reg .b64 %d<4>;",
        "ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %ntid.x;\n\
         mad.lo.s32 %r4, %r2, %r3, %r1;\nmov.u32 %r5, %ctaid.z;\nmov.u32 %r6, %nctaid.z;\n\
         mul.wide.u32 %d2, %r4, 16;\nadd.s64 %d3, %d1, %d2;\nmov.u32 %r7, %lanemask_lt;\n\
         mad.lo.s32 %r6, %r6, 100, %r5;\nmov.u32 %r5, %warpid;\nmov.u32 %r3, %laneid;\n\
         st.global.v4.u32 [%d3], {%r7, %r6, %r5, %r3};",
    );
    let mut device = Device::new(&program);
    let output = device.buffer(4 * 48);
    let params = Params::new().u64(0).u64(output);
    device.launch("k", ptx_emu::LaunchConfig::new([1, 1, 3], [16, 3, 1]), &params).unwrap();
    let words = device.download(output, 4 * 48);
    for (thread, words) in words.chunks(4).enumerate() {
        let lane = thread as u32 % 32;
        // Blocks run in order, so the last one's numbers stay.
        assert_eq!(words, [(1 << lane) - 1, 302, thread as u32 / 32, lane], "{thread}");
    }
}

/// Loads and stores of every width, through each memory and through generic addresses.
#[test]
fn memory_accesses() {
    let v = 0x8899_aabb_ccdd_eeff;
    for space in ["shared", "local"] {
        let declare = format!(".{space} .align 16 .b8 at[512];\n.reg .b32 %o;\nmov.u32 %o, at;\n");
        // Each thread has its own 16 bytes, also in shared memory.
        let base = if space == "shared" { "mad.lo.s32 %o, %t, 16, %o;" } else { "" };
        let round = |store: &str, load: &str, registers: &str, input: u64| {
            run(
                &format!("{declare}{base} st.{space}{store} [%o], $1; ld.{space}{load};"),
                registers,
                &[[input].as_slice(); 2],
            )[1]
        };
        assert_eq!(round(".b64", ".u8 $0, [%o+1]", "rd", v), 0xee);
        assert_eq!(round(".b64", ".s8 $0, [%o+7]", "rd", v), n(i32::from(0x88_u8 as i8)));
        assert_eq!(round(".b64", ".u16 $0, [%o+2]", "hd", v), 0xccdd);
        assert_eq!(round(".b64", ".s16 $0, [%o+6]", "rd", v), n(i32::from(0x8899_u16 as i16)));
        assert_eq!(round(".b64", ".s16 $0, [%o+6]", "dd", v), n64(i64::from(0x8899_u16 as i16)));
        assert_eq!(round(".b64", ".u32 $0, [%o+4]", "rd", v), 0x8899_aabb);
        assert_eq!(round(".b64", ".v2.u16 {%h2, $0}, [%o]", "hd", v), 0xccdd);
        assert_eq!(round(".b64", ".v2.f32 {$0, %r2}, [%o]", "rd", v), 0xccdd_eeff);
        assert_eq!(round(".b32", ".b32 $0, [%o]", "rr", 77), 77);
        assert_eq!(round(".u8", ".u8 $0, [%o]", "rr", 0x1ff), 0xff);
        assert_eq!(round(".b16", ".b16 $0, [%o]", "hh", 0x1234), 0x1234);
        let generic = format!(
            "{declare}{base} cvt.u64.u32 %d2, %o; cvta.{space}.u64 %d2, %d2; st.u64 [%d2], $1; ld.{space}.u64 $0, [%o];"
        );
        assert_eq!(run(&generic, "dd", &[[v].as_slice(); 2]), [v; 2]);
    }
    // The output slot of a thread, written in parts.
    cases! {
        "st.global.v2.b32 [%out], {1, 2}; ld.global.b64 $0, [%out];" "dd": [0] => 0x2_0000_0001;
        "st.global.v4.b16 [%out], {1, 2, 3, 4}; ld.global.cg.b64 $0, [%out];" "dd": [0] => 0x4_0003_0002_0001;
        "st.global.b64 [%out], $1; ld.volatile.global.v2.u32 {%r2, $0}, [%out];" "rd": [v] => 0x8899_aabb;
        "st.global.b64 [%out], $1; ld.u8 $0, [%out+3];" "rd": [v] => 0xcc;
        "ld.global.nc.u64 $0, [%in];" "dd": [v] => v;
    }
}

#[test]
fn atomics_return_the_old_value_and_leave_the_new() {
    // Old value in memory, operand, what memory holds afterwards.
    let cases = [
        ("add.u32", 5, 3, 8),
        ("add.s32", 5, n(-7), n(-2)),
        ("add.f32", f(1.5), f(2.0), f(3.5)),
        ("min.u32", 5, n(-1), 5),
        ("max.u32", 5, n(-1), n(-1)),
        ("min.s32", 5, n(-1), n(-1)),
        ("max.s32", 5, n(-1), 5),
        ("and.b32", 12, 10, 8),
        ("or.b32", 12, 10, 14),
        ("xor.b32", 12, 10, 6),
        ("inc.u32", 5, 7, 6),
        ("inc.u32", 7, 7, 0),
        ("dec.u32", 5, 7, 4),
        ("dec.u32", 0, 7, 7),
        ("exch.b32", 5, 9, 9),
    ];
    for (op, old, operand, new) in cases {
        let rows: [&[u64]; 1] = [&[old, operand]];
        let prepare = "st.global.b32 [%out], $1;";
        assert_eq!(run(&format!("{prepare} atom.global.{op} $0, [%out], $2;"), "rrr", &rows), [old], "{op}");
        for (space, address) in [(".global", "%out"), ("", "%out"), (".shared", "at")] {
            let text = format!(
                ".shared .b32 at; st{space}.b32 [{address}], $1; atom{space}.{op} %r5, [{address}], $2; ld{space}.b32 $0, [{address}];"
            );
            assert_eq!(run(&text, "rrr", &rows), [new], "{op}{space}");
        }
        if op != "exch.b32" {
            let text = format!("{prepare} red.relaxed.gpu.global.{op} [%out], $2; ld.global.b32 $0, [%out];");
            assert_eq!(run(&text, "rrr", &rows), [new], "{op}");
        }
    }
    cases! {
        "st.global.b32 [%out], $1; atom.global.cas.b32 %r5, [%out], $2, $3; ld.global.b32 $0, [%out];" "rrrr": [5, 5, 9] => 9, [5, 6, 9] => 5;
        "st.global.b64 [%out], $1; atom.global.cas.b64 %d5, [%out], $2, $3; ld.global.b64 $0, [%out];" "dddd": [5, 5, 1 << 40] => 1 << 40;
        "st.global.b64 [%out], $1; atom.global.add.u64 %d5, [%out], $2; ld.global.b64 $0, [%out];" "ddd": [1 << 40, 1] => (1 << 40) + 1;
        "st.global.b64 [%out], $1; atom.global.exch.b64 $0, [%out], $2;" "ddd": [1 << 40, 1] => 1 << 40;
        "st.global.b64 [%out], $1; atom.global.max.s64 %d5, [%out], $2; ld.global.b64 $0, [%out];" "ddd": [n64(-2), n64(-1)] => n64(-1);
    }
    // All lanes add to one place, one after another.
    let rows: Vec<&[u64]> = vec![&[1]; 32];
    let sum = ".shared .b32 at; .reg .pred %q; setp.eq.s32 %q, %t, 0; @%q st.shared.b32 [at], 0; bar.sync 0; \
               atom.shared.add.u32 $0, [at], $1;";
    assert_eq!(run(sum, "rr", &rows), (0..32).collect::<Vec<u64>>());
}

#[test]
fn what_only_orders_does_nothing() {
    for op in [
        "membar.gl;",
        "membar.cta;",
        "fence.acq_rel.gpu;",
        "fence.sc.sys;",
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
        "nanosleep.u32 20;",
        "prefetch.global.L2 [%in];",
        "bar.warp.sync -1;",
        "barrier.cta.sync 3;",
        "bar.sync 3, 32;",
        "bra.uni L; L:",
    ] {
        let rows: Vec<&[u64]> = vec![&[7]; 32];
        assert_eq!(run(&format!("{op} mov.b32 $0, $1;"), "rr", &rows), [7; 32], "{op}");
    }
}

#[test]
fn a_guard_switches_lanes_off() {
    cases! {
        "mov.b32 $0, 1; @$1 mov.b32 $0, 2;" "rp": [0] => 1, [1] => 2;
        "mov.b32 $0, 1; @!$1 mov.b32 $0, 2;" "rp": [0] => 2, [1] => 1;
        "mov.b64 $0, 1; @$1 ld.global.b64 $0, [%in];" "dp": [0] => 1, [9] => 9;
        "mov.b32 $0, 1; @$1 bra L; mov.b32 $0, 2; L:" "rp": [0] => 2, [1] => 1;
        "st.global.b64 [%out], 6; @$1 exit; mov.b64 $0, 5;" "dp": [0] => 5, [1] => 6;
    }
}

#[test]
fn every_instruction_is_found_by_exactly_its_name() {
    let names = ptx_emu::instructions();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(names.contains(&"fma.rn.f32") && !names.contains(&"fma.f32"));
    // A module without kernels is fine.
    Module::load(".version 9.0\n.target sm_80\n.address_size 64\n", &mut Memory::default()).unwrap();
}
