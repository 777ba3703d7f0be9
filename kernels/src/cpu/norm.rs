//! Root-mean-square normalisation.

use super::simd::dot_tile;
use super::{Isa, Workers};

/// `y = x / sqrt(mean(x²) + eps) · weight` for each row of `width` elements, where `width` is the length of `weight`.
///
/// `x` and `y` are `[rows, width]`. Parallel over rows.
///
/// # Panics
///
/// When the lengths do not fit one another.
pub fn rms_norm(workers: &Workers, x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let width = weight.len();
    assert_eq!(x.len(), y.len(), "output of another shape");
    let isa = workers.isa();
    workers.for_each_row(y, width, |row, y| {
        let x = &x[row * width..(row + 1) * width];
        let scale = inverse_rms(isa, x, eps);
        for ((y, &x), &weight) in y.iter_mut().zip(x).zip(weight) {
            *y = x * scale * weight;
        }
    });
}

/// Normalises, in place, each of the `heads` vectors that start at `offset` of a row of `row_len` elements.
///
/// `x` is `[rows, row_len]`; a vector is as long as `weight`. This is the query and key normalisation of models that have one.
///
/// # Panics
///
/// When the heads do not lie within a row.
pub fn rms_norm_heads(
    workers: &Workers,
    x: &mut [f32],
    row_len: usize,
    (offset, heads): (usize, usize),
    weight: &[f32],
    eps: f32,
) {
    let head_dim = weight.len();
    let isa = workers.isa();
    workers.for_each_row(x, row_len, |_, row| {
        for head in row[offset..offset + heads * head_dim].chunks_exact_mut(head_dim) {
            let scale = inverse_rms(isa, head, eps);
            for (x, &weight) in head.iter_mut().zip(weight) {
                *x = *x * scale * weight;
            }
        }
    });
}

fn inverse_rms(isa: Isa, x: &[f32], eps: f32) -> f32 {
    let [[squares]] = dot_tile(isa, [x], [x]);
    (squares / x.len() as f32 + eps).sqrt().recip()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_close, workers_of_every_kind};
    use super::{rms_norm, rms_norm_heads};

    fn reference(x: &[f32], weight: &[f32], eps: f64) -> Vec<f64> {
        let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len() as f64;
        x.iter().zip(weight).map(|(&x, &w)| f64::from(x) / (mean + eps).sqrt() * f64::from(w)).collect()
    }

    #[test]
    fn rows_match_float64() {
        let mut random = Random::announced(0x6e6f_726d);
        for workers in workers_of_every_kind() {
            for (rows, width) in [(1, 1), (1, 64), (3, 7), (17, 576), (4, 100)] {
                let x = random.floats(rows * width);
                let weight = random.floats(width);
                let mut y = vec![0.0; rows * width];
                rms_norm(&workers, &x, &weight, 1e-5, &mut y);
                let want: Vec<f64> = x.chunks(width).flat_map(|x| reference(x, &weight, 1e-5)).collect();
                assert_close(&y, &want, 1e-5, &format!("{:?} [{rows}, {width}]", workers.isa()));
            }
        }
    }

    #[test]
    fn heads_are_normalised_one_by_one_and_their_neighbours_left_alone() {
        let mut random = Random::announced(0x6865_6164);
        let (rows, row_len, offset, heads, head_dim) = (5, 50, 4, 3, 12);
        for workers in workers_of_every_kind() {
            let x = random.floats(rows * row_len);
            let weight = random.floats(head_dim);
            let mut y = x.clone();
            rms_norm_heads(&workers, &mut y, row_len, (offset, heads), &weight, 1e-6);
            let mut want: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for row in 0..rows {
                for head in 0..heads {
                    let start = row * row_len + offset + head * head_dim;
                    let range = start..start + head_dim;
                    want[range.clone()].copy_from_slice(&reference(&x[range], &weight, 1e-6));
                }
            }
            assert_close(&y, &want, 1e-5, &format!("{:?}", workers.isa()));
        }
    }
}
