//! Random draws of tokens and which of them are right; random penalties and masks and what they leave.

use super::acceptance::{Accuracy, Comparison, compare};
use super::guarded::Guarded;
use super::noise::{Noise, change};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::sample::{Sample, SampleArgs};
use crate::cuda::shape_logits::{Logits, Penalties, ShapeLogits, TokenMasks};

/// What is higher than any logit of a token; it lies between rows.
const BETWEEN: f32 = 1e30;

/// How one row's token is drawn.
#[derive(Debug, Clone, Copy)]
struct Settings {
    temperature: f32,
    top_k: i32,
    top_p: f32,
    min_p: f32,
    seed: u64,
    position: i32,
}

/// Rows of logits with a setting each. Of every eleven two have few different logits, two have equal ones, one has a single
/// possible token, one has none, one has a NaN, one an infinity, one has logits far apart, and one has neighbours.
#[derive(Debug, Clone)]
pub struct SampleProblem {
    vocabulary: usize,
    stride: usize,
    logits: Vec<f32>,
    settings: Vec<Settings>,
}

impl SampleProblem {
    /// `rows` rows of `vocabulary` logits, `padding` more between them.
    #[must_use]
    pub fn random(rows: usize, vocabulary: usize, padding: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let stride = vocabulary + padding;
        let mut logits = vec![BETWEEN; rows * stride];
        for (index, row) in logits.chunks_exact_mut(stride).enumerate() {
            let row = &mut row[..vocabulary];
            row.fill_with(|| noise.normal() * 3.0);
            let place = noise.below(vocabulary);
            match index % 11 {
                1 | 10 => change(row, f32::round),
                0 if index > 0 => row[place] = f32::MAX,
                2 | 8 => row.fill(if index % 2 == 0 { 0.25 } else { -0.25 }),
                3 => {
                    row.fill(f32::NEG_INFINITY);
                    if index % 2 == 0 { row[place] = f32::MIN } else { row[vocabulary - 1] = 1.0 }
                }
                4 => row.fill(f32::NEG_INFINITY),
                // Of either sign.
                5 => row[place] = if index % 2 == 0 { -f32::NAN } else { f32::NAN },
                6 => row[place] = f32::INFINITY,
                7 => change(row, |logit| logit * 100.0),
                // Neighbours, which only the last digit tells apart.
                9 => row.fill_with(|| f32::from_bits(8.0_f32.to_bits() + noise.below(256) as u32)),
                _ => {}
            }
        }
        let most = vocabulary as i32;
        let settings = (0..rows)
            .map(|_| Settings {
                temperature: [0.7, 1.0, 3.0, 30.0, 0.0, 1e-45][noise.below(6)],
                top_k: [0, 1, 3, 50, most, 10 * most][noise.below(6)],
                top_p: [1.0, 0.9, 0.5, 0.1, 1e-30][noise.below(5)],
                min_p: [0.0, 0.0, 0.05, 0.5, 1.0][noise.below(5)],
                seed: noise.below(usize::MAX) as u64,
                position: noise.below(100_000) as i32,
            })
            .enumerate()
            // Where all are equal, a cut has to leave the first ones, or the first is the likeliest. And every cut has to be
            // felt: at a high temperature what is beyond it would be drawn.
            .map(|(index, settings)| match index % 11 {
                1 => Settings { temperature: 30.0, top_k: (most - 1).max(1), top_p: 1.0, min_p: 0.0, ..settings },
                2 => Settings { temperature: 1.0, top_k: 3, top_p: 0.6, min_p: 0.0, ..settings },
                8 => Settings { temperature: 0.0, ..settings },
                9 => Settings { temperature: 30.0, top_k: (most / 25).max(1), top_p: 0.9, min_p: 0.0, ..settings },
                10 if index % 2 == 1 => Settings { temperature: 3.0, top_k: 0, top_p: 1.0, min_p: 0.5, ..settings },
                10 => Settings { temperature: 30.0, top_k: 50, top_p: 1.0, min_p: 0.0, ..settings },
                _ => settings,
            })
            .collect();
        Self { vocabulary, stride, logits, settings }
    }

