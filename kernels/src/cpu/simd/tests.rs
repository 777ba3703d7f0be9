//! Every loop on every instruction set, against double precision and against the loops of one row at a time.
#![allow(clippy::float_cmp)] // Where results are compared so, they are exact.

use super::super::ElementType;
use super::super::testing::{Random, assert_close};
use super::{Isa, dot_stored, dot_tile, exp_shifted, expand, max, silu_mul, weighted_sums};

/// Lengths on both sides of one, two and four vectors of every width.
const LENGTHS: [usize; 16] = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 576];

#[test]
fn a_product_has_the_same_bits_in_every_tile() {
    let mut random = Random::announced(0x7469_6c65);
    for isa in Isa::available() {
        for len in LENGTHS {
            let rows: Vec<Vec<f32>> = (0..7).map(|_| random.floats(len)).collect();
            let row = |index: usize| rows[index].as_slice();
            let tile = dot_tile(isa, [row(0), row(1), row(2)], [row(3), row(4), row(5), row(6)]);
            for (t, products) in tile.iter().enumerate() {
                for (r, &product) in products.iter().enumerate() {
                    let [[alone]] = dot_tile(isa, [row(t)], [row(3 + r)]);
                    assert_eq!(product, alone, "{isa:?}, {len} elements, {t} with {r}");
                    let want: f64 = row(t).iter().zip(row(3 + r)).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
                    assert_close(&[product], &[want], 1e-5, &format!("{isa:?}, {len} elements"));
                }
            }
        }
    }
}

/// A block of any bits but those of scales, which are halved until they are small numbers.
fn any_blocks(random: &mut Random, element: ElementType, blocks: usize) -> Vec<u8> {
    let (_, block_bytes) = element.block();
    let scales: &[usize] = match element {
        ElementType::F32 => &[2],
        ElementType::F16 | ElementType::Bf16 | ElementType::Q4_0 | ElementType::Q5_0 | ElementType::Q8_0 => &[0],
        ElementType::Q4_1 | ElementType::Q5_1 | ElementType::Q4K | ElementType::Q5K => &[0, 2],
        ElementType::Q6K => &[208],
    };
    let mut bytes: Vec<u8> = (0..blocks * block_bytes).map(|_| random.next() as u8).collect();
    for block in bytes.chunks_exact_mut(block_bytes) {
        for &scale in scales {
            block[scale + 1] &= 0xbb;
        }
    }
    bytes
}

#[test]
fn blocks_of_any_bits_expand_as_plain_code_says() {
    let mut random = Random::announced(0x616e_7962);
    for element in ElementType::ALL {
        let (block, block_bytes) = element.block();
        let blocks = 8192 / block;
        let bytes = any_blocks(&mut random, element, blocks);
        let mut want = vec![0.0; blocks * block];
        expand(Isa::scalar(), element, &bytes, &mut want);
        assert!(want.iter().all(|number| number.is_finite()), "{}", element.name());
        for isa in Isa::available() {
            let mut got = vec![0.0; want.len()];
            expand(isa, element, &bytes, &mut got);
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert_eq!(got.to_bits(), want.to_bits(), "{} on {isa:?}: element {i}", element.name());
            }
            // One row of them and four, which share their sums.
            let x = random.floats(8 * block);
            let row = |index: usize| &bytes[8 * index * block_bytes..8 * (index + 1) * block_bytes];
            let four = dot_stored(isa, &x, element, [row(0), row(1), row(2), row(3)]);
            for (index, product) in four.into_iter().enumerate() {
                let numbers = &want[8 * index * block..8 * (index + 1) * block];
                let [[plain]] = dot_tile(isa, [&x], [numbers]);
                let [alone] = dot_stored(isa, &x, element, [row(index)]);
                assert_eq!(
                    (product.to_bits(), alone.to_bits()),
                    (plain.to_bits(), plain.to_bits()),
                    "{} on {isa:?}: row {index}",
                    element.name()
                );
            }
        }
    }
}

