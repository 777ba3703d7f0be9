//! The frequencies of rotary positions.

use std::f64::consts::TAU;
use std::path::Path;

use crate::error::{Error, Result};

/// Rotary position parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base: pair `i` of `n` turns by `theta^(-i/n)` radians per token.
    pub theta: f64,
    /// How frequencies are stretched for long contexts.
    pub scaling: RopeScaling,
}

/// How frequencies are stretched for long contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All are divided by `factor`.
    Linear {
        /// What they are divided by.
        factor: f64,
    },
    /// Low frequencies are divided by `factor`, high ones kept, with a smooth passage between (Llama 3.1).
    Llama3 {
        /// What low frequencies are divided by.
        factor: f64,
        /// Frequencies of fewer turns than this within the original context are low.
        low_freq_factor: f64,
        /// Frequencies of more turns than this within the original context are high.
        high_freq_factor: f64,
        /// Tokens of context before the stretching.
        original_context: f64,
    },
    /// Low frequencies are divided by `factor`, high ones kept, with a passage between that is linear in the number of the pair; all
    /// rotated elements grow a little (`YaRN`).
    Yarn {
        /// What low frequencies are divided by.
        factor: f64,
        /// Frequencies of more turns than this within the original context are high.
        beta_fast: f64,
        /// Frequencies of fewer turns than this within the original context are low.
        beta_slow: f64,
        /// Whether the passage begins and ends at whole pairs.
        truncate: bool,
        /// Tokens of context before the stretching.
        original_context: f64,
        /// What rotated elements are multiplied by.
        attention_factor: f64,
    },
    /// Each is divided by a number that is stored with the weights, as GGUF files have it.
    Stored,
}

impl RopeScaling {
    /// What [`RopeScaling::Yarn`] multiplies by where nothing is stated.
    pub(super) fn yarn_attention_factor(factor: f64) -> f64 {
        yarn_growth(factor, 1.0)
    }

    /// The same with both `mscale` keys stated.
    pub(super) fn yarn_attention_factor_of(factor: f64, mscale: f64, mscale_all_dim: f64) -> f64 {
        yarn_growth(factor, mscale) / yarn_growth(factor, mscale_all_dim)
    }
}

fn yarn_growth(factor: f64, mscale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 }
}