    /// `draws` draws from the same row at consecutive positions: without a cut, for the shares of tokens to be counted.
    #[must_use]
    pub fn repeated(draws: usize, logits: &[f32], seed: u64) -> Self {
        let settings = (0..draws as i32)
            .map(|position| Settings { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, position })
            .collect();
        Self { vocabulary: logits.len(), stride: logits.len(), logits: logits.repeat(draws), settings }
    }

    /// Draws from 2^`bits` tokens that are equally likely, at the first number and at the last of what is a token's, of
    /// the tokens where a kernel may stop too early or too late; and the tokens.
    #[must_use]
    pub fn at_borders(bits: u32) -> (Self, Vec<i32>) {
        let vocabulary = 1 << bits;
        let shares = [0, 1, 31, 32, vocabulary - 1].map(|token: u64| [token, token]).concat();
        let settings = shares.iter().enumerate().map(|(row, &token)| {
            let first = token << (u64::BITS - bits);
            // Weights are whole numbers of 2^40 for each token, and the lowest bits of a random number are zero.
            let last = (((token + 1) << 40) - 1) << (u64::BITS - 40 - bits);
            let position = row as i32;
            let seed = seed_that_gives(if row % 2 == 0 { first } else { last }, row as u64);
            Settings { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, position }
        });
        let settings: Vec<Settings> = settings.collect();
        let vocabulary = vocabulary as usize;
        let logits = vec![0.25; settings.len() * vocabulary];
        (Self { vocabulary, stride: vocabulary, logits, settings }, shares.iter().map(|&token| token as i32).collect())
    }

    /// Draws with the kernel: tokens, and whether the memory around them was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &Sample) -> Result<(Vec<i32>, bool), CudaError> {
        let rows = self.settings.len();
        let floats = |of: fn(&Settings) -> f32| device.upload(&self.settings.iter().map(of).collect::<Vec<_>>());
        let integers = |of: fn(&Settings) -> i32| device.upload(&self.settings.iter().map(of).collect::<Vec<_>>());
        let logits = device.upload(&self.logits)?;
        let (temperature, top_p, min_p) = (floats(|s| s.temperature)?, floats(|s| s.top_p)?, floats(|s| s.min_p)?);
        let (top_k, positions) = (integers(|s| s.top_k)?, integers(|s| s.position)?);
        let seeds = device.upload(&self.settings.iter().map(|s| s.seed).collect::<Vec<_>>())?;
        let mut tokens = Guarded::<i32>::new(device, rows)?;
        device.sample(
            kernel,
            SampleArgs {
                logits: logits.slice(..self.logits.len()),
                stride: self.stride,
                vocabulary: self.vocabulary,
                temperature: temperature.slice(..rows),
                top_k: top_k.slice(..rows),
                top_p: top_p.slice(..rows),
                min_p: min_p.slice(..rows),
                seeds: seeds.slice(..rows),
                positions: positions.slice(..rows),
                tokens: tokens.view_mut(),
            },
        )?;
        tokens.read(device)
    }

    /// The first row whose token is not a right one, with the right ones. There are several where the random number is
    /// nearer to the border between two tokens than single precision can tell.
    #[must_use]
    pub fn first_wrong(&self, tokens: &[i32]) -> Option<(usize, i32, Vec<i32>)> {
        let rows = self.logits.chunks_exact(self.stride).zip(&self.settings).zip(tokens).enumerate();
        let mut right = rows.map(|(row, ((logits, settings), &token))| {
            (row, token, right_tokens(&logits[..self.vocabulary], settings))
        });
        right.find(|(_, token, right)| !right.contains(token))
    }
}

