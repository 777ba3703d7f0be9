//! Choosing the next token.
//!
//! Everything here is a function of values: logits, the tokens so far, what the request asks for. In this order, which is
//! that of Hugging Face's generation:
//!
//! 1. Penalties, on the logits: repetition (of tokens of prompt and output), then frequency and presence (of tokens of the
//!    output).
//! 2. Temperature. At 0 the likeliest token is taken, and what follows does not matter.
//! 3. Top-k: the `k` likeliest tokens stay.
//! 4. Top-p: of those, the fewest likeliest that have the share `p` of their probability stay.
//! 5. Min-p: of those, the ones at least `p` times as likely as the likeliest stay.
//! 6. One token is drawn from what is left, by a random number that depends on the seed and the position alone.
//!
//! Of equally likely tokens the one with the lower id ranks first. Log-probabilities are those of the model, before all of
//! this.
//!
//! ```
//! use engine::sampling::{History, Sampling, choose};
//!
//! let sampling = Sampling { temperature: 0.8, top_k: 2, seed: 7, ..Sampling::default() };
//! let history = History { prompt: &[3, 1], output: &[] };
//! let token = choose(&[0.1, 2.0, -1.0, 1.9], history, &sampling)?;
//! assert!([1, 3].contains(&token));
//! // The same seed at the same position gives the same token, whatever else was drawn meanwhile.
//! assert_eq!(choose(&[0.1, 2.0, -1.0, 1.9], history, &sampling)?, token);
//! # Ok::<(), engine::sampling::SamplingError>(())
//! ```

mod logprobs;
mod penalties;
mod random;
mod shortlist;

use std::borrow::Cow;

pub use logprobs::{Logprob, TokenLogprobs};
pub use random::Random;

/// How the tokens of one request are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0: always the likeliest token.
    pub temperature: f32,
    /// How many of the likeliest tokens may be chosen; 0 for all.
    pub top_k: usize,
    /// The share of the probability that tokens which may be chosen have together; 1 for all tokens.
    pub top_p: f32,
    /// How likely a token must be, as a share of the likeliest one's probability; 0 for all tokens.
    pub min_p: f32,
    /// Divides positive logits, and multiplies negative ones, of tokens that are in the prompt or the output; 1 changes none.
    pub repetition_penalty: f32,
    /// Taken from the logits of tokens that are in the output.
    pub presence_penalty: f32,
    /// Taken from the logit of a token for each time it is in the output.
    pub frequency_penalty: f32,
    /// Where the random numbers of the request start.
    pub seed: u64,
}

impl Default for Sampling {
    /// The likeliest token, every time.
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Whether every number is one that can be computed with.
    pub fn check(&self) -> Result<(), SamplingError> {
        let rules: [(bool, &'static str, f32, &'static str); 6] = [
            (self.temperature >= 0.0, "temperature", self.temperature, "at least 0"),
            (self.top_p > 0.0 && self.top_p <= 1.0, "top-p", self.top_p, "above 0 and at most 1"),
            ((0.0..=1.0).contains(&self.min_p), "min-p", self.min_p, "within 0..=1"),
            (self.repetition_penalty > 0.0, "repetition penalty", self.repetition_penalty, "above 0"),
            (true, "presence penalty", self.presence_penalty, "finite"),
            (true, "frequency penalty", self.frequency_penalty, "finite"),
        ];
        match rules.into_iter().find(|(holds, _, value, _)| !holds || !value.is_finite()) {
            Some((_, name, value, wanted)) => Err(SamplingError::BadParameter { name, value, wanted }),
            None => Ok(()),
        }
    }
}

/// The tokens before the one that is chosen.
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    /// Those that were given.
    pub prompt: &'a [u32],
    /// Those that were chosen.
    pub output: &'a [u32],
}

impl History<'_> {
    /// The position of the token that is chosen next.
    fn position(&self) -> u64 {
        (self.prompt.len() + self.output.len()) as u64
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
    /// A number of [`Sampling`] is outside what makes sense.
    #[error("{name} {value} is not a number {wanted}")]
    BadParameter {
        /// Its name.
        name: &'static str,
        /// The number.
        value: f32,
        /// What it has to be.
        wanted: &'static str,
    },
}

/// The likeliest token, the first of several.
pub fn greedy(logits: &[f32]) -> Result<u32, SamplingError> {
    let (mut best, mut max) = (None, f32::NEG_INFINITY);
    for (token, &logit) in logits.iter().enumerate() {
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(SamplingError::BadLogit { token, logit });
        }
        if logit > max {
            (best, max) = (Some(token), logit);
        }
    }
    best.map(|token| token as u32).ok_or(SamplingError::NoCandidate)
}

/// Chooses the token that follows `history`.
pub fn choose(logits: &[f32], history: History<'_>, sampling: &Sampling) -> Result<u32, SamplingError> {
    sampling.check()?;
    let mut logits = Cow::Borrowed(logits);
    if penalties::are_wanted(sampling) {
        penalties::apply(logits.to_mut(), history, sampling);
    }
    let best = greedy(&logits)?;
    if sampling.temperature == 0.0 {
        return Ok(best);
    }
    let candidates = shortlist::candidates(&logits, logits[best as usize], sampling);
    Ok(shortlist::draw(&candidates, random::unit_at(sampling.seed, history.position())))
}

/// How likely the model finds `token`, and its `top` likeliest tokens, likeliest first.
#[must_use]
pub fn logprobs(logits: &[f32], token: u32, top: usize) -> TokenLogprobs {
    logprobs::of(logits, token, top)
}

#[cfg(test)]
mod tests;
