//! Which experts a token goes to.

/// How much a chosen expert counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertWeights {
    /// As its probability among all experts: the weights of a token sum to less than one.
    Softmax,
    /// As its share of the probability of the chosen ones: the weights of a token sum to one.
    Renormalised,
}

/// The experts that each token was given to.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    /// Experts of a token.
    pub per_token: usize,
    /// `[tokens, per_token]`, the likeliest first; of equally likely ones that of the lower number first.
    pub experts: Vec<u32>,
    /// `[tokens, per_token]`, how much each of them counts.
    pub weights: Vec<f32>,
}

/// Gives each token to its `per_token` likeliest of `experts` experts; `logits` is `[tokens, experts]`.
///
/// # Panics
///
/// When the logits are no rows of `experts`, or there are fewer experts than a token needs.
///
/// ```
/// use kernels::cpu::{ExpertWeights, route};
///
/// let routing = route(&[0.0, 2.0, 0.0, 1.0], 4, 2, ExpertWeights::Renormalised);
/// assert_eq!(routing.experts, [1, 3]);
/// assert!((routing.weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
/// ```
#[must_use]
pub fn route(logits: &[f32], experts: usize, per_token: usize, weights: ExpertWeights) -> Routing {
    assert!(experts > 0 && logits.len().is_multiple_of(experts), "{} logits for {experts} experts", logits.len());
    assert!((1..=experts).contains(&per_token), "{per_token} of {experts} experts");
    let tokens = logits.len() / experts;
    let mut routing = Routing {
        per_token,
        experts: Vec::with_capacity(tokens * per_token),
        weights: Vec::with_capacity(tokens * per_token),
    };
    let mut order: Vec<u32> = Vec::with_capacity(experts);
    for logits in logits.chunks_exact(experts) {
        order.clear();
        order.extend(0..experts as u32);
        // Adding zero makes the two zeros one; the sort is stable.
        let logit = |expert: u32| logits[expert as usize] + 0.0;
        order.sort_by(|&a, &b| logit(b).total_cmp(&logit(a)));
        let chosen = &order[..per_token];
        let power = |expert: u32| (logit(expert) - logit(order[0])).exp();
        let total: f32 = match weights {
            ExpertWeights::Softmax => (0..experts as u32).map(power).sum(),
            ExpertWeights::Renormalised => chosen.iter().copied().map(power).sum(),
        };
        routing.weights.extend(chosen.iter().map(|&expert| power(expert) / total));
        routing.experts.extend(chosen);
    }
    routing
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_close};
    use super::{ExpertWeights, route};

    /// Softmax, then the largest one after another, in double precision.
    fn reference(logits: &[f32], per_token: usize, weights: ExpertWeights) -> (Vec<u32>, Vec<f64>) {
        let powers: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp()).collect();
        let total: f64 = powers.iter().sum();
        let mut left: Vec<Option<f64>> = powers.iter().map(|power| Some(power / total)).collect();
        let mut chosen = Vec::new();
        for _ in 0..per_token {
            let mut best = None;
            for (expert, probability) in left.iter().enumerate() {
                if let Some(probability) = probability
                    && best.is_none_or(|(_, most)| *probability > most)
                {
                    best = Some((expert, *probability));
                }
            }
            let (expert, probability) = best.expect("experts are left");
            left[expert] = None;
            chosen.push((expert as u32, probability));
        }
        let sum: f64 = chosen.iter().map(|(_, probability)| probability).sum();
        let divisor = if weights == ExpertWeights::Renormalised { sum } else { 1.0 };
        (chosen.iter().map(|(e, _)| *e).collect(), chosen.iter().map(|(_, p)| p / divisor).collect())
    }

    #[test]
    fn matches_float64_for_every_size_and_both_kinds_of_weight() {
        let mut random = Random::announced(0x726f_7574);
        for (tokens, experts, per_token) in [(1, 1, 1), (5, 4, 2), (3, 8, 8), (40, 60, 4), (9, 128, 8)] {
            let logits: Vec<f32> = random.floats(tokens * experts).iter().map(|x| x * 5.0).collect();
            for weights in [ExpertWeights::Softmax, ExpertWeights::Renormalised] {
                let routing = route(&logits, experts, per_token, weights);
                let want: Vec<_> = logits.chunks(experts).map(|logits| reference(logits, per_token, weights)).collect();
                let (chosen, shares): (Vec<_>, Vec<_>) = want.into_iter().unzip();
                assert_eq!(routing.experts, chosen.concat(), "{per_token} of {experts}");
                assert_close(&routing.weights, &shares.concat(), 1e-6, &format!("{weights:?}, {experts} experts"));
            }
        }
    }

    #[test]
    fn of_equal_experts_the_first_are_taken() {
        for weights in [ExpertWeights::Softmax, ExpertWeights::Renormalised] {
            let logits = [1.0, 3.0, 1.0, 3.0, 1.0, -0.0, 0.0, -0.0, 0.0, -0.0];
            assert_eq!(route(&logits, 5, 3, weights).experts, [1, 3, 0, 0, 1, 2]);
        }
    }

    #[test]
    fn logits_beyond_the_range_of_the_exponential_are_no_matter() {
        let routing = route(&[900.0, -900.0, 899.0, 0.0], 4, 3, ExpertWeights::Softmax);
        assert_eq!(routing.experts, [0, 2, 3]);
        assert_close(&routing.weights, &[0.731_058_578_630_004_9, 0.268_941_421_369_995_1, 0.0], 1e-6, "large");
    }

    #[test]
    fn a_token_is_routed_alone_as_among_others() {
        let mut random = Random::announced(0x616c_6f6e);
        let logits = random.floats(7 * 16);
        let all = route(&logits, 16, 3, ExpertWeights::Renormalised);
        for (token, logits) in logits.chunks(16).enumerate() {
            let alone = route(logits, 16, 3, ExpertWeights::Renormalised);
            assert_eq!(alone.experts, all.experts[token * 3..][..3]);
            assert_eq!(alone.weights, all.weights[token * 3..][..3]);
        }
    }
}
