//! Matrix instructions against naive products, with the layouts written from the PTX manual's tables.

use crate::support::{Device, kernel, noise, unit};
use ptx_emu::Params;

const HEADER: &str = ".reg .b32 %r<24>;\n.reg .b64 %d<8>;";

/// Registers of a warp for a matrix fragment: `words[lane][register]`.
type Fragment = Vec<Vec<u32>>;

/// Packs elements of `bits` bits into words: `place(lane, element)` says which element of the matrix comes next.
fn fragment(elements: usize, bits: usize, place: impl Fn(usize, usize) -> u32) -> Fragment {
    let per_word = 32 / bits;
    (0..32)
        .map(|lane| {
            let all: Vec<u32> = (0..elements).map(|element| place(lane, element)).collect();
            all.chunks(per_word)
                .map(|chunk| chunk.iter().enumerate().map(|(i, &e)| e << (bits * i)).fold(0, |word, e| word | e))
                .collect()
        })
        .collect()
}

/// Runs an `mma` on fragments of 4, 2 and 4 registers; returns D by `[lane][register]`.
fn multiply(shape: &str, a: &Fragment, b: &Fragment, c: &Fragment) -> Fragment {
    let body = format!(
        "ld.param.u64 %d1, [in];\nld.param.u64 %d2, [out];\nmov.u32 %r0, %tid.x;\n\
         mad.wide.u32 %d1, %r0, 40, %d1;\nmad.wide.u32 %d2, %r0, 16, %d2;\n\
         ld.global.v2.b32 {{%r1, %r2}}, [%d1];\nld.global.v2.b32 {{%r3, %r4}}, [%d1+8];\n\
         ld.global.v2.b32 {{%r5, %r6}}, [%d1+16];\nld.global.v2.b32 {{%r7, %r8}}, [%d1+24];\n\
         ld.global.v2.b32 {{%r9, %r10}}, [%d1+32];\n\
         mma.sync.aligned.{shape} {{%r11,%r12,%r13,%r14}}, {{%r1,%r2,%r3,%r4}}, {{%r5,%r6}}, {{%r7,%r8,%r9,%r10}};\n\
         st.global.v4.b32 [%d2], {{%r11,%r12,%r13,%r14}};"
    );
    let mut device = Device::new(&kernel(HEADER, &body));
    let words: Vec<u32> = (0..32).flat_map(|lane| [a, b, c].map(|f| f[lane].clone()).concat()).collect();
    let (input, output) = (device.upload(&words), device.buffer(128));
    let stats = device.run("k", 32, &Params::new().u64(input).u64(output)).unwrap();
    assert_eq!(stats.matrix_instructions, 1);
    device.download(output, 128).chunks(4).map(<[u32]>::to_vec).collect()
}

/// The manual's figures for `.m16n8k16` with 16-bit elements: with `group = lane >> 2` and `in_group = lane % 4`,
/// element `i` of A lies in row `group` for i in {0, 1, 4, 5}, else `group + 8`, and in column
/// `in_group * 2 + (i & 1)` for i < 4, else 8 further on.
fn a_16(lane: usize, i: usize) -> (usize, usize) {
    let (group, in_group) = (lane >> 2, lane % 4);
    let row = if matches!(i, 0 | 1 | 4 | 5) { group } else { group + 8 };
    let column = in_group * 2 + (i & 1);
    (row, if i < 4 { column } else { column + 8 })
}

/// Element `i` of B: row (depth) `in_group * 2 + (i & 1)`, 8 further on for i >= 2; column `group`.
fn b_16(lane: usize, i: usize) -> (usize, usize) {
    let row = lane % 4 * 2 + (i & 1);
    (if i < 2 { row } else { row + 8 }, lane >> 2)
}

/// Element `i` of C and D: row `group` for i < 2, else `group + 8`; column `in_group * 2 + (i & 1)`.
fn c_32(lane: usize, i: usize) -> (usize, usize) {
    let row = lane >> 2;
    (if i < 2 { row } else { row + 8 }, lane % 4 * 2 + (i & 1))
}

