//! For how many rows is a matrix product prepared before the first request?
//!
//! A kernel that is compiled or tuned for a number of rows is best made ready for all that can come: decode brings one
//! row for each request, a prefill as many as a chunk has tokens. [`crate::tuning`] prepares the products of a model on
//! CUDA for what [`rows`] says, by `exec.kernel.gemm_warmup` and `schedule.chunked_prefill_size`.

use std::ops::RangeInclusive;

/// Up to this many rows every number is prepared: batches of decode have any size.
const EVERY: usize = 1024;
/// What a chunk counts for at most, with sampled numbers.
const LARGEST_SAMPLED_CHUNK: usize = 32 * 1024;
/// Rows with sampled numbers if prompts are not cut.
const SAMPLED_WITHOUT_CHUNKS: usize = 16 * 1024;
/// Rows with all numbers unless chunks are large or absent.
const ALL: usize = 16 * 1024;
/// A chunk above this may come with others, and is prepared for at twice its size.
const LARGE_CHUNK: usize = 8192;
/// Rows with all numbers if prompts are not cut.
const ALL_WITHOUT_CHUNKS: usize = 64 * 1024;
/// Rows with all numbers at most.
const MOST: usize = 128 * 1024;

/// Which numbers of rows are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// None: what a product needs is made ready when it is first run.
    Off,
    /// Those of [`sampled_rows`].
    Fast,
    /// Those of [`all_rows`].
    Full,
}

/// The numbers of rows that are prepared where no product has more than `most`: those of the list up to there, ascending, and
/// `most` itself.
///
/// ```
/// use engine::sizing::warm_up::{WarmUp, rows};
///
/// assert_eq!(rows(WarmUp::Fast, Some(4096), 1028)[1022..], [1023, 1024, 1026, 1028]);
/// assert_eq!(rows(WarmUp::Full, Some(4096), 1028)[1022..], [1023, 1024, 1025, 1026, 1027, 1028]);
/// assert_eq!(rows(WarmUp::Fast, Some(512), 3), [1, 2, 3]);
/// assert!(rows(WarmUp::Off, Some(4096), 1028).is_empty());
/// ```
#[must_use]
pub fn rows(warm_up: WarmUp, chunk: Option<usize>, most: usize) -> Vec<usize> {
    let list: Box<dyn Iterator<Item = usize>> = match warm_up {
        WarmUp::Off => return Vec::new(),
        WarmUp::Fast => Box::new(sampled_rows(chunk).into_iter()),
        WarmUp::Full => Box::new(all_rows(chunk)),
    };
    list.take_while(|&rows| rows < most).chain((most > 0).then_some(most)).collect()
}

/// Of an ascending list, the numbers that stand for those up to them: the powers of two from `least` on, with
/// [`WarmUp::Full`] also the numbers in the middle between two, and the last.
///
/// ```
/// use engine::sizing::warm_up::{WarmUp, representatives};
///
/// let list: Vec<usize> = (1..=100).collect();
/// assert_eq!(representatives(WarmUp::Fast, &list, 16), [16, 32, 64, 100]);
/// assert_eq!(representatives(WarmUp::Full, &list, 16), [16, 24, 32, 48, 64, 96, 100]);
/// ```
#[must_use]
pub fn representatives(warm_up: WarmUp, list: &[usize], least: usize) -> Vec<usize> {
    let is_middle = |rows: usize| rows.is_multiple_of(3) && (rows / 3).is_power_of_two();
    let stands = |rows: usize| rows.is_power_of_two() || (warm_up == WarmUp::Full && is_middle(rows));
    let last = list.last().copied();
    list.iter().copied().filter(|&rows| Some(rows) == last || (rows >= least && stands(rows))).collect()
}

/// Numbers of rows in ascending order: each up to 1024, then every second up to 2048, every fourth up to 4096 and so
/// on, up to a chunk of at most 32768 (16384 if prompts are not cut, which is `None`), and with it.
///
/// No number is beyond both 1024 and the chunk, whatever the chunk.
///
/// ```
/// use engine::sizing::warm_up::sampled_rows;
///
/// let rows = sampled_rows(Some(3000));
/// assert_eq!(rows.len(), 1024 + 512 + 238);
/// assert_eq!(rows[1023..1026], [1024, 1026, 1028]);
/// assert_eq!(rows[rows.len() - 3..], [2992, 2996, 3000]);
/// ```
#[must_use]
pub fn sampled_rows(chunk: Option<usize>) -> Vec<usize> {
    let largest = chunk.map_or(SAMPLED_WITHOUT_CHUNKS, |chunk| chunk.min(LARGEST_SAMPLED_CHUNK));
    let mut rows: Vec<usize> = (1..=EVERY).collect();
    let (mut from, mut step) = (EVERY, 2);
    while from < largest {
        rows.extend((from..largest.min(2 * from)).step_by(step).skip(usize::from(from == EVERY)));
        (from, step) = (2 * from, 2 * step);
    }
    if largest > EVERY {
        rows.push(largest);
    }
    rows
}

