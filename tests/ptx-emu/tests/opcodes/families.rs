//! Instructions that come in many variants, every one of them, against what the manual says of the variant's parts.

use ptx_emu::{Options, Params, instructions};

use crate::support::single::run;
use crate::support::{Device, kernel};

const REGISTERS: &str =
    ".reg .b16 %h<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<12>;\n.reg .b32 %o;\n.reg .b64 %in, %out, %at;";
const ADDRESSES: &str = "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n";

/// 16 bytes in which every sign bit is set somewhere.
fn pattern() -> [u8; 16] {
    std::array::from_fn(|index| 0x81_u8.wrapping_add(29_u8.wrapping_mul(index as u8)))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Type, its size in bytes, and elements of an instruction that ends in `.v2.u16` or the like.
fn elements(name: &str) -> (&str, usize, usize) {
    let parts: Vec<_> = name.split('.').collect();
    let ty = parts[parts.len() - 1];
    let count = match parts[parts.len() - 2] {
        "v2" => 2,
        "v4" => 4,
        _ => 1,
    };
    (ty, bits(ty) / 8, count)
}

fn bits(ty: &str) -> usize {
    ty[1..].parse().unwrap()
}

fn space(name: &str) -> &str {
    let known = ["global", "shared::cta", "shared", "local", "const"];
    known.into_iter().find(|space| name.split('.').any(|part| part == *space)).unwrap_or("")
}

/// A register family that takes the type, and whether it may be wider than it.
fn register(ty: &str) -> &'static str {
    match ty {
        "f32" => "%r",
        "f16" => "%h",
        _ => "%d",
    }
}

