//! Choosing the next token.

/// A small seeded generator (`SplitMix64`): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of `seed` after it has given `count` numbers.
    #[must_use]
    pub fn after(seed: u64, count: u64) -> Self {
        Self(seed.wrapping_add(Self::STEP.wrapping_mul(count)))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number of `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// No token can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A logit is not a number, or infinitely likely.
    #[error("the model gave token {token} the logit {logit}")]
    BadLogit {
        /// The token.
        token: usize,
        /// Its logit.
        logit: f32,
    },
    /// Every token is impossible, or there are none.
    #[error("the model gave no token a finite logit")]
    NoCandidate,
    /// The temperature is negative or not a number.
    #[error("temperature {0} is not a number of at least 0")]
    BadTemperature(f32),
}

/// Chooses tokens for one request.
#[derive(Clone, Debug)]
pub struct Sampler {
    temperature: f32,
    random: Random,
}

impl Sampler {
    /// A sampler at `temperature` (0: always the likeliest token), with random numbers from `seed`.
    pub fn new(temperature: f32, seed: u64) -> Result<Self, SamplingError> {
        if temperature.is_finite() && temperature >= 0.0 {
            Ok(Self { temperature, random: Random::new(seed) })
        } else {
            Err(SamplingError::BadTemperature(temperature))
        }
    }

    /// Chooses a token; of equally likely best tokens, greedy sampling takes the one with the lowest id.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplingError> {
        let (mut best, mut max) = (None, f32::NEG_INFINITY);
        for (token, &logit) in logits.iter().enumerate() {
            if logit.is_nan() || logit == f32::INFINITY {
                return Err(SamplingError::BadLogit { token, logit });
            }
            if logit > max {
                (best, max) = (Some(token), logit);
            }
        }
        let best = best.ok_or(SamplingError::NoCandidate)?;
        if self.temperature == 0.0 {
            return Ok(best as u32);
        }
        let weight = |logit: f32| (f64::from(logit - max) / f64::from(self.temperature)).exp();
        let total: f64 = logits.iter().map(|&logit| weight(logit)).sum();
        let mut rest = self.random.unit() * total;
        for (token, &logit) in logits.iter().enumerate() {
            rest -= weight(logit);
            if rest < 0.0 {
                return Ok(token as u32);
            }
        }
        // Rounding left a sliver of the total unclaimed.
        Ok(best as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, Sampler, SamplingError};

    #[test]
    fn a_generator_starts_anywhere_in_its_numbers() {
        let mut random = Random::new(9);
        for count in 0..50 {
            assert_eq!(Random::after(9, count).bits(), random.bits(), "after {count}");
        }
    }

    #[test]
    fn greedy_takes_the_first_of_the_best() {
        let mut sampler = Sampler::new(0.0, 1).expect("valid");
        assert_eq!(sampler.sample(&[-1.0, 3.0, 3.0, 2.0]), Ok(1));
        assert_eq!(sampler.sample(&[f32::NEG_INFINITY, -5.0]), Ok(1));
    }

    #[test]
    fn the_seed_decides_and_frequencies_follow_the_softmax() {
        let logits = [1.0, 0.0, f32::NEG_INFINITY, 2.0];
        let draw = |seed| -> Vec<u32> {
            let mut sampler = Sampler::new(0.7, seed).expect("valid");
            (0..20_000).map(|_| sampler.sample(&logits).expect("a token")).collect()
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
        let drawn = draw(9);
        let total: f64 = logits.iter().map(|&l| (f64::from(l) / 0.7).exp()).sum();
        for (token, &logit) in logits.iter().enumerate() {
            let want = (f64::from(logit) / 0.7).exp() / total;
            let got = drawn.iter().filter(|&&t| t as usize == token).count() as f64 / drawn.len() as f64;
            assert!((got - want).abs() < 0.015, "token {token}: {got} is not {want}");
        }
    }

    #[test]
    fn a_low_temperature_approaches_greedy() {
        let mut sampler = Sampler::new(1e-30, 3).expect("valid");
        assert_eq!(sampler.sample(&[0.0, 1e-3, -1.0]), Ok(1));
    }

    #[test]
    fn bad_numbers_are_errors() {
        for temperature in [0.0, 1.0] {
            let mut sampler = Sampler::new(temperature, 0).expect("valid");
            let error = sampler.sample(&[0.0, f32::NAN]).expect_err("not a number");
            assert!(matches!(error, SamplingError::BadLogit { token: 1, .. }), "{error}");
            let error = sampler.sample(&[f32::INFINITY, 0.0]).expect_err("infinite");
            assert!(matches!(error, SamplingError::BadLogit { token: 0, .. }), "{error}");
            assert_eq!(sampler.sample(&[f32::NEG_INFINITY]), Err(SamplingError::NoCandidate));
            assert_eq!(sampler.sample(&[]), Err(SamplingError::NoCandidate));
        }
        for temperature in [-1.0, f32::NAN, f32::INFINITY] {
            assert!(Sampler::new(temperature, 0).is_err(), "{temperature}");
        }
    }
}
