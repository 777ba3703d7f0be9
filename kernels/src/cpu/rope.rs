//! Rotary position embedding, half-split form: element `i` of a head is rotated together with element `i + head_dim / 2`.

use super::Workers;

/// Cosines and sines for the positions of one batch of tokens.
///
/// Angles are computed in float64 and rounded once.
pub struct RopeTable {
    half: usize,
    /// `[tokens, half, 2]`: cosine and sine.
    turns: Vec<f32>,
}

impl RopeTable {
    /// The table for tokens at `positions`; pair `i` of a head turns by `position · inverse_frequencies[i]` radians and grows by
    /// the factor `amplitude`.
    #[must_use]
    pub fn new(inverse_frequencies: &[f64], amplitude: f64, positions: impl Iterator<Item = usize>) -> Self {
        let turns = positions
            .flat_map(|position| {
                inverse_frequencies.iter().flat_map(move |&frequency| {
                    let (sin, cos) = (position as f64 * frequency).sin_cos();
                    [(cos * amplitude) as f32, (sin * amplitude) as f32]
                })
            })
            .collect();
        Self { half: inverse_frequencies.len(), turns }
    }
}

/// Rotates, in place, the first `heads` vectors of each row of `x`.
///
/// `x` is `[tokens, row_len]` with one row per token of `table`; a vector has twice as many elements as the table has frequencies.
///
/// # Panics
///
/// When the table is for another number of tokens or the heads do not lie within a row.
pub fn apply_rope(workers: &Workers, x: &mut [f32], row_len: usize, heads: usize, table: &RopeTable) {
    let half = table.half;
    assert_eq!(x.len() * 2 * half, table.turns.len() * row_len, "a table for other tokens");
    workers.for_each_row(x, row_len, |token, row| {
        let turns = &table.turns[token * 2 * half..(token + 1) * 2 * half];
        for head in row[..heads * 2 * half].chunks_exact_mut(2 * half) {
            let (low, high) = head.split_at_mut(half);
            for ((low, high), turn) in low.iter_mut().zip(high).zip(turns.chunks_exact(2)) {
                let (cos, sin) = (turn[0], turn[1]);
                (*low, *high) = (*low * cos - *high * sin, *high * cos + *low * sin);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_close, workers_of_every_kind};
    use super::{RopeTable, apply_rope};

    #[test]
    fn rotates_pairs_of_the_leading_heads_only() {
        let mut random = Random::announced(0x726f_7065);
        let (heads, half, row_len) = (3, 4, 30);
        let positions = [0, 1, 5, 4000];
        let frequencies: Vec<f64> = (0..half).map(|i| 1e4_f64.powf(-(i as f64) / half as f64)).collect();
        for (workers, amplitude) in workers_of_every_kind().iter().zip([1.0, 1.25].into_iter().cycle()) {
            let x = random.floats(positions.len() * row_len);
            let mut y = x.clone();
            let table = RopeTable::new(&frequencies, amplitude, positions.into_iter());
            apply_rope(workers, &mut y, row_len, heads, &table);
            let mut want: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for (token, &position) in positions.iter().enumerate() {
                for head in 0..heads {
                    for (i, frequency) in frequencies.iter().enumerate() {
                        let low = token * row_len + head * 2 * half + i;
                        let (a, b) = (f64::from(x[low]), f64::from(x[low + half]));
                        let (sin, cos) = (position as f64 * frequency).sin_cos();
                        want[low] = (a * cos - b * sin) * amplitude;
                        want[low + half] = (b * cos + a * sin) * amplitude;
                    }
                }
            }
            assert_close(&y, &want, 1e-6, &format!("{:?}", workers.isa()));
        }
    }
}
