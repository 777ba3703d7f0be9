//! How long is the next piece of a prompt, so that each piece takes as long as the first?
//!
//! Attention makes later tokens dearer: a piece of the same length takes longer the more of the prompt is before it.
//! In a pipeline every stage waits for the slowest piece. So the time of a whole prompt is measured for some lengths,
//! a parabola is laid through it, and pieces are cut where it has risen by the same amount.
//!
//! Nothing calls this yet. It will stand behind `schedule.{enable_dynamic_chunking, chunked_prefill_size, page_size}`
//! and `parallel.pp_size`, with [`max_prefill_buffer_tokens`] as the ceiling.
//!
//! [`max_prefill_buffer_tokens`]: crate::sizing::prefill_budget::max_prefill_buffer_tokens

use crate::sizing::pages::floor_to_page;

/// Measurements that a parabola is laid through at least.
pub const LEAST_MEASUREMENTS: usize = 8;

/// Seconds that the prefill of a prompt takes: square · length² + linear · length + constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefillTime {
    /// Seconds for each token and each token before it; positive.
    square: f64,
    /// Seconds for each token; at least 0.
    linear: f64,
    /// Seconds for each prefill.
    constant: f64,
}

/// Measurements that say nothing about the time of a prefill.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum FitError {
    /// There are too few.
    #[error("{found} lengths were measured after the first; at least {LEAST_MEASUREMENTS} are needed")]
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// No parabola is nearest, or its numbers are not finite.
    #[error("the measured lengths or times do not determine a parabola: measure more lengths")]
    Undetermined,
    /// Longer prompts do not take more time for each token.
    #[error("the time for each token does not grow with the prompt (by {square:e} s), so pieces need not shrink")]
    NotGrowing {
        /// What was found.
        square: f64,
    },
}

impl PrefillTime {
    /// The parabola that is nearest to measurements, pairs of tokens and seconds. The first one is left out, since a
    /// first run does things once. A linear part below 0 counts as 0.
    ///
    /// ```
    /// use engine::scheduling::chunk_sizer::PrefillTime;
    ///
    /// // 1 + 2 · l + 3 · l² microseconds, but for the first run.
    /// let time = |length: f64| (1.0 + 2.0 * length + 3.0 * length * length) * 1e-6;
    /// let mut measured: Vec<_> = (1..=9).map(|i| (i * 100, time(f64::from(i) * 100.0))).collect();
    /// measured[0].1 = 5.0;
    /// let fitted = PrefillTime::fit(&measured)?;
    /// assert!((fitted.seconds(1000) - time(1000.0)).abs() < 1e-6);
    /// # Ok::<(), engine::scheduling::chunk_sizer::FitError>(())
    /// ```
    pub fn fit(measured: &[(u32, f64)]) -> Result<Self, FitError> {
        let measured = measured.get(1..).unwrap_or_default();
        if measured.len() < LEAST_MEASUREMENTS {
            return Err(FitError::TooFew { found: measured.len() });
        }
        // In units of the longest, so that the sums are of one size.
        let unit = measured.iter().map(|(length, _)| f64::from(*length)).fold(1.0, f64::max);
        let mut sums = [[0.0; 4]; 3];
        for &(length, seconds) in measured {
            let x = f64::from(length) / unit;
            let powers = [1.0, x, x * x];
            for (row, of_row) in sums.iter_mut().zip(powers) {
                for (sum, of_column) in row.iter_mut().zip(powers.into_iter().chain([seconds])) {
                    *sum += of_row * of_column;
                }
            }
        }
        let [constant, linear, square] = solve(sums).ok_or(FitError::Undetermined)?;
        let (linear, square) = (linear / unit, square / (unit * unit));
        if square > 0.0 {
            Ok(Self { square, linear: linear.max(0.0), constant })
        } else {
            Err(FitError::NotGrowing { square })
        }
    }

    /// Seconds that the prefill of a whole prompt takes.
    #[must_use]
    pub fn seconds(self, length: usize) -> f64 {
        let length = length as f64;
        (self.square * length + self.linear) * length + self.constant
    }