/// `.m16n8k32` with 8-bit elements: rows as for 16-bit ones per four elements, columns `in_group * 4 + (i & 3)`,
/// 16 further on for i >= 8.
fn a_8(lane: usize, i: usize) -> (usize, usize) {
    let (group, in_group) = (lane >> 2, lane % 4);
    let row = if i < 4 || (8..12).contains(&i) { group } else { group + 8 };
    let column = in_group * 4 + (i & 3);
    (row, if i < 8 { column } else { column + 16 })
}

fn b_8(lane: usize, i: usize) -> (usize, usize) {
    let row = lane % 4 * 4 + (i & 3);
    (if i < 4 { row } else { row + 16 }, lane >> 2)
}

fn product(a: &[f64], b: &[f64], c: &[f64], depth: usize) -> Vec<f64> {
    (0..16 * 8)
        .map(|index| {
            let (m, n) = (index / 8, index % 8);
            c[index] + (0..depth).map(|k| a[m * depth + k] * b[k * 8 + n]).sum::<f64>()
        })
        .collect()
}

fn assert_close(d: &Fragment, expected: &[f64]) {
    for (lane, words) in d.iter().enumerate() {
        for (i, &word) in words.iter().enumerate() {
            let (row, column) = c_32(lane, i);
            let (got, want) = (f64::from(f32::from_bits(word)), expected[row * 8 + column]);
            assert!((got - want).abs() < 1e-5 * (1.0 + want.abs()), "row {row} column {column}: {got}, not {want}");
        }
    }
}

/// Values that are exact in the format that `encode` makes of an f32 and its number.
fn check_floats_16(shape: &str, a: &[u16; 256], b: &[u16; 128], decode: fn(u16) -> f64) {
    let c = unit(&noise(128, 3));
    let d = multiply(
        shape,
        &fragment(8, 16, |lane, i| {
            let (row, column) = a_16(lane, i);
            u32::from(a[row * 16 + column])
        }),
        &fragment(4, 16, |lane, i| {
            let (row, column) = b_16(lane, i);
            u32::from(b[row * 8 + column])
        }),
        &fragment(4, 32, |lane, i| {
            let (row, column) = c_32(lane, i);
            c[row * 8 + column].to_bits()
        }),
    );
    let wide = |values: &[u16]| values.iter().map(|&value| decode(value)).collect::<Vec<_>>();
    let c: Vec<f64> = c.into_iter().map(f64::from).collect();
    assert_close(&d, &product(&wide(a), &wide(b), &c, 16));
}

#[test]
fn bf16_products() {
    // The upper half of an f32 in [-1, 1).
    let take = |seed| unit(&noise(256, seed)).into_iter().map(|x| (x.to_bits() >> 16) as u16);
    let (mut a, mut b) = ([0; 256], [0; 128]);
    a.iter_mut().zip(take(1)).for_each(|(to, from)| *to = from);
    b.iter_mut().zip(take(2)).for_each(|(to, from)| *to = from);
    check_floats_16("m16n8k16.row.col.f32.bf16.bf16.f32", &a, &b, |bits| {
        f64::from(f32::from_bits(u32::from(bits) << 16))
    });
}

#[test]
fn f16_products() {
    // Any sign, exponents 8 to 15 and any fraction: normal numbers up to 2.
    let take = |seed| noise(256, seed).into_iter().map(|x| (x & 0x83ff | (8 + (x >> 16) % 8) << 10) as u16);
    let (mut a, mut b) = ([0; 256], [0; 128]);
    a.iter_mut().zip(take(4)).for_each(|(to, from)| *to = from);
    b.iter_mut().zip(take(5)).for_each(|(to, from)| *to = from);
    check_floats_16("m16n8k16.row.col.f32.f16.f16.f32", &a, &b, |bits| {
        let magnitude = (1.0 + f64::from(bits & 0x3ff) / 1024.0) * 2f64.powi(i32::from(bits >> 10 & 31) - 15);
        if bits >> 15 == 1 { -magnitude } else { magnitude }
    });
}