/// `value` as an element of the type, extended to 64 bits by its sign.
fn extended(value: u64, ty: &str) -> u64 {
    let unused = 64 - bits(ty) as u32;
    if ty.starts_with('s') { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
}

/// The elements of `bytes`, extended to 64 bits by the sign of the type.
fn element_values(bytes: &[u8], ty: &str) -> Vec<u64> {
    let value = |element: &[u8]| element.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    bytes.chunks_exact(bits(ty) / 8).map(|element| extended(value(element), ty)).collect()
}

/// `{%d0, %d1}`, or `%d0` if it is one.
fn vector(ty: &str, count: usize) -> String {
    let registers: Vec<_> = (0..count).map(|index| format!("{}{index}", register(ty))).collect();
    if count == 1 { registers[0].clone() } else { format!("{{{}}}", registers.join(", ")) }
}

/// Writes registers as 8 bytes each.
fn write_out(ty: &str, count: usize) -> String {
    let one = |index: usize| {
        let widen = match ty {
            "f32" => format!("cvt.u64.u32 %d{index}, %r{index};"),
            "f16" => format!("cvt.u64.u16 %d{index}, %h{index};"),
            _ => String::new(),
        };
        format!("{widen} st.global.b64 [%out+{}], %d{index};", 8 * index)
    };
    (0..count).map(one).collect::<Vec<_>>().join("\n")
}

/// Runs one thread on 16 bytes and gives what it leaves in 32.
fn one_thread(declarations: &str, body: &str, input: &[u32]) -> Vec<u8> {
    let text = kernel(&format!("{REGISTERS}\n{declarations}"), &format!("{ADDRESSES}{body}"));
    let mut device = Device::new(&text);
    let (input, output) = (device.upload(input), device.upload(&[0xeeee_eeee; 8]));
    let params = Params::new().u64(input).u64(output);
    device.run("k", 1, &params).unwrap_or_else(|error| panic!("{body}: {error}"));
    device.download(output, 8).into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Names that begin with `prefix`.
fn named(prefix: &str) -> impl Iterator<Item = &'static str> {
    instructions().into_iter().filter(move |name| name.starts_with(prefix))
}

/// Where a variable `at` of a space is, as an address operand: what declares it, what fills it from `%in`, the operand.
fn place(space: &str) -> (&'static str, &'static str, &'static str) {
    match space {
        "" | "global" => ("", "", "[%in]"),
        "shared" | "shared::cta" => (
            ".shared .align 16 .b8 at[16];",
            "ld.global.v2.b64 {%d8, %d9}, [%in];\nst.shared.v2.b64 [at], {%d8, %d9};\n",
            "[at]",
        ),
        _ => (
            ".local .align 16 .b8 at[16];",
            "ld.global.v2.b64 {%d8, %d9}, [%in];\nst.local.v2.b64 [at], {%d8, %d9};\n",
            "[at]",
        ),
    }
}

#[test]
fn loads() {
    for name in named("ld.").filter(|name| !name.starts_with("ld.param")) {
        let (ty, bytes, count) = elements(name);
        let (declare, fill, at) = place(space(name));
        let constant: Vec<_> = pattern().iter().map(u8::to_string).collect();
        let body = format!("{fill}{name} {}, {at};\n{}", vector(ty, count), write_out(ty, count));
        let found = if space(name) == "const" {
            // A variable of the module, which stands before the kernel.
            let body = body.replace(fill, "");
            let text = kernel(REGISTERS, &format!("{ADDRESSES}{body}"));
            let variable = format!(".const .align 16 .b8 at[16] = {{{}}};\n.visible .entry", constant.join(", "));
            let mut device = Device::new(&text.replace(".visible .entry", &variable));
            let output = device.upload(&[0; 8]);
            device.run("k", 1, &Params::new().u64(0).u64(output)).unwrap();
            device.download(output, 8).into_iter().flat_map(u32::to_le_bytes).collect()
        } else {
            one_thread(declare, &body, &words(&pattern()))
        };
        let expected = element_values(&pattern()[..bytes * count], ty);
        assert_eq!(element_values(&found[..8 * count], "u64"), expected, "{name}");
    }
}

#[test]
fn loads_of_parameters() {
    let bytes: Vec<u8> = [pattern(), pattern().map(|byte| byte ^ 0x5a)].concat();
    for name in named("ld.param") {
        let (ty, size, count) = elements(name);
        let body =
            format!("{name} {}, [data];\nld.param.u64 %out, [out];\n{}", vector(ty, count), write_out(ty, count));
        let text = kernel(REGISTERS, &body).replace(".param .u64 in", ".param .align 16 .b8 data[32]");
        let mut device = Device::new(&text);
        let output = device.upload(&[0; 8]);
        let params = bytes
            .chunks_exact(8)
            .fold(Params::new(), |params, part| params.u64(u64::from_le_bytes(part.try_into().unwrap())));
        device.run("k", 1, &params.u64(output)).unwrap();
        let found: Vec<u8> = device.download(output, 8).into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(element_values(&found[..8 * count], "u64"), element_values(&bytes[..size * count], ty), "{name}");
    }
}

#[test]
fn stores() {
    for name in named("st.") {
        let (ty, bytes, count) = elements(name);
        let (declare, fill, at) = place(space(name));
        // What is stored comes from the first 32 bytes, 8 for each element; what it is stored over from those after.
        let input: Vec<u8> = (0..64).map(|index| 0x93_u8.wrapping_mul(index + 1)).collect();
        let load = match ty {
            "f32" => "ld.global.b32",
            "f16" => "ld.global.b16",
            _ => "ld.global.b64",
        };
        let loads = (0..count).map(|index| format!("{load} {}{index}, [%in+{}];", register(ty), 8 * index));
        let at = at.replace("%in", "%in+32");
        let read = if space(name).is_empty() { "global" } else { space(name) };
        let body = [
            fill.replace("[%in]", "[%in+32]"),
            loads.collect::<Vec<_>>().join("\n"),
            format!("{name} {at}, {};", vector(ty, count)),
            format!("ld.{read}.v2.b64 {{%d8, %d9}}, {at};\nst.global.v2.b64 [%out], {{%d8, %d9}};"),
        ]
        .join("\n");
        let found = one_thread(declare, &body, &words(&input));
        let mut expected = input[32..48].to_vec();
        for index in 0..count {
            expected[bytes * index..][..bytes].copy_from_slice(&input[8 * index..][..bytes]);
        }
        assert_eq!(found[..16], expected, "{name}");
    }
}

/// What an atomic operation leaves of an old value and an operand; all 64-bit, cut to the type afterwards.
fn atomic(operation: &str, ty: &str, old: u64, x: u64) -> u64 {
    let single = |f: fn(f32, f32) -> f32| u64::from(f(f32::from_bits(old as u32), f32::from_bits(x as u32)).to_bits());
    let (signed_old, signed_x) = (extended(old, ty) as i64, extended(x, ty) as i64);
    match (operation, ty) {
        ("add", "f32") => single(|old, x| old + x),
        ("add", "f64") => (f64::from_bits(old) + f64::from_bits(x)).to_bits(),
        ("add", _) => old.wrapping_add(x),
        ("min", _) if ty.starts_with('s') => signed_old.min(signed_x) as u64,
        ("max", _) if ty.starts_with('s') => signed_old.max(signed_x) as u64,
        ("min", _) => extended(old, ty).min(extended(x, ty)),
        ("max", _) => extended(old, ty).max(extended(x, ty)),
        ("and", _) => old & x,
        ("or", _) => old | x,
        ("xor", _) => old ^ x,
        // Counting up to x and then from zero; down to zero and then from x.
        ("inc", _) => {
            if extended(old, ty) >= extended(x, ty) {
                0
            } else {
                old + 1
            }
        }
        ("dec", _) => {
            if extended(old, ty) == 0 || extended(old, ty) > extended(x, ty) {
                x
            } else {
                old - 1
            }
        }
        ("exch", _) => x,
        other => panic!("no meaning of {other:?}"),
    }
}

#[test]
fn atomics() {
    let values = [3, 7, 0xffff_fff0, 0x8000_0000_0000_0003];
    let floats = [1.5_f32, -2.25, 1e10, 0.0].map(|value| u64::from(value.to_bits()));
    let doubles = [1.5_f64, -2.25, 1e100, 0.0].map(f64::to_bits);
    for name in named("atom").chain(named("red.").filter(|name| !name.starts_with("redux"))) {
        let parts: Vec<_> = name.split('.').collect();
        let (operation, ty) = (parts[parts.len() - 2], parts[parts.len() - 1]);
        let returns = parts[0] == "atom";
        let values = match ty {
            "f32" => floats,
            "f64" => doubles,
            _ => values,
        };
        let file = if bits(ty) == 32 { "%r" } else { "%d" };
        let width = bits(ty);
        let (declare, _, at) = place(space(name));
        let at = at.replace("%in", "%in+32");
        let plain = if space(name).is_empty() { "global" } else { space(name) };
        // What a variant orders does not change its result: few values will do.
        let is_ordered = parts.iter().any(|part| ["relaxed", "acquire", "release", "acq_rel"].contains(part));
        let pairs = values.iter().flat_map(|&old| values.map(|x| (old, x)));
        for (old, x) in pairs.take(if is_ordered { 2 } else { 16 }) {
            let third = if operation == "cas" { format!(", {file}5") } else { String::new() };
            let result = if returns { format!("{file}6, ") } else { String::new() };
            let body = format!(
                "ld.global.b{width} {file}1, [%in];\nld.global.b{width} {file}2, [%in+8];\nld.global.b{width} {file}5, [%in+16];\n\
                 mov.b{width} {file}6, {file}1;\nst.{plain}.b{width} {at}, {file}1;\n{name} {result}{at}, {file}2{third};\n\
                 ld.{plain}.b{width} {file}4, {at};\n\
                 st.global.b{width} [%out], {file}6;\nst.global.b{width} [%out+8], {file}4;"
            );
            let new = 0x1234_5678_9abc;
            let input: Vec<u8> = [old, x, new, 0, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect();
            let found = element_values(&one_thread(declare, &body, &words(&input))[..16], "u64");
            let cut = |value: u64| extended(value, &format!("u{width}"));
            let left = match operation {
                "cas" if cut(old) == cut(x) => new,
                "cas" => old,
                _ => atomic(operation, ty, old, x),
            };
            let expected = [cut(old), cut(left)];
            assert_eq!(found.iter().map(|&value| cut(value)).collect::<Vec<_>>(), expected, "{name} {old:#x} {x:#x}");
        }
    }
}

/// Every copy of 4, 8 or 16 bytes, whole and with zeros behind a part.
#[test]
fn asynchronous_copies() {
    let names: Vec<_> = named("cp.async.c").filter(|name| name.contains("global")).collect();
    for name in names {
        for bytes in [4_usize, 8, 16] {
            if name.starts_with("cp.async.cg") && bytes != 16 {
                continue;
            }
            for (part, filled) in [("", bytes), (", 3", 3), (", 0", 0)] {
                for wait in ["cp.async.commit_group;\ncp.async.wait_group 0;", "cp.async.wait_all;"] {
                    let body = format!(
                        "mov.u32 %o, at;\n{name} [%o], [%in], {bytes}{part};\n{wait}\n\
                         mov.b64 %d1, 0;\nmov.b64 %d2, 0;\n{}\nst.global.v2.b64 [%out], {{%d1, %d2}};",
                        match bytes {
                            4 => "ld.shared.u32 %d1, [at];",
                            8 => "ld.shared.b64 %d1, [at];",
                            _ => "ld.shared.v2.b64 {%d1, %d2}, [at];",
                        }
                    );
                    let found = one_thread(".shared .align 16 .b8 at[16];", &body, &words(&pattern()));
                    let mut expected = [0; 16];
                    expected[..filled].copy_from_slice(&pattern()[..filled]);
                    assert_eq!(found[..16], expected, "{name} {bytes}{part}");
                }
            }
        }
    }
}

const INTEGERS: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];

/// A register letter for a type: 64 bits, which every integer type fits into.
const WIDE: [u64; 6] = [0, 1, 0x8182_8384_8586_8788, 0x7f7f_7f7f_7f7f_7f7f, u64::MAX, 0x0000_0000_8000_ff7f];

#[test]
fn conversions_between_integers() {
    let rows: Vec<&[u64]> = WIDE.iter().map(std::slice::from_ref).collect();
    for from in INTEGERS {
        for to in INTEGERS {
            let found = run(&format!("cvt.{to}.{from}"), "dd", &rows);
            for (&value, found) in WIDE.iter().zip(found) {
                assert_eq!(found, extended(extended(value, from), to), "cvt.{to}.{from} {value:#x}");
            }
        }
    }
    for name in named("cvt.sat.").filter(|name| !name.contains(".f")) {
        let parts: Vec<_> = name.split('.').collect();
        let (to, from) = (parts[2], parts[3]);
        for (&value, found) in WIDE.iter().zip(run(name, "dd", &rows)) {
            let value = i128::from(extended(value, from));
            let value = if from.starts_with('s') { i128::from(value as i64) } else { value };
            let (least, most) = range(to);
            assert_eq!(found, value.clamp(least, most) as u64, "{name} {value}");
        }
    }
}

/// The least and the greatest number of an integer type.
fn range(ty: &str) -> (i128, i128) {
    let bits = bits(ty);
    if ty.starts_with('s') { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

#[test]
fn conversions_from_integers_to_floats() {
    let rows: Vec<&[u64]> = WIDE.iter().map(std::slice::from_ref).collect();
    for from in INTEGERS {
        let singles = run(&format!("cvt.rn.f32.{from}"), "rd", &rows);
        let doubles = run(&format!("cvt.rn.f64.{from}"), "dd", &rows);
        for (&value, (single, double)) in WIDE.iter().zip(singles.into_iter().zip(doubles)) {
            let value = extended(value, from);
            let (s, d) = if from.starts_with('s') {
                (value as i64 as f32, value as i64 as f64)
            } else {
                (value as f32, value as f64)
            };
            assert_eq!((single, double), (u64::from(s.to_bits()), d.to_bits()), "cvt.rn.f32/f64.{from} {value:#x}");
        }
    }
}

/// Out of range gives the nearest integer in range, and NaN zero.
#[test]
fn conversions_from_floats_to_integers() {
    let values =
        [0.0_f32, -0.5, 0.5, 1.5, 2.5, -2.5, 100.7, -100.7, 300.2, 1e5, -1e5, 3e9, -3e9, 1e19, -1e20, f32::NAN];
    let singles: Vec<u64> = values.iter().map(|value| u64::from(value.to_bits())).collect();
    let doubles: Vec<u64> = values.iter().map(|&value| f64::from(value).to_bits()).collect();
    for to in INTEGERS {
        for (mode, round) in [
            ("rni", f64::round_ties_even as fn(f64) -> f64),
            ("rzi", f64::trunc),
            ("rmi", f64::floor),
            ("rpi", f64::ceil),
        ] {
            let (least, most) = range(to);
            let expected: Vec<u64> = values
                .iter()
                .map(|&value| {
                    let rounded = round(f64::from(value));
                    (if rounded.is_nan() { 0 } else { (rounded as i128).clamp(least, most) }) as u64
                })
                .collect();
            for (name, registers, inputs) in [
                (format!("cvt.{mode}.{to}.f32"), "dr", &singles),
                (format!("cvt.{mode}.ftz.{to}.f32"), "dr", &singles),
                (format!("cvt.{mode}.{to}.f64"), "dd", &doubles),
            ] {
                let rows: Vec<&[u64]> = inputs.iter().map(std::slice::from_ref).collect();
                assert_eq!(run(&name, registers, &rows), expected, "{name} of {values:?}");
            }
        }
    }
}

/// The plain comparisons have tests of their own; here each is combined with another predicate.
#[test]
fn combined_comparisons() {
    for plain in named("setp.").filter(|name| ![".and.", ".or.", ".xor."].iter().any(|way| name.contains(way))) {
        let ty = plain.rsplit('.').next().unwrap();
        let values = match ty {
            "f32" => [f32::NAN, 1.0, 2.0].map(|value| u64::from(value.to_bits())),
            "f64" => [f64::NAN, 1.0, 2.0].map(f64::to_bits),
            _ => [0, 1, u64::MAX],
        };
        let file = match bits(ty) {
            16 => "h",
            32 => "r",
            _ => "d",
        };
        let inputs: Vec<[u64; 3]> =
            values.iter().flat_map(|&a| values.iter().flat_map(move |&b| [[a, b, 0], [a, b, 1]])).collect();
        let rows: Vec<&[u64]> = inputs.iter().map(<[u64; 3]>::as_slice).collect();
        let pairs: Vec<&[u64]> = inputs.iter().map(|row| &row[..2]).collect();
        let tests = run(plain, &format!("p{file}{file}"), &pairs);
        let compare = plain.split('.').nth(1).unwrap();
        for (way, combine) in
            [("and", (|a, b| a & b) as fn(u64, u64) -> u64), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)]
        {
            let name = plain.replacen(compare, &format!("{compare}.{way}"), 1);
            let expected: Vec<u64> = tests.iter().zip(&inputs).map(|(&test, row)| combine(test, row[2])).collect();
            assert_eq!(run(&name, &format!("p{file}{file}p"), &rows), expected, "{name}");
        }
    }
}

/// Fences, hints and barriers leave the registers of a full warp as they are.
#[test]
fn what_changes_no_register() {
    let rows: Vec<&[u64]> = vec![&[7]; 32];
    let run_named = |operation: &str| {
        assert_eq!(run(&format!("{operation}; mov.b32 $0, $1;"), "rr", &rows), [7; 32], "{operation}");
    };
    for name in named("membar").chain(named("fence")).chain(named("griddepcontrol")) {
        run_named(name);
    }
    named("prefetch").for_each(|name| run_named(&format!("{name} [%in]")));
    for name in named("bar.").chain(named("barrier")).filter(|name| *name != "bar.warp.sync") {
        run_named(&format!("{name} 3"));
        run_named(&format!("{name} 3, 32"));
    }
    for name in ["bar.warp.sync -1", "nanosleep.u32 20", "bra L; L:", "bra.uni L; L:"] {
        run_named(name);
    }
}

#[test]
fn what_ends_a_thread_or_the_launch() {
    for name in ["ret", "ret.uni", "exit"] {
        let found = one_thread("", &format!("st.global.b64 [%out], 5;\n{name};\nst.global.b64 [%out], 6;"), &[0]);
        assert_eq!(found[0], 5, "{name}");
    }
    let mut device = Device::new(&kernel(REGISTERS, "trap;"));
    device.options = Options::unchecked();
    assert!(device.run("k", 1, &Params::new().u64(0).u64(0)).is_err());
}

/// All of them, for the list of what is tested.
pub(crate) fn all() {
    loads();
    loads_of_parameters();
    stores();
    atomics();
    asynchronous_copies();
    conversions_between_integers();
    conversions_from_integers_to_floats();
    conversions_from_floats_to_integers();
    combined_comparisons();
    what_changes_no_register();
    what_ends_a_thread_or_the_launch();
}