/// The tokens that a draw in double precision gives, and those that a slightly different one would.
fn right_tokens(logits: &[f32], settings: &Settings) -> Vec<i32> {
    const ROUNDING: f64 = 1e-6;
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if max.is_infinite() || logits.iter().any(|logit| logit.is_nan()) {
        return vec![-1];
    }
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // Adding zero makes the two zeros one; the sort is stable.
    order.sort_by(|&a, &b| (logits[b] + 0.0).total_cmp(&(logits[a] + 0.0)));
    if settings.temperature <= 0.0 {
        return vec![order[0] as i32];
    }
    let weight = |&token: &usize| ((f64::from(logits[token]) - f64::from(max)) / f64::from(settings.temperature)).exp();
    if settings.top_k > 0 {
        order.truncate(settings.top_k as usize);
    }
    let unit = unit_at(settings.seed, u64::from(settings.position.cast_unsigned()));
    let mut right = Vec::new();
    for slack in [1.0 - ROUNDING, 1.0, 1.0 + ROUNDING] {
        let mut kept = order.clone();
        if settings.top_p < 1.0 {
            let wanted = slack * f64::from(settings.top_p) * kept.iter().map(weight).sum::<f64>();
            let mut sum = 0.0;
            let last = kept.iter().position(|token| {
                sum += weight(token);
                sum >= wanted
            });
            kept.truncate(last.map_or(kept.len(), |last| last + 1));
        }
        kept.retain(|token| weight(token) >= slack * f64::from(settings.min_p));
        kept.sort_unstable();
        let total: f64 = kept.iter().map(weight).sum();
        let mut end = 0.0;
        for token in kept {
            let begin = end;
            end += weight(&token) / total;
            if end > begin && (begin - 5.0 * ROUNDING..end + 5.0 * ROUNDING).contains(&unit) {
                right.push(token as i32);
            }
        }
    }
    right
}

