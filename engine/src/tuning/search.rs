//! Which block is fastest, by what a stopwatch says?
//!
//! A block has to be faster than the built-in one by a margin, so that noise moves nothing, and each time is the least of
//! several, since all that disturbs a measurement makes it longer. Sizes are measured in the order in which they are given,
//! until the time for that is over; the rest keeps its built-in blocks. The first is measured whatever time that takes: what a
//! start has no time for would else be left to the next for ever.

use std::time::Duration;

use kernels::cuda::{GemmTile, GemmTiles};

use crate::model::MatrixFormat;

/// How often each block is measured.
const REPEATS: usize = 5;
/// Per cent by which a block has to be faster than the built-in one.
const MARGIN: u128 = 5;

/// A product with a matrix of weights, and how many rows it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// What the matrix is kept in.
    pub format: MatrixFormat,
    /// Columns of the output.
    pub columns: usize,
    /// Elements of a row.
    pub depth: usize,
    /// Rows.
    pub rows: usize,
}

/// Measures products.
pub trait Stopwatch {
    /// Why a product cannot be run.
    type Error;

    /// Makes ready what measuring the first of these sizes needs, and what the others need as far as that takes no longer.
    fn prepare(&mut self, sizes: &[Size]) -> Result<(), Self::Error>;

    /// How long a product takes in blocks of one kind; nothing where it cannot be computed in them.
    fn measure(&mut self, size: Size, tile: GemmTile) -> Result<Option<Duration>, Self::Error>;

    /// The time since measuring began.
    fn elapsed(&self) -> Duration;
}

/// What was chosen for a product of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The size; the block is for as many rows, and fewer down to the next choice.
    pub size: Size,
    /// The block.
    pub tile: GemmTile,
    /// What the product took in the built-in block.
    pub built_in: Duration,
    /// What it took in this one.
    pub best: Duration,
}

/// What has come of measuring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// One for each size that was measured, in order, until the time was over.
    pub choices: Vec<Choice>,
    /// Sizes whose products cannot be computed in the built-in block, so that there is nothing to compare with.
    pub failed: usize,
    /// Sizes that there was no time for.
    pub left: usize,
}

/// The built-in block first, and then the others that may be faster: none has more rows or columns than there are, but for
/// what does not fill one of its smallest.
#[must_use]
pub fn candidates(size: Size) -> Vec<GemmTile> {
    const SMALLEST: usize = 16;
    let built_in = GemmTiles::default().choose(size.rows, size.columns, size.depth);
    let fits = |block: usize, all: usize| block <= all.next_power_of_two().max(SMALLEST);
    let others = GemmTile::CANDIDATES
        .into_iter()
        .filter(|tile| *tile != built_in && fits(tile.rows, size.rows) && fits(tile.columns, size.columns));
    std::iter::once(built_in).chain(others).collect()
}

/// Measures the blocks of each size and chooses.
pub fn search<S: Stopwatch>(sizes: &[Size], limit: Duration, stopwatch: &mut S) -> Result<Found, S::Error> {
    let mut found = Found::default();
    for (at, &size) in sizes.iter().enumerate() {
        let limit = if found.choices.is_empty() { Duration::MAX } else { limit };
        let outcome = if stopwatch.elapsed() >= limit {
            Outcome::TimeOver
        } else {
            stopwatch.prepare(&sizes[at..])?;
            choose(size, limit, stopwatch)?
        };
        match outcome {
            Outcome::Chosen(choice) => found.choices.push(choice),
            Outcome::Failed => found.failed += 1,
            Outcome::TimeOver => {
                found.left = sizes.len() - at;
                break;
            }
        }
    }
    Ok(found)
}

/// What has come of measuring one size.
enum Outcome {
    Chosen(Choice),
    /// It does not run in the built-in block.
    Failed,
    TimeOver,
}

fn choose<S: Stopwatch>(size: Size, limit: Duration, stopwatch: &mut S) -> Result<Outcome, S::Error> {
    let tiles = candidates(size);
    let mut times: Vec<Option<Duration>> = vec![None; tiles.len()];
    // In turns, so that what changes with time, such as the clock of a GPU, does not favour one of them.
    for repeat in 0..REPEATS {
        for (tile, time) in tiles.iter().zip(&mut times) {
            if repeat > 0 && time.is_none() {
                continue;
            }
            if stopwatch.elapsed() >= limit {
                return Ok(Outcome::TimeOver);
            }
            let now = stopwatch.measure(size, *tile)?;
            *time = match (*time, now) {
                (Some(least), Some(now)) => Some(least.min(now)),
                (_, now) => now,
            };
        }
    }
    let best = winner(&times);
    let (Some(&Some(built_in)), Some(&Some(time))) = (times.first(), times.get(best)) else {
        return Ok(Outcome::Failed);
    };
    Ok(Outcome::Chosen(Choice { size, tile: tiles[best], built_in, best: time }))
}

