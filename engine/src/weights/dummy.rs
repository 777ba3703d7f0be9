//! Weights that come from no file: for a model of which only the configuration is there.

use kernels::cpu::Workers;

use crate::sampling::Random;

const SEED: u64 = 1234;
/// The weights lie between this and its negative.
const LARGEST: f64 = 1e-3;

/// Fills a tensor whose rows have `columns` elements.
///
/// The numbers depend on the size of the tensor alone, so they are the same in whatever order and by however many threads
/// tensors are filled.
///
/// # Panics
///
/// When `out` does not consist of such rows.
pub fn fill(workers: &Workers, columns: usize, out: &mut [f32]) {
    workers.for_each_row(out, columns, |row, out| {
        let mut random = Random::after(SEED, (row * columns) as u64);
        out.fill_with(|| ((2.0 * random.unit() - 1.0) * LARGEST) as f32);
    });
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use kernels::cpu::Workers;

    use super::{LARGEST, fill};

    fn filled(threads: usize, columns: usize, len: usize) -> Vec<f32> {
        let workers = Workers::new(NonZeroUsize::new(threads).expect("not zero")).expect("threads start");
        let mut out = vec![0.0; len];
        fill(&workers, columns, &mut out);
        out
    }

    #[test]
    fn neither_rows_nor_threads_change_a_number() {
        let once = filled(1, 240, 240);
        for (threads, columns) in [(1, 1), (1, 6), (2, 60), (3, 16), (2, 240)] {
            assert_eq!(filled(threads, columns, 240), once, "{threads} {columns}");
        }
        assert_eq!(filled(2, 16, 4096)[..240], once);
    }

    #[test]
    fn they_are_spread_evenly_around_nothing() {
        let all = filled(2, 256, 65_536);
        assert!(all.iter().all(|weight| f64::from(weight.abs()) <= LARGEST));
        let mean = all.iter().map(|&weight| f64::from(weight)).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < LARGEST / 100.0, "{mean}");
        // A quarter lies in each quarter of the range.
        for quarter in 0..4 {
            let low = -LARGEST + LARGEST / 2.0 * f64::from(quarter);
            let inside = |weight: &&f32| (low..low + LARGEST / 2.0).contains(&f64::from(**weight));
            let share = all.iter().filter(inside).count() as f64 / all.len() as f64;
            assert!((share - 0.25).abs() < 0.01, "{quarter}: {share}");
        }
    }
}