/// The number of `0.0..1.0` for a seed and a position: number `position` of the `SplitMix64` generator that starts at the
/// first number of the generator of the seed.
fn unit_at(seed: u64, position: u64) -> f64 {
    (number(number(seed, 0), position) >> 11) as f64 / (1_u64 << 53) as f64
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// Number `place` of the `SplitMix64` generator that starts at `seed`.
fn number(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(STEP.wrapping_mul(place + 1));
    z = (z ^ (z >> 30)).wrapping_mul(FACTORS[0]);
    z = (z ^ (z >> 27)).wrapping_mul(FACTORS[1]);
    z ^ (z >> 31)
}

/// The seed for which the random number at a position is `wanted`.
fn seed_that_gives(wanted: u64, position: u64) -> u64 {
    seed_of_number(seed_of_number(wanted, position), 0)
}

/// The seed of the `SplitMix64` generator whose number `place` is `number`: every step of it has an inverse.
fn seed_of_number(number: u64, place: u64) -> u64 {
    let unshifted = |z: u64, shift: u32| (0..3).fold(z, |x, _| z ^ (x >> shift));
    // Newton's method doubles the bits that are right, of which three are at first.
    let inverse = |x: u64| (0..5).fold(x, |y, _| y.wrapping_mul(2_u64.wrapping_sub(x.wrapping_mul(y))));
    let mut z = unshifted(number, 31);
    z = unshifted(z.wrapping_mul(inverse(FACTORS[1])), 27);
    z = unshifted(z.wrapping_mul(inverse(FACTORS[0])), 30);
    z.wrapping_sub(STEP.wrapping_mul(place + 1))
}

/// Logits with penalties and masks.
#[derive(Debug, Clone)]
pub struct ShapeLogitsProblem {
    rows: usize,
    vocabulary: usize,
    stride: usize,
    logits: Vec<f32>,
    /// The history of each row: tokens, and how often they are in the output. Some are outside the vocabulary.
    histories: Vec<Vec<(i32, i32)>>,
    /// Repetition, presence and frequency of each row.
    penalties: Vec<[f32; 3]>,
    words: usize,
    masks: Vec<u32>,
    mask_of_row: Vec<i32>,
}

impl ShapeLogitsProblem {
    /// `rows` rows of `vocabulary` logits, `padding` more between them; masks have bits for `mask_tokens` tokens.
    #[must_use]
    pub fn random(rows: usize, vocabulary: usize, padding: usize, mask_tokens: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let stride = vocabulary + padding;
        let mut logits = vec![BETWEEN; rows * stride];
        for row in logits.chunks_exact_mut(stride) {
            row[..vocabulary].fill_with(|| noise.normal() * 3.0);
        }
        let histories = (0..rows)
            .map(|row| {
                let mut tokens: Vec<i32> = (0..row * 2).map(|_| noise.below(vocabulary) as i32).collect();
                tokens.extend([-1, vocabulary as i32].iter().take(row));
                tokens.sort_unstable();
                tokens.dedup();
                noise.shuffle(&mut tokens);
                tokens.into_iter().map(|token| (token, noise.below(4) as i32)).collect()
            })
            .collect();
        let penalties = (0..rows)
            .map(|row| match row % 3 {
                0 => [1.0, 0.0, 0.0],
                _ => [1.0 + noise.normal().abs(), noise.normal(), noise.normal()],
            })
            .collect();
        let words = mask_tokens.div_ceil(32);
        let mask_count = rows.div_ceil(2);
        let masks = (0..mask_count * words).map(|_| noise.below(1 << 32) as u32).collect();
        let mask_of_row = (0..rows)
            .map(|row| match row % 4 {
                1 => -1,
                3 => mask_count as i32,
                _ => noise.below(mask_count) as i32,
            })
            .collect();
        Self { rows, vocabulary, stride, logits, histories, penalties, words, masks, mask_of_row }
    }

    fn solve(&self, penalise: impl Fn(f32, i32, [f32; 3]) -> f64) -> Vec<f64> {
        let mut result: Vec<f64> = self.logits.iter().map(|&logit| f64::from(logit)).collect();
        for (row, result) in result.chunks_exact_mut(self.stride).enumerate() {
            let logits = &self.logits[row * self.stride..];
            for &(token, count) in &self.histories[row] {
                let Some(token) = usize::try_from(token).ok().filter(|&token| token < self.vocabulary) else {
                    continue;
                };
                result[token] = penalise(logits[token], count, self.penalties[row]);
            }
            let mask = usize::try_from(self.mask_of_row[row]).ok();
            let Some(mask) = mask.and_then(|mask| self.masks.get(mask * self.words..(mask + 1) * self.words)) else {
                continue;
            };
            for (token, logit) in result[..self.vocabulary].iter_mut().enumerate() {
                if mask.get(token / 32).is_none_or(|word| word >> (token % 32) & 1 == 0) {
                    *logit = f64::NEG_INFINITY;
                }
            }
        }
        result
    }

    /// Shapes the logits with the kernels: all of them, and whether the memory around them was left alone.
    pub fn run(&self, device: &CudaDevice, kernels: &ShapeLogits) -> Result<(Vec<f64>, bool), CudaError> {
        let mut values = Guarded::with(device, &self.logits)?;
        let mut starts = vec![0];
        for history in &self.histories {
            starts.push(starts[starts.len() - 1] + history.len() as i32);
        }
        // The kernel must not look before the first entry, nor past the last.
        starts[0] = -3;
        starts[self.rows] = i32::MAX;
        let entries: Vec<(i32, i32)> = self.histories.concat();
        let tokens = device.upload(&entries.iter().map(|entry| entry.0).collect::<Vec<_>>())?;
        let counts = device.upload(&entries.iter().map(|entry| entry.1).collect::<Vec<_>>())?;
        let starts = device.upload(&starts)?;
        let penalty = |which: usize| device.upload(&self.penalties.iter().map(|p| p[which]).collect::<Vec<_>>());
        let (repetition, presence, frequency) = (penalty(0)?, penalty(1)?, penalty(2)?);
        let (masks, mask_of_row) = (device.upload(&self.masks)?, device.upload(&self.mask_of_row)?);
        let (rows, stride, vocabulary) = (self.rows, self.stride, self.vocabulary);
        let mut logits = Logits { values: values.view_mut(), rows, stride, vocabulary };
        let penalties = Penalties {
            starts: starts.as_view(),
            tokens: tokens.slice(..entries.len()),
            counts: counts.slice(..entries.len()),
            repetition: repetition.slice(..rows),
            presence: presence.slice(..rows),
            frequency: frequency.slice(..rows),
        };
        device.penalise(kernels, &mut logits, &penalties)?;
        let masks = TokenMasks {
            masks: masks.slice(..self.masks.len()),
            words: self.words,
            mask_of_row: mask_of_row.slice(..rows),
        };
        device.forbid(kernels, &mut logits, &masks)?;
        let (values, guards_intact) = values.read(device)?;
        Ok((values.into_iter().map(f64::from).collect(), guards_intact))
    }

    /// Compares logits with the reference, those between the rows among them.
    #[must_use]
    pub fn compare(&self, found: &[f64]) -> Comparison {
        let reference = self.solve(|logit, count, [repetition, presence, frequency]| {
            let (logit, repetition) = (f64::from(logit), f64::from(repetition));
            let less = if logit > 0.0 { logit / repetition } else { logit * repetition };
            let again = f64::from(frequency) * f64::from(count) + f64::from(presence);
            less - if count > 0 { again } else { 0.0 }
        });
        let naive = self.solve(|logit, count, [repetition, presence, frequency]| {
            let less = if logit > 0.0 { logit / repetition } else { logit * repetition };
            f64::from(less - if count > 0 { frequency * count as f32 + presence } else { 0.0 })
        });
        // Between rows lies what is far larger than any logit, and would hide every error in a relative one.
        let of_tokens = |values: &[f64]| -> Vec<f64> {
            values.chunks_exact(self.stride).flat_map(|row| &row[..self.vocabulary]).copied().collect()
        };
        compare(&of_tokens(found), &of_tokens(&naive), &of_tokens(&reference), Accuracy::F32)
    }

    /// Whether what lies between rows is as it was.
    #[must_use]
    pub fn gaps_are_intact(&self, found: &[f64]) -> bool {
        let mut gaps = found.chunks_exact(self.stride).flat_map(|row| &row[self.vocabulary..]);
        gaps.all(|&value| value.to_bits() == f64::from(BETWEEN).to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let first: Vec<u64> = (0..3).map(|place| number(1_234_567, place)).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!([0, 2].map(|place| seed_of_number(first[place], place as u64)), [1_234_567; 2]);
    }

    /// Weights 4, 3, 2 and 1 of ten: the cuts by number, share and likelihood, one after another.
    #[test]
    fn cuts_leave_what_they_say() {
        let logits = [2.0_f32.ln(), 4.0_f32.ln(), 1.0_f32.ln(), 3.0_f32.ln()];
        let all = Settings { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0, position: 0 };
        let drawn = |settings: Settings| {
            let mut tokens: Vec<i32> =
                (0..400).flat_map(|position| right_tokens(&logits, &Settings { position, ..settings })).collect();
            tokens.sort_unstable();
            tokens.dedup();
            tokens
        };
        assert_eq!(drawn(all), [0, 1, 2, 3]);
        assert_eq!(drawn(Settings { top_k: 3, ..all }), [0, 1, 3]);
        assert_eq!(drawn(Settings { top_p: 0.69, ..all }), [1, 3]);
        assert_eq!(drawn(Settings { top_p: 0.71, ..all }), [0, 1, 3]);
        // Of the three likeliest, whose weights are nine, two have more than 0.7.
        assert_eq!(drawn(Settings { top_p: 0.71, top_k: 3, ..all }), [1, 3]);
        assert_eq!(drawn(Settings { min_p: 0.6, ..all }), [1, 3]);
        assert_eq!(drawn(Settings { temperature: 0.0, ..all }), [1]);
    }
}