impl Rope {
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let positive = |name: &str, x: f64| {
            if x.is_finite() && x > 0.0 {
                Ok(())
            } else {
                Err(Error::damaged(path, format!("rope: {name} is {x}, not a positive number")))
            }
        };
        positive("theta", self.theta)?;
        match self.scaling {
            RopeScaling::None | RopeScaling::Stored => {}
            RopeScaling::Linear { factor } => positive("factor", factor)?,
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                positive("factor", factor)?;
                positive("low_freq_factor", low_freq_factor)?;
                positive("high_freq_factor - low_freq_factor", high_freq_factor - low_freq_factor)?;
                positive("original_max_position_embeddings", original_context)?;
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, original_context, attention_factor, .. } => {
                positive("theta - 1", self.theta - 1.0)?;
                positive("factor", factor)?;
                positive("beta_slow", beta_slow)?;
                positive("beta_fast", beta_fast)?;
                positive("original_max_position_embeddings", original_context)?;
                positive("attention_factor", attention_factor)?;
            }
        }
        Ok(())
    }

    /// Radians per token for each of the `head_dim / 2` pairs, but for what [`RopeScaling::Stored`] divides them by.
    #[must_use]
    pub fn inverse_frequencies(&self, head_dim: usize) -> Vec<f64> {
        let pairs = head_dim / 2;
        (0..pairs).map(|pair| self.stretch(pair, head_dim, self.theta.powf(-(pair as f64) / pairs as f64))).collect()
    }

    /// What rotated elements are multiplied by.
    #[must_use]
    pub fn amplitude(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn { attention_factor, .. } => attention_factor,
            _ => 1.0,
        }
    }

    fn stretch(&self, pair: usize, head_dim: usize, frequency: f64) -> f64 {
        match self.scaling {
            RopeScaling::None | RopeScaling::Stored => frequency,
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                let turns = original_context * frequency / TAU;
                let keep = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                let keep = keep.clamp(0.0, 1.0);
                frequency * (keep + (1.0 - keep) / factor)
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, truncate, original_context, .. } => {
                // The pair, as a fraction, that makes so many turns within the original context.
                let pair_of =
                    |turns: f64| head_dim as f64 * (original_context / (turns * TAU)).ln() / (2.0 * self.theta.ln());
                let (mut first, mut last) = (pair_of(beta_fast), pair_of(beta_slow));
                if truncate {
                    (first, last) = (first.floor(), last.ceil());
                }
                (first, last) = (first.max(0.0), last.min(head_dim as f64 - 1.0));
                // A passage of no length is a step; one that ends before it begins has a falling ramp, as the reference has it.
                let length = last - first;
                let length = if length.abs() < 1e-9 { 0.001 } else { length };
                let divided = ((pair as f64 - first) / length).clamp(0.0, 1.0);
                frequency * (1.0 - divided + divided / factor)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rope, RopeScaling};

    fn ratios(scaling: RopeScaling, theta: f64, head_dim: usize) -> Vec<f64> {
        let plain = Rope { theta, scaling: RopeScaling::None };
        let stretched = Rope { theta, scaling };
        let stretched = stretched.inverse_frequencies(head_dim);
        plain.inverse_frequencies(head_dim).iter().zip(stretched).map(|(plain, stretched)| plain / stretched).collect()
    }

    #[test]
    fn llama3_keeps_high_frequencies_divides_low_ones_and_passes_smoothly() {
        let scaling =
            RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192.0 };
        let ratios = ratios(scaling, 500_000.0, 128);
        assert!((ratios[0] - 1.0).abs() < 1e-12 && (ratios[63] - 8.0).abs() < 1e-12, "{ratios:?}");
        assert!(ratios.is_sorted(), "{ratios:?}");
        assert!(ratios.iter().any(|&ratio| ratio > 1.01 && ratio < 7.9), "{ratios:?}");
    }

    #[test]
    fn linear_divides_all() {
        let ratios = ratios(RopeScaling::Linear { factor: 3.0 }, 10_000.0, 20);
        assert!(ratios.iter().all(|ratio| (ratio - 3.0).abs() < 1e-12), "{ratios:?}");
    }

    #[test]
    fn yarn_keeps_high_frequencies_divides_low_ones_and_passes_linearly() {
        let scaling = |truncate| RopeScaling::Yarn {
            factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate,
            original_context: 32_768.0,
            attention_factor: 1.0,
        };
        // For 128 elements and a base of 1e6, 32 turns are made by pair 23.59…, one by pair 39.65….
        let first = 128.0 * (32_768.0 / (32.0 * std::f64::consts::TAU)).ln() / (2.0 * 1e6_f64.ln());
        let last = 128.0 * (32_768.0 / std::f64::consts::TAU).ln() / (2.0 * 1e6_f64.ln());
        for (truncate, first, last) in [(true, first.floor(), last.ceil()), (false, first, last)] {
            for (pair, ratio) in ratios(scaling(truncate), 1e6, 128).into_iter().enumerate() {
                let divided = ((pair as f64 - first) / (last - first)).clamp(0.0, 1.0);
                let want = 1.0 / ((1.0 - divided) + divided / 4.0);
                assert!((ratio - want).abs() < 1e-9, "pair {pair}: {ratio}, not {want}");
            }
        }
        // One that would begin before the first pair or end beyond the head begins and ends there.
        let scaling = RopeScaling::Yarn {
            factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1e-9,
            truncate: true,
            original_context: 8.0,
            attention_factor: 1.0,
        };
        for (pair, ratio) in ratios(scaling, 1e4, 8).into_iter().enumerate() {
            let divided = pair as f64 / 7.0;
            assert!((ratio - 1.0 / ((1.0 - divided) + divided / 4.0)).abs() < 1e-9, "pair {pair}: {ratio}");
        }
        // A passage of no length is a step, at pair 0 here.
        let scaling = RopeScaling::Yarn {
            factor: 4.0,
            beta_fast: 1.0,
            beta_slow: 1.0,
            truncate: true,
            original_context: std::f64::consts::TAU,
            attention_factor: 1.0,
        };
        assert_eq!(ratios(scaling, 1e6, 8).into_iter().map(f64::round).collect::<Vec<_>>(), [1.0, 4.0, 4.0, 4.0]);
        assert!((RopeScaling::yarn_attention_factor(4.0) - 1.138_629_436_111_989).abs() < 1e-12);
        assert!((RopeScaling::yarn_attention_factor(0.5) - 1.0).abs() < 1e-12);
        assert!((RopeScaling::yarn_attention_factor_of(4.0, 0.7, 0.7) - 1.0).abs() < 1e-12);
    }
}