#[test]
fn one_hot_products_show_each_place() {
    // A = one at (m, k), B = one at (k, n): D is one at (m, n) and nowhere else.
    for (m, k, n) in [(0, 0, 0), (3, 5, 7), (8, 8, 1), (15, 15, 6), (9, 2, 4)] {
        let (mut a, mut b) = ([0; 256], [0; 128]);
        a[m * 16 + k] = 0x3f80;
        b[k * 8 + n] = 0x3f80;
        check_floats_16("m16n8k16.row.col.f32.bf16.bf16.f32", &a, &b, |bits| {
            f64::from(f32::from_bits(u32::from(bits) << 16))
        });
    }
}

/// The bytes of two matrices, row by row, as fragments of a product 32 deep.
fn fragments_8(a: &[u32], b: &[u32]) -> (Fragment, Fragment) {
    let place_a = |(row, column): (usize, usize)| a[row * 32 + column] & 0xff;
    let place_b = |(row, column): (usize, usize)| b[row * 8 + column] & 0xff;
    (fragment(16, 8, |lane, i| place_a(a_8(lane, i))), fragment(8, 8, |lane, i| place_b(b_8(lane, i))))
}

#[test]
fn int8_products() {
    let signed = (|byte| i32::from(byte as i8)) as fn(u32) -> i32;
    let unsigned = (|byte| i32::from(byte as u8)) as fn(u32) -> i32;
    let kinds = [("s8", signed), ("u8", unsigned)];
    for ((a_name, of_a), (b_name, of_b)) in kinds.iter().flat_map(|a| kinds.iter().map(move |b| (a, b))) {
        let (a, b, c) = (noise(512, 6), noise(256, 7), noise(128, 8));
        let (a_words, b_words) = fragments_8(&a, &b);
        let c_words = fragment(4, 32, |lane, i| {
            let (row, column) = c_32(lane, i);
            c[row * 8 + column] >> 8
        });
        let shape = format!("m16n8k32.row.col.s32.{a_name}.{b_name}.s32");
        for (lane, words) in multiply(&shape, &a_words, &b_words, &c_words).iter().enumerate() {
            for (i, &word) in words.iter().enumerate() {
                let (row, column) = c_32(lane, i);
                let products = (0..32).map(|k| of_a(a[row * 32 + k]) * of_b(b[k * 8 + column]));
                assert_eq!(word as i32, (c[row * 8 + column] >> 8) as i32 + products.sum::<i32>(), "{shape}");
            }
        }
    }
}

/// Numbers of 8 bits with an exponent of `exponent` bits, by the definition of the format.
fn small_float(bits: u32, exponent: i32) -> f64 {
    let fraction = 7 - exponent;
    let biased = (bits >> fraction & ((1 << exponent) - 1)) as i32;
    let part = f64::from(bits & ((1 << fraction) - 1)) / f64::from(1 << fraction);
    let bias = (1 << (exponent - 1)) - 1;
    let magnitude = if biased == 0 { part * 2f64.powi(1 - bias) } else { (1.0 + part) * 2f64.powi(biased - bias) };
    if bits >> 7 & 1 == 1 { -magnitude } else { magnitude }
}