#[test]
fn weighted_sums_are_those_of_double_precision_and_have_the_same_bits_alone() {
    let mut random = Random::announced(0x7765_6967);
    for isa in Isa::available() {
        for len in LENGTHS {
            for count in [0, 1, 5, 40] {
                let rows: Vec<Vec<f32>> = (0..count).map(|_| random.floats(len)).collect();
                let weights: Vec<Vec<f32>> = (0..3).map(|_| random.floats(count)).collect();
                let mut out = [const { Vec::new() }; 3].map(|_: Vec<f32>| vec![f32::NAN; len]);
                let [a, b, c] = &mut out;
                weighted_sums(isa, [&weights[0], &weights[1], &weights[2]], |r| &rows[r], [a, b, c]);
                for (out, weights) in out.iter().zip(&weights) {
                    let mut alone = vec![f32::NAN; len];
                    weighted_sums(isa, [weights], |r| &rows[r], [&mut alone]);
                    assert_eq!(*out, alone, "{isa:?}, {count} rows of {len}");
                    let weighted =
                        |i: usize| rows.iter().zip(weights).map(move |(row, &w)| f64::from(w) * f64::from(row[i]));
                    let want: Vec<f64> = (0..len).map(|i| weighted(i).sum()).collect();
                    assert_close(out, &want, 1e-5, &format!("{isa:?}, {count} rows of {len}"));
                }
            }
        }
    }
}

/// The distance in units in the last place of `want`, of which the smallest is that of numbers near zero.
fn units(got: f32, want: f64) -> f64 {
    let unit = (want.abs().log2().floor() - 23.0).max(-149.0).exp2();
    (f64::from(got) - want).abs() / unit
}

#[test]
fn powers_are_within_two_units_over_the_whole_range() {
    for isa in Isa::available() {
        // Every 1024th of the numbers from -110 to 100, and the ends of the range.
        let mut x: Vec<f32> = (0..215_040).map(|i| -110.0 + i as f32 / 1024.0).collect();
        x.extend([
            f32::NEG_INFINITY,
            f32::MIN,
            f32::MAX,
            f32::INFINITY,
            0.0,
            -0.0,
            1e-30,
            -1e-30,
            88.722_83,
            88.722_84,
            -87.336_54,
            -103.972_08,
            -103.98,
        ]);
        let mut got = x.clone();
        exp_shifted(isa, &mut got, 0.0);
        for (&x, &got) in x.iter().zip(&got) {
            let want = f64::from(x).exp();
            if want >= f64::from(f32::MAX) + 1e31 {
                assert_eq!(got, f32::INFINITY, "{isa:?}: of {x}");
            } else if want < f64::from(f32::MAX) {
                assert!(units(got, want) <= 2.0, "{isa:?}: of {x} it is {got}, not {want}");
            }
        }
        let mut none = [f32::NAN, 1.0];
        assert!(exp_shifted(isa, &mut none, 0.0).is_nan() && none[0].is_nan() && !none[1].is_nan(), "{isa:?}");
    }
}

#[test]
fn powers_are_summed_and_the_largest_is_found_for_any_length() {
    let mut random = Random::announced(0x736f_6674);
    for isa in Isa::available() {
        for len in LENGTHS {
            let x: Vec<f32> = random.floats(len).iter().map(|x| x * 20.0).collect();
            let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(isa, &x), largest, "{isa:?}, {len}");
            let mut powers = x.clone();
            let sum = exp_shifted(isa, &mut powers, largest);
            let want: Vec<f64> = x.iter().map(|&x| f64::from(x - largest).exp()).collect();
            assert_close(&powers, &want, 3e-7, &format!("{isa:?}, {len}"));
            assert_close(&[sum], &[want.iter().sum()], 1e-6, &format!("{isa:?}, {len}"));
        }
        assert_eq!(max(isa, &[]), f32::NEG_INFINITY);
    }
}

#[test]
fn gates_of_any_size_and_length_are_applied() {
    let mut random = Random::announced(0x6761_7465);
    for isa in Isa::available() {
        for len in LENGTHS {
            let gate: Vec<f32> = random.floats(len).iter().map(|x| x * 120.0).collect();
            let up = random.floats(len);
            let mut y = vec![f32::NAN; len];
            silu_mul(isa, &gate, &up, &mut y);
            let want: Vec<f64> = gate
                .iter()
                .zip(&up)
                .map(|(&gate, &up)| f64::from(gate) / (1.0 + (-f64::from(gate)).exp()) * f64::from(up))
                .collect();
            assert_close(&y, &want, 1e-6, &format!("{isa:?}, {len}"));
        }
    }
}
