//! The matrix product `y = x · Wᵀ`.

use rayon::prelude::*;

use super::simd::{dot_tile, tile_tokens};
use super::{Isa, Workers};

/// Rows of `W` per tile: enough independent sums to hide the latency of a multiply-add.
pub(super) const TILE_ROWS: usize = 4;

/// Bytes of `x` that one pass over the weights works on; it stays in the second-level cache.
const TOKEN_BLOCK_BYTES: usize = 128 * 1024;

/// The fewest tokens per pass over the weights, however long a token is.
const TOKEN_BLOCK_MIN: usize = 24;

/// `y = x · Wᵀ`, with `x` of `[tokens, k]`, `w` of `[n, k]` and `y` of `[tokens, n]`.
///
/// Parallel over the rows of `w`. Each weight is read from memory once per block of at least 24 tokens.
///
/// # Panics
///
/// When `k` is zero or the lengths do not fit one another.
pub fn matmul(workers: &Workers, x: &[f32], w: &[f32], k: usize, y: &mut [f32]) {
    assert!(k > 0 && x.len().is_multiple_of(k) && w.len().is_multiple_of(k));
    let (tokens, n) = (x.len() / k, w.len() / k);
    assert_eq!(y.len(), tokens * n, "output of another shape");
    if y.is_empty() {
        return;
    }
    let isa = workers.isa();
    let rows_per_task = n.div_ceil(workers.threads() * 4).next_multiple_of(TILE_ROWS);

    // Each task owns the same column range of every token.
    let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
    tasks.resize_with(n.div_ceil(rows_per_task), || Vec::with_capacity(tokens));
    for row in y.chunks_exact_mut(n) {
        for (task, columns) in tasks.iter_mut().zip(row.chunks_mut(rows_per_task)) {
            task.push(columns);
        }
    }

    let token_block = token_block(k);
    workers.run(|| {
        tasks.into_par_iter().enumerate().for_each(|(task, mut out)| {
            let first_row = task * rows_per_task;
            let rows = out[0].len();
            for (block, out) in out.chunks_mut(token_block).enumerate() {
                let first_token = block * token_block;
                dot_block(
                    isa,
                    (out.len(), |t| {
                        let start = (first_token + t) * k;
                        &x[start..start + k]
                    }),
                    (rows, |r| {
                        let start = (first_row + r) * k;
                        &w[start..start + k]
                    }),
                    |t, r, value| out[t][r] = value,
                );
            }
        });
    });
}

/// The tokens of `k` elements that one pass over the weights works on.
pub(super) fn token_block(k: usize) -> usize {
    (TOKEN_BLOCK_BYTES / (k * size_of::<f32>())).max(TOKEN_BLOCK_MIN)
}

/// All products of the vectors `x` with the vectors `w`, each side given as a count and a function from index to vector.
pub(super) fn dot_block<'a, 'b>(
    isa: Isa,
    (tokens, x): (usize, impl Fn(usize) -> &'a [f32]),
    (rows, w): (usize, impl Fn(usize) -> &'b [f32]),
    mut emit: impl FnMut(usize, usize, f32),
) {
    let mut row = 0;
    while row < rows {
        if rows - row >= TILE_ROWS {
            row_strip::<TILE_ROWS>(isa, (tokens, &x), (row, &w), &mut emit);
            row += TILE_ROWS;
        } else {
            row_strip::<1>(isa, (tokens, &x), (row, &w), &mut emit);
            row += 1;
        }
    }
}

/// All products with the `R` vectors of `w` from `row` on.
fn row_strip<'a, 'b, const R: usize>(
    isa: Isa,
    (tokens, x): (usize, &impl Fn(usize) -> &'a [f32]),
    (row, w): (usize, &impl Fn(usize) -> &'b [f32]),
    emit: &mut impl FnMut(usize, usize, f32),
) {
    let widest = tile_tokens(isa);
    let mut token = 0;
    while token < tokens {
        let at = (token, row);
        let wide = widest.min(tokens - token);
        match wide {
            6 => tile::<6, R>(isa, at, x, w, emit),
            5 => tile::<5, R>(isa, at, x, w, emit),
            4 => tile::<4, R>(isa, at, x, w, emit),
            3 => tile::<3, R>(isa, at, x, w, emit),
            2 => tile::<2, R>(isa, at, x, w, emit),
            1 => tile::<1, R>(isa, at, x, w, emit),
            _ => unreachable!("no instruction set has tiles of {wide} tokens"),
        }
        token += wide;
    }
}

fn tile<'a, 'b, const T: usize, const R: usize>(
    isa: Isa,
    (token, row): (usize, usize),
    x: &impl Fn(usize) -> &'a [f32],
    w: &impl Fn(usize) -> &'b [f32],
    emit: &mut impl FnMut(usize, usize, f32),
) {
    let products = dot_tile::<T, R>(isa, std::array::from_fn(|t| x(token + t)), std::array::from_fn(|r| w(row + r)));
    for (t, products) in products.iter().enumerate() {
        for (r, &product) in products.iter().enumerate() {
            emit(token + t, row + r, product);
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // These results are exact.
mod tests {
    use super::super::testing::{Random, assert_close, workers_of_every_kind};
    use super::matmul;

    #[test]
    fn matches_a_float64_product_for_every_shape_and_instruction_set() {
        let mut random = Random::announced(0x6d61_746d);
        for workers in workers_of_every_kind() {
            for (tokens, n, k) in [
                (1, 1, 1),
                (1, 5, 7),
                (2, 4, 16),
                (3, 9, 17),
                (5, 8, 64),
                (6, 3, 33),
                (7, 33, 40),
                (13, 12, 100),
                (31, 70, 8),
                (64, 37, 576),
                (300, 9, 130),
            ] {
                let x = random.floats(tokens * k);
                let w = random.floats(n * k);
                let mut y = vec![f32::NAN; tokens * n];
                matmul(&workers, &x, &w, k, &mut y);
                let want: Vec<f64> = (0..tokens * n)
                    .map(|i| {
                        let (t, r) = (i / n, i % n);
                        (0..k).map(|j| f64::from(x[t * k + j]) * f64::from(w[r * k + j])).sum()
                    })
                    .collect();
                let case = format!("{:?} [{tokens}, {k}] x [{n}, {k}]", workers.isa());
                assert_close(&y, &want, 2e-6 * (k as f64).sqrt() * 4.0, &case);
            }
        }
    }

    #[test]
    fn a_token_gets_the_same_bits_alone_and_in_a_batch() {
        let mut random = Random::announced(0x6269_7473);
        let (tokens, n, k) = (29, 23, 90);
        for workers in workers_of_every_kind() {
            let x = random.floats(tokens * k);
            let w = random.floats(n * k);
            let mut whole = vec![0.0; tokens * n];
            matmul(&workers, &x, &w, k, &mut whole);
            for t in 0..tokens {
                let mut alone = vec![0.0; n];
                matmul(&workers, &x[t * k..(t + 1) * k], &w, k, &mut alone);
                assert_eq!(alone, whole[t * n..(t + 1) * n], "{:?}, token {t}", workers.isa());
            }
        }
    }

    #[test]
    fn no_tokens_and_no_rows_are_nothing_to_do() {
        for workers in workers_of_every_kind() {
            matmul(&workers, &[], &[1.0, 2.0], 2, &mut []);
            matmul(&workers, &[1.0, 2.0], &[], 2, &mut []);
        }
    }
}