#[test]
fn products_of_8_bit_floats() {
    let kinds = [("e4m3", 4), ("e5m2", 5)];
    for ((a_name, a_bits), (b_name, b_bits)) in kinds.iter().flat_map(|a| kinds.iter().map(move |b| (a, b))) {
        // Subnormal and normal numbers up to 32, no infinity and no NaN.
        let take = |count, seed, exponent: i32| {
            let fraction = 7 - exponent;
            let highest = (1 << (exponent - 1)) + 4;
            let one = |x: u32| x & 0x80 | ((x >> 16) % highest) << fraction | x & ((1 << fraction) - 1);
            noise(count, seed).into_iter().map(one).collect::<Vec<_>>()
        };
        let (a, b) = (take(512, 9, *a_bits), take(256, 10, *b_bits));
        let (a_words, b_words) = fragments_8(&a, &b);
        let shape = format!("m16n8k32.row.col.f32.{a_name}.{b_name}.f32");
        let d = multiply(&shape, &a_words, &b_words, &fragment(4, 32, |_, _| 0));
        let wide =
            |values: &[u32], exponent| values.iter().map(|&bits| small_float(bits, exponent)).collect::<Vec<_>>();
        let expected = product(&wide(&a, *a_bits), &wide(&b, *b_bits), &[0.0; 128], 32);
        for (lane, words) in d.iter().enumerate() {
            for (i, &word) in words.iter().enumerate() {
                let (row, column) = c_32(lane, i);
                let (got, want) = (f64::from(f32::from_bits(word)), expected[row * 8 + column]);
                assert!((got - want).abs() < 1e-2 + 1e-5 * want.abs(), "{shape} {row} {column}: {got}, not {want}");
            }
        }
    }
}

/// The manual: threads 0-7 give the rows of matrix 0, 8-15 of matrix 1 and so on; each thread gets from each matrix two
/// neighbours of row `lane / 4`, from column `2 * (lane % 4)` on; with `.trans` the matrix is loaded column by column.
#[test]
fn ldmatrix_distributes_rows() {
    let spaces = ["shared", "shared::cta"];
    let forms = [1, 2, 4].into_iter().flat_map(|count| [false, true].map(|transposed| (count, transposed)));
    for ((count, transposed), space) in forms.flat_map(|form| spaces.map(|space| (form, space))) {
        let registers = ["%r11", "%r12", "%r13", "%r14"][..count].join(",");
        let trans = if transposed { ".trans" } else { "" };
        let body = format!(
            ".shared .align 16 .b8 tile[1536];\n.reg .b32 %base;\nld.param.u64 %d2, [out];\nmov.u32 %r0, %tid.x;\n\
             mov.u32 %base, tile;\nmov.u32 %r1, 0;\nFILL:\nmad.lo.u32 %r2, %r1, 32, %r0;\nmul.lo.u32 %r3, %r2, 2;\n\
             mad.lo.u32 %r4, %r3, 0x10000, %r3;\nadd.u32 %r4, %r4, 0x10000;\nmad.lo.u32 %r5, %r2, 4, %base;\n\
             st.shared.u32 [%r5], %r4;\nadd.u32 %r1, %r1, 1;\n.reg .pred %p;\nsetp.lt.u32 %p, %r1, 12;\n@%p bra FILL;\n\
             bar.warp.sync -1;\nmad.lo.u32 %r6, %r0, 48, %base;\n\
             mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0; mov.u32 %r14, 0;\n\
             ldmatrix.sync.aligned.m8n8.x{count}{trans}.{space}.b16 {{{registers}}}, [%r6];\n\
             mad.wide.u32 %d2, %r0, 16, %d2;\nst.global.v4.b32 [%d2], {{%r11,%r12,%r13,%r14}};"
        );
        let mut device = Device::new(&kernel(HEADER, &body));
        let output = device.buffer(128);
        device.run("k", 32, &Params::new().u64(0).u64(output)).unwrap();
        // Element `e` of shared memory holds `e`; rows are 24 elements apart.
        let element = |matrix: usize, row: usize, column: usize| ((matrix * 8 + row) * 24 + column) as u32;
        for (lane, words) in device.download(output, 128).chunks(4).enumerate() {
            for (matrix, &word) in words.iter().enumerate().take(count) {
                let (row, column) = (lane / 4, lane % 4 * 2);
                let [low, high] = [0, 1].map(|next| {
                    if transposed { element(matrix, column + next, row) } else { element(matrix, row, column + next) }
                });
                assert_eq!(word, low | high << 16, "x{count}{trans} lane {lane} matrix {matrix}");
            }
        }
    }
}

/// All of them, for the list of what is tested.
pub(crate) fn all() {
    bf16_products();
    f16_products();
    one_hot_products_show_each_place();
    int8_products();
    products_of_8_bit_floats();
    ldmatrix_distributes_rows();
}
