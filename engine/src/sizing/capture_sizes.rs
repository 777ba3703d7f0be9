//! Which batch sizes are prepared in advance?
//!
//! A batch runs in the smallest prepared size that holds it. Which are wanted is known before memory is divided; which
//! are fitted, only when the rows for requests are there. The steps of single tokens on CUDA are captured in these sizes;
//! nothing else calls this yet. It will be the rule of `exec.graph.{cuda_graph_bs_decode, cuda_graph_bs_prefill}`, from
//! the largest sizes and `exec.graph.disable_cuda_graph_padding`.

use std::ops::RangeInclusive;

/// Sizes from first to last in equal steps.
type Run = (RangeInclusive<usize>, usize);

const OPEN: usize = usize::MAX;
const DECODE: &[Run] = &[(1..=1, 1), (2..=2, 1), (4..=12, 4), (16..=256, 8), (272..=511, 16), (512..=OPEN, 32)];
const SPECULATIVE: &[Run] = &[(1..=8, 1), (10..=32, 2), (40..=64, 4), (72..=256, 8), (272..=OPEN, 16)];
const CPU: &[Run] = &[(1..=16, 1), (18..=30, 2), (32..=80, 4), (84..=OPEN, 8)];
const PREFILL: &[Run] =
    &[(4..=32, 4), (48..=256, 16), (288..=512, 32), (576..=1024, 64), (1280..=4096, 256), (4608..=OPEN, 512)];

/// What decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decode {
    /// A GPU, one token for each request: 1, 2, 4, 8, 12, then 16 to 256 by 8, to 511 by 16, and on by 32.
    Plain,
    /// A GPU that verifies drafts: 1 to 8, 10 to 32 by 2, 40 to 64 by 4, 72 to 256 by 8, and on by 16.
    Speculative,
    /// A CPU: 1 to 16, 18 to 30 by 2, 32 to 80 by 4, and on from 84 by 8.
    Cpu,
}

/// Decode batches that are wanted, in requests, up to `largest` and with it. Without padding each batch needs a size of
/// its own: 1 to `largest`.
#[must_use]
pub fn wanted_decode(decode: Decode, largest: usize, has_padding: bool) -> Vec<usize> {
    if !has_padding {
        return (1..=largest).collect();
    }
    let mut sizes = up_to(
        match decode {
            Decode::Plain => DECODE,
            Decode::Speculative => SPECULATIVE,
            Decode::Cpu => CPU,
        },
        largest,
    );
    if largest > 0 && sizes.last() != Some(&largest) {
        sizes.push(largest);
    }
    sizes
}

/// Prefill sizes that are wanted, in tokens, up to `largest`: 4 to 32 by 4, 48 to 256 by 16, 288 to 512 by 32, 576 to
/// 1024 by 64, 1280 to 4096 by 256, and on from 4608 by 512.
#[must_use]
pub fn wanted_prefill(largest: usize) -> Vec<usize> {
    up_to(PREFILL, largest)
}

fn up_to(runs: &[Run], largest: usize) -> Vec<usize> {
    let sizes = runs.iter().flat_map(|(run, step)| (*run.start()..=largest.min(*run.end())).step_by(*step));
    sizes.collect()
}

/// The wanted sizes that fit: those of at most `rows` requests, with `rows` itself if larger ones were wanted, whose
/// requests have together a multiple of `alignment` tokens at `width` each.
///
/// # Panics
/// If the alignment is 0.
#[must_use]
pub fn fitted(wanted: &[usize], rows: usize, width: usize, alignment: usize) -> Vec<usize> {
    let mut sizes: Vec<_> = wanted.iter().copied().filter(|size| *size <= rows).collect();
    let has_larger = wanted.len() > sizes.len();
    if has_larger && rows > 0 && !sizes.contains(&rows) {
        sizes.push(rows);
    }
    sizes.retain(|size| (size * width).is_multiple_of(alignment));
    sizes
}