    /// Tokens of the next piece when `done` tokens of the prompt are prefilled: as many as take the time of a `first`
    /// piece, in whole pages, at most `ceiling`, but one page at least.
    ///
    /// The first piece is `first` itself if that is whole pages, and no later one is longer than one before it.
    ///
    /// ```
    /// use engine::scheduling::chunk_sizer::PrefillTime;
    ///
    /// let measured: Vec<_> = (0..=9_u32).map(|i| (i * 100, f64::from(i * i))).collect();
    /// let time = PrefillTime::fit(&measured)?;
    /// // 1000² = 1 000 000, 1414² ≈ 2 000 000, 1731² ≈ 3 000 000.
    /// assert_eq!(time.next_piece(0, 1000, 1, 4096), 1000);
    /// assert_eq!(time.next_piece(1000, 1000, 1, 4096), 414);
    /// assert_eq!(time.next_piece(1414, 1000, 1, 4096), 317);
    /// # Ok::<(), engine::scheduling::chunk_sizer::FitError>(())
    /// ```
    ///
    /// # Panics
    /// If a page has no tokens.
    #[must_use]
    pub fn next_piece(self, done: usize, first: usize, page_size: usize, ceiling: usize) -> usize {
        let whole = |tokens: usize| floor_to_page(tokens, page_size).max(page_size);
        let first_seconds = self.seconds(first) - self.constant;
        // square · x² + slope · x = the seconds of a first piece; in this form nothing cancels out.
        let slope = 2.0 * self.square * done as f64 + self.linear;
        let root = (slope * slope + 4.0 * self.square * first_seconds).sqrt();
        let tokens = 2.0 * first_seconds / (slope + root);
        // A little above, since what should be a whole number may be a rounding below it.
        whole(((tokens * (1.0 + 1e-9)) as usize).min(ceiling))
    }
}

