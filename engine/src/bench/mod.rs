//! How fast is a model here, and is it right?
//!
//! [`one_batch`] times one batch without a server or a scheduler, [`correctness`] compares ways of computing the same
//! thing. Both take a [`Runner`] and plain values.

pub mod correctness;
pub mod one_batch;

use crate::runner::Runner;
use crate::sampling::Random;

/// `count` tokens of the model's vocabulary, each as likely as any other.
///
/// The same seed gives the same tokens for the same vocabulary.
#[must_use]
pub fn random_tokens(runner: &Runner, seed: u64, count: usize) -> Vec<u32> {
    let mut random = Random::new(seed);
    let vocab_size = runner.config().vocab_size as u64;
    (0..count).map(|_| (random.bits() % vocab_size) as u32).collect()
}

/// The likeliest token; of equally likely ones the one with the lowest id. Nothing where there is none, or a logit is no
/// number.
fn likeliest(logits: &[f32]) -> Option<u32> {
    let mut best: Option<(usize, f32)> = None;
    for (id, &logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if best.is_none_or(|(_, most)| logit > most) {
            best = Some((id, logit));
        }
    }
    best.map(|(id, _)| id as u32)
}

#[cfg(test)]
mod tests {
    use super::likeliest;

    #[test]
    fn the_first_of_the_likeliest_is_chosen() {
        assert_eq!(likeliest(&[0.5, 2.0, 2.0, 1.0]), Some(1));
        assert_eq!(likeliest(&[f32::NEG_INFINITY]), Some(0));
        assert_eq!((likeliest(&[]), likeliest(&[1.0, f32::NAN])), (None, None));
    }
}
