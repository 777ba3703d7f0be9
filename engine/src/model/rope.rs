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
        if let RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } = self.scaling {
            positive("factor", factor)?;
            positive("low_freq_factor", low_freq_factor)?;
            positive("high_freq_factor - low_freq_factor", high_freq_factor - low_freq_factor)?;
            positive("original_max_position_embeddings", original_context)?;
        }
        Ok(())
    }

    /// Radians per token for each of the `head_dim / 2` pairs.
    #[must_use]
    pub fn inverse_frequencies(&self, head_dim: usize) -> Vec<f64> {
        let pairs = head_dim / 2;
        (0..pairs).map(|pair| self.stretch(self.theta.powf(-(pair as f64) / pairs as f64))).collect()
    }

    fn stretch(&self, frequency: f64) -> f64 {
        match self.scaling {
            RopeScaling::None => frequency,
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                let turns = original_context * frequency / TAU;
                let keep = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                let keep = keep.clamp(0.0, 1.0);
                frequency * (keep + (1.0 - keep) / factor)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rope, RopeScaling};

    #[test]
    fn llama3_keeps_high_frequencies_divides_low_ones_and_passes_smoothly() {
        let plain = Rope { theta: 500_000.0, scaling: RopeScaling::None };
        let scaling =
            RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192.0 };
        let stretched = Rope { scaling, ..plain.clone() };
        let ratios: Vec<f64> = plain
            .inverse_frequencies(128)
            .iter()
            .zip(stretched.inverse_frequencies(128))
            .map(|(plain, stretched)| plain / stretched)
            .collect();
        assert!((ratios[0] - 1.0).abs() < 1e-12 && (ratios[63] - 8.0).abs() < 1e-12, "{ratios:?}");
        assert!(ratios.is_sorted(), "{ratios:?}");
        assert!(ratios.iter().any(|&ratio| ratio > 1.01 && ratio < 7.9), "{ratios:?}");
    }
}
