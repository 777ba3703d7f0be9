//! Runs one instruction on rows of inputs.
//!
//! A case names the instruction, the registers it takes and rows of inputs and result. Register letters: `h` 16 bit,
//! `r` 32 bit, `d` 64 bit, `p` predicate (0 or 1); the first is the result.

use std::fmt::Write as _;

use ptx_emu::Params;

use super::Device;

/// Inputs and the result they must give.
pub(crate) type Row<'a> = (&'a [u64], u64);

pub(crate) struct Case<'a> {
    pub(crate) op: &'a str,
    pub(crate) registers: &'a str,
    pub(crate) rows: &'a [Row<'a>],
}

/// PTX that runs `op` once per thread: inputs are read from 8-byte slots, the result is written to one.
pub(crate) fn program(op: &str, registers: &str) -> String {
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
    super::kernel(declarations, &body)
}

/// Runs `op`; operands are `$0` for the result, `$1` and so on, appended if `op` names none.
pub(crate) fn run(op: &str, registers: &str, inputs: &[&[u64]]) -> Vec<u64> {
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
pub(crate) fn check(cases: &[Case<'_>]) {
    for case in cases {
        let inputs: Vec<&[u64]> = case.rows.iter().map(|row| row.0).collect();
        for (&(inputs, expected), got) in case.rows.iter().zip(run(case.op, case.registers, &inputs)) {
            assert_eq!(got, expected, "{} of {inputs:x?}: {got:#x}, not {expected:#x}", case.op);
        }
    }
}

macro_rules! cases {
    ($($op:literal $registers:literal: $([$($input:expr),*] => $result:expr),+;)*) => {
        $crate::support::single::check(&[$($crate::support::single::Case { op: $op, registers: $registers, rows: &[$((&[$($input),*], $result)),+] }),*])
    };
}

/// The bits of an f32, f64 or of a negative integer of 16, 32 or 64 bits.
pub(crate) const fn f(x: f32) -> u64 {
    x.to_bits() as u64
}
pub(crate) const fn g(x: f64) -> u64 {
    x.to_bits()
}
pub(crate) const fn n16(x: i16) -> u64 {
    x as u16 as u64
}
pub(crate) const fn n(x: i32) -> u64 {
    x as u32 as u64
}
pub(crate) const fn n64(x: i64) -> u64 {
    x as u64
}

pub(crate) const NAN: u64 = 0x7fff_ffff;
pub(crate) const INF: f32 = f32::INFINITY;
/// Half the smallest normal f32.
pub(crate) const SUB: u64 = 0x0040_0000;

pub(crate) use cases;