/// Solves three equations; each row has three factors and the right side. None if they do not determine a solution.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|&one, &other| rows[one][column].abs().total_cmp(&rows[other][column].abs()))?;
        rows.swap(column, pivot);
        // Sums of powers of numbers up to 1: what is left of a determined system is far larger.
        let size = rows[column][column].abs();
        if size <= 1e-12 {
            return None;
        }
        for row in (0..3).filter(|row| *row != column) {
            let of_pivot = rows[column];
            let factor = rows[row][column] / of_pivot[column];
            for (number, of_pivot) in rows[row].iter_mut().zip(of_pivot) {
                *number -= factor * of_pivot;
            }
        }
    }
    let solution = [0, 1, 2].map(|row| rows[row][3] / rows[row][row]);
    solution.iter().all(|number| number.is_finite()).then_some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Random;

    fn measured(square: f64, linear: f64, constant: f64) -> Vec<(u32, f64)> {
        let time = PrefillTime { square, linear, constant };
        (0..10).map(|i| (256 * (i + 1), time.seconds(256 * (i as usize + 1)))).collect()
    }

    #[test]
    fn a_parabola_is_found_again() {
        for (square, linear, constant) in [(1e-9, 1e-5, 3e-3), (2e-8, 0.0, 0.0), (5.0, 4.0, -3.0)] {
            let mut points = measured(square, linear, constant);
            points[0].1 = 1e3;
            let time = PrefillTime::fit(&points).expect("ten points");
            for length in [1, 100, 2560, 10_000] {
                let exact = PrefillTime { square, linear, constant };
                let error = (time.seconds(length) - exact.seconds(length)).abs();
                assert!(error <= 1e-8 * exact.seconds(length.max(2560)), "{time:?}");
            }
        }
    }

    #[test]
    fn a_falling_linear_part_counts_as_none() {
        let time = PrefillTime::fit(&measured(1e-6, -1e-6, 1.0)).expect("ten points");
        assert_eq!(time.linear.to_bits(), 0.0_f64.to_bits());
        assert!((time.square - 1e-6).abs() < 1e-12);
    }

    #[test]
    fn measurements_that_say_nothing_are_refused() {
        let good = measured(1e-9, 1e-5, 3e-3);
        assert!(PrefillTime::fit(&good[..9]).is_ok());
        assert_eq!(PrefillTime::fit(&good[..8]), Err(FitError::TooFew { found: 7 }));
        assert_eq!(PrefillTime::fit(&[]), Err(FitError::TooFew { found: 0 }));
        assert_eq!(PrefillTime::fit(&[(512, 1.0); 20]), Err(FitError::Undetermined));
        let two = [300, 700].repeat(5);
        let two: Vec<_> = two.into_iter().map(|length| (length, 1e-3 * f64::from(length))).collect();
        assert_eq!(PrefillTime::fit(&two), Err(FitError::Undetermined), "many parabolas go through two points");
        let nothing = PrefillTime::fit(&[1, 2, 3, 4, 5, 6, 7, 8, 9].map(|length| (length, 0.0)));
        assert_eq!(nothing, Err(FitError::NotGrowing { square: 0.0 }));
        let mut broken = good.clone();
        broken[5].1 = f64::NAN;
        assert_eq!(PrefillTime::fit(&broken), Err(FitError::Undetermined));
        let flat = PrefillTime::fit(&measured(-1e-9, 1e-5, 0.0));
        assert!(matches!(flat, Err(FitError::NotGrowing { square }) if square < 0.0), "{flat:?}");
    }

    #[test]
    fn pieces_by_hand() {
        let square = PrefillTime { square: 1.0, linear: 0.0, constant: 7.0 };
        let mixed = PrefillTime { square: 1.0, linear: 2.0, constant: 0.0 };
        // Done, first piece, page, ceiling; tokens.
        let table = [
            (square, 0, 100, 1, 1000, 100),
            // √20000 = 141.4
            (square, 100, 100, 1, 1000, 41),
            // √29881 = 172.9
            (square, 141, 100, 1, 1000, 31),
            (square, 0, 100, 16, 1000, 96),
            (square, 100, 100, 16, 1000, 32),
            (square, 10_000, 100, 16, 1000, 16),
            (square, 0, 100, 1, 60, 60),
            (square, 0, 100, 16, 60, 48),
            (square, 0, 100, 64, 60, 64),
            // 3² + 2 · 3 = 15; (1 + x)² + 2 · (1 + x) − 3 = 15 at x = √19 − 2
            (mixed, 0, 3, 1, 10, 3),
            (mixed, 1, 3, 1, 10, 2),
            (mixed, 1_000_000, 3, 1, 10, 1),
        ];
        for (time, done, first, page, ceiling, tokens) in table {
            assert_eq!(time.next_piece(done, first, page, ceiling), tokens, "{time:?} {done} {first} {page} {ceiling}");
        }
    }

    #[test]
    fn pieces_shrink_take_the_time_of_the_first_and_end() {
        let seed = 0x0063_6875_6e6b;
        eprintln!("random times from seed {seed:#x}");
        let mut random = Random::new(seed);
        for _ in 0..200 {
            let time = PrefillTime {
                square: 1e-12 + 1e-8 * random.unit(),
                linear: 1e-4 * random.unit(),
                constant: 1e-2 * random.unit(),
            };
            let page = [1, 2, 16, 64][(random.bits() % 4) as usize];
            let first = page * (1 + (random.bits() % 64) as usize);
            let target = time.seconds(first) - time.seconds(0);
            let (mut done, mut last) = (0, first);
            for _ in 0..200 {
                let piece = time.next_piece(done, first, page, usize::MAX);
                assert!(piece >= page && piece <= last && piece.is_multiple_of(page), "{piece} after {last}: {time:?}");
                let seconds = time.seconds(done + piece) - time.seconds(done);
                let one_page_more = time.seconds(done + piece + page) - time.seconds(done);
                assert!(seconds <= target * 1.000_001 || piece == page, "{seconds} of {target}: {time:?}");
                assert!(one_page_more >= target * 0.999_999, "{one_page_more} of {target}: {time:?}");
                (done, last) = (done + piece, piece);
            }
        }
    }
}