/// Which of these times wins: the least if it is below the first by the margin, and else the first. One that is zero or
/// missing was not measured.
fn winner(times: &[Option<Duration>]) -> usize {
    let measured = |time: &Option<Duration>| time.filter(|time| !time.is_zero()).map(|time| time.as_nanos());
    let Some(built_in) = times.first().and_then(measured) else { return 0 };
    let least = times.iter().enumerate().filter_map(|(index, time)| Some((measured(time)?, index))).min();
    match least {
        Some((time, index)) if time * (100 + MARGIN) < built_in * 100 => index,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says what it is told, and counts.
    struct Told<F> {
        time: F,
        prepared: Vec<Vec<Size>>,
        measured: Vec<(Size, GemmTile)>,
        each: Duration,
        /// How long it takes to prepare.
        preparing: Duration,
    }

    impl<F: FnMut(Size, GemmTile, usize) -> Option<u64>> Stopwatch for Told<F> {
        type Error = String;

        fn prepare(&mut self, sizes: &[Size]) -> Result<(), String> {
            self.prepared.push(sizes.to_vec());
            Ok(())
        }

        fn measure(&mut self, size: Size, tile: GemmTile) -> Result<Option<Duration>, String> {
            assert_eq!(self.prepared.last().and_then(|sizes| sizes.first()), Some(&size), "it is prepared");
            let before = self.measured.iter().filter(|measured| **measured == (size, tile)).count();
            self.measured.push((size, tile));
            Ok((self.time)(size, tile, before).map(Duration::from_nanos))
        }

        fn elapsed(&self) -> Duration {
            self.each * self.measured.len() as u32 + self.preparing * self.prepared.len() as u32
        }
    }

    fn told<F: FnMut(Size, GemmTile, usize) -> Option<u64>>(time: F) -> Told<F> {
        let (prepared, measured) = (Vec::new(), Vec::new());
        Told { time, prepared, measured, each: Duration::from_secs(1), preparing: Duration::ZERO }
    }

    const LONG: Duration = Duration::from_secs(100_000);
    const SIZE: Size = Size { format: MatrixFormat::Bf16, columns: 4096, depth: 64, rows: 64 };

    #[test]
    fn a_block_wins_by_a_margin_and_not_by_noise() {
        let nanos = |times: &[u64]| times.iter().map(|&time| Some(Duration::from_nanos(time))).collect::<Vec<_>>();
        for (times, winner_) in [
            (&[1000, 953, 1000][..], 0),
            (&[1000, 952, 1000], 1),
            (&[1000, 940, 930], 2),
            (&[1000, 900, 900], 1),
            (&[1000, 2000, 3000], 0),
            (&[1000], 0),
            (&[], 0),
            // A clock that does not tick says nothing.
            (&[1000, 0, 990], 0),
            (&[0, 0, 0], 0),
            (&[0, 10, 0], 0),
        ] {
            assert_eq!(winner(&nanos(times)), winner_, "{times:?}");
        }
        assert_eq!(winner(&[None, Some(Duration::from_nanos(5))]), 0, "there is nothing to compare with");
        assert_eq!(winner(&[Some(Duration::from_nanos(9)), None, Some(Duration::from_nanos(5))]), 2);
    }

    #[test]
    fn the_least_of_several_times_counts() {
        let built_in = candidates(SIZE)[0];
        // It is slow at first, and then as fast as all others.
        let mut watch = told(|_, tile, before| Some(if tile == built_in && before < 3 { 9000 } else { 1000 }));
        let found = search(&[SIZE], LONG, &mut watch).unwrap();
        let time = Duration::from_micros(1);
        let kept = Choice { size: SIZE, tile: built_in, built_in: time, best: time };
        assert_eq!(found, Found { choices: vec![kept], ..Found::default() });
        assert_eq!(watch.measured.len(), REPEATS * candidates(SIZE).len());
    }

    #[test]
    fn each_size_gets_the_block_that_is_fastest_for_it() {
        let sizes = [16, 64, 512].map(|rows| Size { rows, ..SIZE });
        let best = sizes.map(|size| *candidates(size).last().unwrap());
        let mut watch = told(|size, tile, _| {
            let at = sizes.iter().position(|other| *other == size).unwrap();
            Some(if tile == best[at] { 500 } else { 1000 })
        });
        let found = search(&sizes, LONG, &mut watch).unwrap();
        assert_eq!(found.choices.iter().map(|choice| choice.tile).collect::<Vec<_>>(), best);
        assert_eq!(found.choices.iter().map(|choice| choice.size).collect::<Vec<_>>(), sizes);
        assert!(
            best.iter().zip(sizes).all(|(tile, size)| *tile != candidates(size)[0]),
            "all differ from the built-in"
        );
    }

    #[test]
    fn a_block_without_a_kernel_is_asked_for_once_and_never_wins() {
        let absent = candidates(SIZE)[1];
        let mut watch = told(|_, tile, _| (tile != absent).then_some(1000));
        let found = search(&[SIZE], LONG, &mut watch).unwrap();
        assert_eq!(found.choices[0].tile, candidates(SIZE)[0]);
        assert_eq!(watch.measured.iter().filter(|(_, tile)| *tile == absent).count(), 1);
    }

    #[test]
    fn when_the_time_is_over_the_rest_is_left() {
        let sizes = [16, 64, 512].map(|rows| Size { rows, ..SIZE });
        let count = |size: Size| REPEATS * candidates(size).len();
        let (first, whole) = (count(sizes[0]), count(sizes[0]) + count(sizes[1]));
        // One is measured however short the time.
        for (seconds, done) in [(0, 1), (1, 1), (first, 1), (whole - 1, 1), (whole, 2), (whole + 1, 2)] {
            let mut watch = told(|_, _, _| Some(1000));
            let found = search(&sizes, Duration::from_secs(seconds as u64), &mut watch).unwrap();
            assert_eq!((found.choices.len(), found.left), (done, 3 - done), "{seconds} s");
            assert!(watch.measured.len() <= seconds.max(first), "{seconds} s");
        }
    }

    #[test]
    fn the_time_that_compiling_takes_is_looked_at_before_each_size() {
        let sizes = [16, 64, 512].map(|rows| Size { rows, ..SIZE });
        for (seconds, prepared, done) in [(0, 1, 1), (999, 1, 1), (1500, 2, 1), (2500, 3, 2), (5000, 3, 3)] {
            let mut watch = Told { preparing: Duration::from_secs(1000), ..told(|_, _, _| Some(1000)) };
            let found = search(&sizes, Duration::from_secs(seconds), &mut watch).unwrap();
            assert_eq!(
                (watch.prepared.len(), found.choices.len(), found.left),
                (prepared, done, 3 - done),
                "{seconds} s"
            );
            assert!(watch.prepared.iter().enumerate().all(|(at, rest)| *rest == sizes[at..]), "{seconds} s");
        }
    }

    #[test]
    fn a_size_that_cannot_be_measured_is_no_choice_and_the_next_goes_on() {
        let sizes = [16, 64, 512].map(|rows| Size { rows, ..SIZE });
        // The first two lack their built-in block. The third is the first that is measured, so there is time for it.
        let mut watch = told(|size, tile, _| (size.rows == 512 || tile != candidates(size)[0]).then_some(1000));
        let found = search(&sizes, Duration::ZERO, &mut watch).unwrap();
        let measured: Vec<_> = found.choices.iter().map(|choice| choice.size).collect();
        assert_eq!((measured, found.failed, found.left), (vec![sizes[2]], 2, 0));
    }

    #[test]
    fn a_failure_ends_the_search() {
        struct Broken;
        impl Stopwatch for Broken {
            type Error = &'static str;
            fn prepare(&mut self, _: &[Size]) -> Result<(), Self::Error> {
                Ok(())
            }
            fn measure(&mut self, _: Size, _: GemmTile) -> Result<Option<Duration>, Self::Error> {
                Err("the device is lost")
            }
            fn elapsed(&self) -> Duration {
                Duration::ZERO
            }
        }
        assert_eq!(search(&[SIZE], LONG, &mut Broken), Err("the device is lost"));
    }

    #[test]
    fn blocks_that_are_larger_than_the_product_are_not_tried() {
        for (rows, columns, most_rows, most_columns) in
            [(1, 8, 16, 16), (16, 4096, 16, 128), (17, 64, 32, 64), (64, 128, 64, 128), (3000, 30_000, 128, 128)]
        {
            let tiles = candidates(Size { columns, rows, ..SIZE });
            assert!(tiles.len() > 1 || columns <= 16, "{rows} x {columns}");
            let rest = &tiles[1..];
            assert!(
                rest.iter().all(|tile| tile.rows <= most_rows && tile.columns <= most_columns),
                "{rows} x {columns}"
            );
            assert_eq!(tiles[0], GemmTiles::default().choose(rows, columns, 64));
            assert!(tiles.iter().enumerate().all(|(at, tile)| !tiles[..at].contains(tile)), "each once");
        }
    }
}