/// All numbers of rows: up to 16384; twice the chunk if that is above 8192, 65536 if prompts are not cut (`None`), and
/// 131072 at most.
///
/// ```
/// use engine::sizing::warm_up::all_rows;
///
/// assert_eq!(all_rows(Some(512)), 1..=16_384);
/// assert_eq!(all_rows(Some(10_000)), 1..=20_000);
/// ```
#[must_use]
pub fn all_rows(chunk: Option<usize>) -> RangeInclusive<usize> {
    let largest = match chunk {
        None => ALL_WITHOUT_CHUNKS,
        Some(chunk) if chunk > LARGE_CHUNK => chunk.saturating_mul(2).min(MOST),
        Some(_) => ALL,
    };
    1..=largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::prefill_budget::ChunkSize;

    fn chunk(number: i64) -> Option<usize> {
        ChunkSize::from_number(Some(number)).tokens(0)
    }

    #[test]
    fn sampled_lists_by_hand() {
        // Chunk; count, last three numbers. Between 1024 and 2048 there are 512 numbers, as between any power of
        // two and the next; 1024 itself is in the first part. With the end of the list:
        // 1024 + (512 − 1) + 512 · k + 1.
        let table: [(i64, usize, [usize; 3]); 10] = [
            (-1, 1024 + 511 + 3 * 512 + 1, [16_352, 16_368, 16_384]),
            (0, 1024 + 511 + 3 * 512 + 1, [16_352, 16_368, 16_384]),
            (1, 1024, [1022, 1023, 1024]),
            (512, 1024, [1022, 1023, 1024]),
            (1024, 1024, [1022, 1023, 1024]),
            (1025, 1025, [1023, 1024, 1025]),
            // 1026 … 2046 is 511 numbers, 2048 … 2996 by 4 is 238, and 3000.
            (3000, 1024 + 511 + 238 + 1, [2992, 2996, 3000]),
            (8192, 1024 + 511 + 2 * 512 + 1, [8176, 8184, 8192]),
            (16_384, 1024 + 511 + 3 * 512 + 1, [16_352, 16_368, 16_384]),
            (65_536, 1024 + 511 + 4 * 512 + 1, [32_704, 32_736, 32_768]),
        ];
        for (number, count, last) in table {
            let rows = sampled_rows(chunk(number));
            assert_eq!((rows.len(), &rows[rows.len() - 3..]), (count, &last[..]), "{number}");
            assert_eq!(rows[..1024], (1..=1024).collect::<Vec<_>>(), "{number}");
        }
    }

    #[test]
    fn whole_lists_by_hand() {
        let table = [
            (-1, 65_536),
            (0, 65_536),
            (512, 16_384),
            (1024, 16_384),
            (3000, 16_384),
            (8192, 16_384),
            (8193, 16_386),
            (16_384, 32_768),
            (65_536, 131_072),
            (i64::MAX, 131_072),
        ];
        for (number, largest) in table {
            assert_eq!(all_rows(chunk(number)), 1..=largest, "{number}");
        }
    }

    #[test]
    fn no_number_of_rows_that_can_come_is_left_out_but_by_sampling() {
        let table: [(WarmUp, usize, usize, usize, &[usize]); 8] = [
            // Mode, chunk, most; count and last numbers.
            (WarmUp::Fast, 512, 512, 512, &[511, 512]),
            (WarmUp::Fast, 512, 64, 64, &[63, 64]),
            // A step that is longer than the list, since the list has an end of its own.
            (WarmUp::Fast, 65_536, 65_536, 1024 + 511 + 4 * 512 + 2, &[32_736, 32_768, 65_536]),
            // A context in which a chunk has no room.
            (WarmUp::Fast, 4096, 1027, 1024 + 2, &[1024, 1026, 1027]),
            (WarmUp::Full, 512, 512, 512, &[511, 512]),
            (WarmUp::Full, 65_536, 65_536, 65_536, &[65_535, 65_536]),
            (WarmUp::Full, 4096, 1, 1, &[1]),
            (WarmUp::Off, 4096, 1027, 0, &[]),
        ];
        for (warm_up, chunk, most, count, last) in table {
            let rows = rows(warm_up, Some(chunk), most);
            assert_eq!((rows.len(), &rows[rows.len() - last.len()..]), (count, last), "{warm_up:?} {chunk} {most}");
            assert!(rows.is_sorted_by(|one, next| one < next), "{warm_up:?} {chunk} {most}");
        }
        assert_eq!(rows(WarmUp::Full, None, 0), [0; 0]);
    }

    #[test]
    fn representatives_by_hand() {
        let fast = rows(WarmUp::Fast, Some(2048), 2048);
        assert_eq!(representatives(WarmUp::Fast, &fast, 16), [16, 32, 64, 128, 256, 512, 1024, 2048]);
        let full = rows(WarmUp::Full, Some(64), 20);
        assert_eq!(representatives(WarmUp::Full, &full, 16), [16, 20]);
        assert_eq!(representatives(WarmUp::Full, &full[..5], 16), [5]);
        assert_eq!(representatives(WarmUp::Fast, &[], 16), [0; 0]);
    }

    #[test]
    fn lists_ascend_reach_the_chunk_and_stop_there() {
        for tokens in (1..40_000).step_by(37) {
            let rows = sampled_rows(Some(tokens));
            assert!(rows.is_sorted_by(|one, next| one < next), "{tokens}");
            assert_eq!(rows.last(), Some(&tokens.clamp(1024, 32_768)), "{tokens}");
            assert!(rows.windows(2).all(|pair| pair[1] - pair[0] <= 1 + pair[0] / 512), "gaps grow with the rows");
        }
    }
}