/// The smallest size that holds `count`; `None`: it runs unprepared. Sizes ascend.
#[must_use]
pub fn bucket(sizes: &[usize], count: usize) -> Option<usize> {
    sizes.get(sizes.partition_point(|size| *size < count)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lists_by_hand() {
        let plain = |largest| wanted_decode(Decode::Plain, largest, true);
        assert_eq!(plain(0), [0; 0]);
        assert_eq!(plain(1), [1]);
        assert_eq!(plain(3), [1, 2, 3]);
        assert_eq!(plain(8), [1, 2, 4, 8]);
        assert_eq!(plain(48), [1, 2, 4, 8, 12, 16, 24, 32, 40, 48]);
        assert_eq!(plain(50), [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 50]);
        let speculative = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 40, 44, 48];
        assert_eq!(wanted_decode(Decode::Speculative, 48, true), speculative);
        let cpu: Vec<_> = (1..=16).chain([18, 20, 22, 24, 26, 28, 30, 32, 36, 40]).collect();
        assert_eq!(wanted_decode(Decode::Cpu, 40, true), cpu);
        assert_eq!(wanted_prefill(80), [4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 80]);
        for decode in [Decode::Plain, Decode::Speculative, Decode::Cpu] {
            assert_eq!(wanted_decode(decode, 5, false), [1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn neighbours_at_every_seam() {
        // Two sizes that follow each other where the step changes.
        let check = |sizes: &[usize], pairs: &[(usize, usize)]| {
            for pair in pairs {
                assert!(sizes.windows(2).any(|two| (two[0], two[1]) == *pair), "{pair:?} in {sizes:?}");
            }
        };
        check(
            &wanted_decode(Decode::Plain, 1024, true),
            &[(12, 16), (16, 24), (248, 256), (256, 272), (272, 288), (496, 512), (512, 544), (992, 1024)],
        );
        check(
            &wanted_decode(Decode::Speculative, 512, true),
            &[(8, 10), (10, 12), (32, 40), (40, 44), (64, 72), (72, 80), (256, 272), (272, 288), (496, 512)],
        );
        check(&wanted_decode(Decode::Cpu, 200, true), &[(16, 18), (30, 32), (32, 36), (80, 84), (84, 92), (188, 196)]);
        check(
            &wanted_prefill(8192),
            &[
                (32, 48),
                (48, 64),
                (256, 288),
                (512, 576),
                (576, 640),
                (1024, 1280),
                (4096, 4608),
                (4608, 5120),
                (7680, 8192),
            ],
        );
        // 8 + 14 + 8 + 8 + 12 + 8
        assert_eq!(wanted_prefill(8192).len(), 58);
        // 5 + 31, and 15 more up to 496, then 512
        assert_eq!(wanted_decode(Decode::Plain, 256, true).len(), 36);
        assert_eq!(wanted_decode(Decode::Plain, 512, true).len(), 52);
    }

    #[test]
    fn what_fits_by_hand() {
        let wanted = [1, 2, 4, 8, 12, 16, 24];
        assert_eq!(fitted(&wanted, 24, 1, 1), wanted);
        assert_eq!(fitted(&wanted, 100, 1, 1), wanted);
        assert_eq!(fitted(&wanted, 10, 1, 1), [1, 2, 4, 8, 10]);
        assert_eq!(fitted(&wanted, 12, 1, 1), [1, 2, 4, 8, 12]);
        assert_eq!(fitted(&wanted, 0, 1, 1), [0; 0]);
        assert_eq!(fitted(&[4, 8], 1, 1, 1), [1]);
        assert_eq!(fitted(&wanted, 24, 1, 8), [8, 16, 24]);
        assert_eq!(fitted(&wanted, 24, 4, 8), [2, 4, 8, 12, 16, 24]);
        assert_eq!(fitted(&wanted, 10, 1, 4), [4, 8], "the rows too have to be aligned");
        assert_eq!(
            [0, 1, 3, 12, 13, 24, 25].map(|count| bucket(&wanted, count)),
            [Some(1), Some(1), Some(4), Some(12), Some(16), Some(24), None]
        );
    }

    #[test]
    fn lists_ascend_and_hold_every_batch() {
        for decode in [Decode::Plain, Decode::Speculative, Decode::Cpu] {
            for largest in 1..700 {
                let sizes = wanted_decode(decode, largest, true);
                assert!(sizes.is_sorted_by(|one, next| one < next) && sizes.last() == Some(&largest));
                for rows in [1, 7, largest] {
                    let fitted = fitted(&sizes, rows, 1, 1);
                    assert!(fitted.is_sorted_by(|one, next| one < next));
                    let most = rows.min(largest);
                    assert!((1..=most).all(|count| bucket(&fitted, count).is_some_and(|size| size >= count)));
                    assert_eq!(bucket(&fitted, most + 1), None);
                }
            }
        }
        for largest in 0..700 {
            let sizes = wanted_prefill(largest);
            assert!(sizes.is_sorted_by(|one, next| one < next) && sizes.iter().all(|size| *size <= largest));
        }
    }
}
