//! Which guesses of a draft are worth verifying?
//!
//! A guess counts only if all before it in its request hold; the chance of that is its survival. Verifying the `n`
//! likeliest guesses of all requests gives so many tokens a step on average, and the more are verified the fewer steps
//! a second there are. The planner takes the `n` that gives the most tokens a second. What is verified changes how fast
//! a text comes, never the text.
//!
//! Nothing calls this yet. It will stand behind `spec.speculative_dspark_block_size` and
//! `spec.speculative_dspark_align_verify_tokens_to_graph_tier`, with the table of [`super::step_costs`].

use super::step_costs::StepCosts;
use crate::sizing::capture_sizes::bucket;

/// A guess that survives less often than this is not worth verifying, whatever it costs.
pub const LEAST_SURVIVAL: f64 = 1e-6;

/// Chances that the guesses of one request hold, each together with all before it, from the confidence in each. What
/// is no number counts as 0.
///
/// ```
/// use engine::speculation::verify_planner::survivals;
///
/// assert_eq!(survivals(&[0.5, 0.5, f32::NAN, 1.0]), [0.5, 0.25, 0.0, 0.0]);
/// ```
#[must_use]
pub fn survivals(confidences: &[f32]) -> Vec<f64> {
    let products = confidences.iter().scan(1.0, |product, confidence| {
        let confidence = if confidence.is_nan() { 0.0 } else { f64::from(*confidence).clamp(0.0, 1.0) };
        *product *= confidence;
        Some(*product)
    });
    products.collect()
}

/// Guesses that are worth verifying, as (request, position): the likeliest first, among equals the earlier position,
/// then the earlier request.
fn likeliest(survivals: &[Vec<f64>]) -> Vec<(usize, usize)> {
    let guesses = survivals.iter().enumerate().flat_map(|(request, of_request)| {
        let positions = of_request.iter().enumerate().filter(|(_, survival)| **survival >= LEAST_SURVIVAL);
        positions.map(move |(position, _)| (request, position))
    });
    let mut guesses: Vec<_> = guesses.collect();
    guesses.sort_by(|&(one, at_one), &(other, at_other)| {
        let by_survival = survivals[other][at_other].total_cmp(&survivals[one][at_one]);
        by_survival.then(at_one.cmp(&at_other)).then(one.cmp(&other))
    });
    guesses
}

/// How many guesses, of all requests, give the most tokens a second: (requests + sum of the largest survivals) · steps
/// a second. The least such number. If nobody measured what a step costs, all of them.
///
/// ```
/// use engine::speculation::step_costs::StepCosts;
/// use engine::speculation::verify_planner::budget;
///
/// let survivals = [vec![0.9, 0.8], vec![0.5, 0.1]];
/// assert_eq!(budget(&survivals, &StepCosts::Flat), 4);
/// // With more than four tokens a step takes twice as long: two of them are the requests' own.
/// let text = r#"{"sample_batch_tokens": [1, 5], "sample_steps_per_sec": [100.0, 50.0], "max_batch_tokens": 8}"#;
/// assert_eq!(budget(&survivals, &StepCosts::read(Some(text), 6)?), 2);
/// # Ok::<(), engine::speculation::step_costs::StepCostsError>(())
/// ```
#[must_use]
pub fn budget(survivals: &[Vec<f64>], costs: &StepCosts) -> usize {
    if *costs == StepCosts::Flat {
        return survivals.iter().map(Vec::len).sum();
    }
    let requests = survivals.len();
    let speed = |tokens: f64, guesses| tokens * costs.steps_per_second(requests, requests + guesses);
    let mut tokens = requests as f64;
    let mut best = (0, speed(tokens, 0));
    for (index, (request, position)) in likeliest(survivals).into_iter().enumerate() {
        tokens += survivals[request][position];
        let here = speed(tokens, index + 1);
        if here > best.1 {
            best = (index + 1, here);
        }
    }
    best.0
}

/// Tokens that each request verifies: its own next one, and its guesses among the `budget` likeliest.
///
/// ```
/// use engine::speculation::verify_planner::lengths;
///
/// let survivals = [vec![0.9, 0.8], vec![0.5, 0.1]];
/// assert_eq!(lengths(&survivals, 0), [1, 1]);
/// assert_eq!(lengths(&survivals, 3), [3, 2]);
/// assert_eq!(lengths(&survivals, 100), [3, 3]);
/// ```
#[must_use]
pub fn lengths(survivals: &[Vec<f64>], budget: usize) -> Vec<usize> {
    let mut lengths = vec![1; survivals.len()];
    // Survivals fall along a request, and of equals the earlier comes first: what is taken has no gap.
    for (request, _) in likeliest(survivals).into_iter().take(budget) {
        lengths[request] += 1;
    }
    lengths
}

/// The budget with what a prepared batch has room for anyway: a step of `requests` and `budget` tokens runs in the
/// smallest of the ascending `sizes` that holds it.
///
/// ```
/// use engine::speculation::verify_planner::filled;
///
/// assert_eq!(filled(3, 2, &[4, 8, 16]), 6);
/// assert_eq!(filled(30, 2, &[4, 8, 16]), 30, "it runs unprepared");
/// ```
#[must_use]
pub fn filled(budget: usize, requests: usize, sizes: &[usize]) -> usize {
    bucket(sizes, requests + budget).map_or(budget, |size| size - requests)
}

/// Confidences of the last steps.
///
/// What a step's draft says of its guesses reaches the planner two steps later, so that no step waits for it. A row
/// may have gone to another request by then, which the generation tells: of that one nothing is known.
#[derive(Debug, Clone, Default)]
pub struct ConfidenceRing {
    steps: [Vec<Recorded>; 3],
    next: usize,
}

/// What a draft said of one request's guesses.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The row of the request.
    pub row: usize,
    /// Which of the requests that had this row.
    pub generation: u64,
    /// How sure the draft is of each guess.
    pub confidences: Vec<f32>,
}

impl ConfidenceRing {
    /// Takes what the drafts of one step said.
    pub fn record(&mut self, step: Vec<Recorded>) {
        self.steps[self.next] = step;
        self.next = (self.next + 1) % self.steps.len();
    }

    /// Survivals of a row's `guesses` as its draft of two steps before the last recorded one saw them. If there was
    /// none, or it was for another request, they are sure: then all are verified, as without a planner.
    ///
    /// ```
    /// use engine::speculation::verify_planner::{ConfidenceRing, Recorded};
    ///
    /// let mut ring = ConfidenceRing::default();
    /// for confidence in [0.5, 0.6, 0.7] {
    ///     ring.record(vec![Recorded { row: 3, generation: 1, confidences: vec![confidence; 2] }]);
    /// }
    /// assert_eq!(ring.survivals(3, 1, 2), [0.5, 0.25]);
    /// assert_eq!(ring.survivals(3, 2, 2), [1.0, 1.0], "another request has the row");
    /// ```
    #[must_use]
    pub fn survivals(&self, row: usize, generation: u64, guesses: usize) -> Vec<f64> {
        // The slot to be written next holds the oldest of the three.
        let recorded =
            self.steps[self.next].iter().find(|recorded| (recorded.row, recorded.generation) == (row, generation));
        let Some(recorded) = recorded else { return vec![1.0; guesses] };
        let mut survivals = survivals(&recorded.confidences);
        survivals.resize(guesses, 0.0);
        survivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Random;

    fn costs(samples: &[(usize, f64)]) -> StepCosts {
        let (tokens, rates): (Vec<_>, Vec<_>) = samples.iter().copied().unzip();
        let text = serde_json::json!({
            "sample_batch_tokens": tokens, "sample_steps_per_sec": rates, "max_batch_tokens": 1000,
        });
        StepCosts::read(Some(&text.to_string()), 1000).expect("valid")
    }

    #[test]
    fn survivals_by_hand() {
        let table: [(&[f32], &[f64]); 5] = [
            (&[], &[]),
            (&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]),
            (&[0.5, 1.0, 0.25], &[0.5, 0.5, 0.125]),
            (&[1.0, f32::NAN, 1.0], &[1.0, 0.0, 0.0]),
            (&[2.0, -1.0, 0.5], &[1.0, 0.0, 0.0]),
        ];
        for (confidences, expected) in table {
            assert_eq!(survivals(confidences), expected);
        }
    }

    #[test]
    fn budgets_by_hand() {
        let two = [vec![0.75, 0.5], vec![0.5, 0.25]];
        // Tokens a step for 0 to 4 guesses: 2, 2.75, 3.25, 3.75, 4.
        let table: [(&[(usize, f64)], usize); 6] = [
            (&[(1, 100.0)], 4),
            // 3 tokens cost twice as much as 2: 200 against 137.5 and 200 for all four. The least wins.
            (&[(1, 100.0), (3, 50.0)], 0),
            // 275 with 3 tokens, 195 with four, 240 with six.
            (&[(1, 100.0), (4, 60.0)], 1),
            // 375 with 5, 280 with 6.
            (&[(1, 100.0), (6, 70.0)], 3),
            // 380 with 6.
            (&[(1, 100.0), (6, 95.0)], 4),
            (&[(1, 100.0), (3, 99.0), (4, 98.0), (5, 1.0)], 2),
        ];
        for (samples, expected) in table {
            assert_eq!(budget(&two, &costs(samples)), expected, "{samples:?}");
        }
        assert_eq!(budget(&[], &costs(&[(1, 1.0)])), 0);
        assert_eq!(budget(&[vec![1e-9; 7], vec![0.0; 7]], &costs(&[(1, 1.0)])), 0, "they are not worth it");
        assert_eq!(budget(&[vec![1e-9; 7], vec![0.0; 7]], &StepCosts::Flat), 14, "nobody measured");
    }

    #[test]
    fn lengths_by_hand() {
        let equal = [vec![0.5, 0.5], vec![0.5, 0.5], vec![0.9, 0.1]];
        // The likeliest, then the first positions in order of requests, then the second.
        let table = [
            (0, [1, 1, 1]),
            (1, [1, 1, 2]),
            (2, [2, 1, 2]),
            (3, [2, 2, 2]),
            (4, [3, 2, 2]),
            (5, [3, 3, 2]),
            (6, [3, 3, 3]),
            (7, [3, 3, 3]),
        ];
        for (budget, expected) in table {
            assert_eq!(lengths(&equal, budget), expected, "{budget}");
        }
        assert_eq!(lengths(&[vec![1.0, 1e-7, 1e-7]], 3), [2], "the rest is not worth it");
        assert_eq!(lengths(&[vec![1.0, LEAST_SURVIVAL, 1e-7]], 3), [3], "just worth it");
    }

    #[test]
    fn a_step_is_filled_up_to_what_is_paid_for() {
        for (budget, requests, expected) in [(0, 4, 0), (0, 3, 1), (1, 4, 4), (4, 4, 4), (13, 4, 13), (12, 4, 12)] {
            assert_eq!(filled(budget, requests, &[1, 2, 4, 8, 16]), expected, "{budget} {requests}");
        }
        assert_eq!(filled(3, 2, &[]), 3);
    }

    #[test]
    fn confidences_arrive_two_steps_late_and_for_their_own_request() {
        let said = |row, generation, confidence| Recorded { row, generation, confidences: vec![confidence; 2] };
        let mut ring = ConfidenceRing::default();
        assert_eq!(ring.survivals(0, 0, 2), [1.0, 1.0], "nothing is known yet");
        ring.record(vec![said(0, 7, 0.5), said(1, 4, 0.25)]);
        ring.record(vec![said(0, 7, 0.0)]);
        assert_eq!(ring.survivals(0, 7, 2), [1.0, 1.0], "it has not arrived");
        ring.record(vec![said(0, 7, 0.0)]);
        assert_eq!(ring.survivals(0, 7, 2), [0.5, 0.25]);
        assert_eq!(ring.survivals(1, 4, 1), [0.25]);
        assert_eq!(ring.survivals(1, 5, 2), [1.0, 1.0], "another request has the row");
        assert_eq!(ring.survivals(0, 7, 3), [0.5, 0.25, 0.0], "nothing was said of a third");
        ring.record(Vec::new());
        assert_eq!(ring.survivals(0, 7, 2), [0.0, 0.0]);
        assert_eq!(ring.survivals(1, 4, 2), [1.0, 1.0], "it was not in that step");
    }

    /// Tokens a second of given lengths.
    fn speed(survivals: &[Vec<f64>], lengths: &[usize], costs: &StepCosts) -> f64 {
        let verified = survivals.iter().zip(lengths).flat_map(|(of_request, length)| &of_request[..length - 1]);
        let tokens = survivals.len() as f64 + verified.sum::<f64>();
        tokens * costs.steps_per_second(survivals.len(), lengths.iter().sum())
    }

    /// The best speed over all lengths that there are.
    fn best_speed(survivals: &[Vec<f64>], costs: &StepCosts) -> f64 {
        let mut lengths = vec![1; survivals.len()];
        let mut best: f64 = 0.0;
        loop {
            best = best.max(speed(survivals, &lengths, costs));
            let Some(next) = (0..lengths.len()).find(|&request| lengths[request] <= survivals[request].len()) else {
                return best;
            };
            lengths[next] += 1;
            lengths[..next].fill(1);
        }
    }

    #[test]
    fn no_other_lengths_are_faster() {
        let seed = 0x706c_616e;
        eprintln!("random drafts from seed {seed:#x}");
        let mut random = Random::new(seed);
        for _ in 0..400 {
            let (requests, guesses) = (1 + random.bits() % 4, 1 + random.bits() % 4);
            // Coarse, so that there are equals.
            let mut confidence = || [0.25, 0.5, 0.75, 1.0][(random.bits() % 4) as usize];
            let drafts: Vec<_> =
                (0..requests).map(|_| survivals(&(0..guesses).map(|_| confidence()).collect::<Vec<f32>>())).collect();
            let mut rate = 1000.0;
            let samples: Vec<_> = (1..=20)
                .map(|tokens| {
                    rate *= 0.6 + 0.4 * random.unit();
                    (tokens, rate)
                })
                .collect();
            let costs = costs(&samples);
            let budget = budget(&drafts, &costs);
            let chosen = lengths(&drafts, budget);
            assert!(chosen.iter().all(|length| (1..=1 + guesses as usize).contains(length)));
            assert_eq!(chosen.iter().sum::<usize>(), drafts.len() + budget, "{drafts:?}");
            let (here, best) = (speed(&drafts, &chosen, &costs), best_speed(&drafts, &costs));
            assert!((here - best).abs() <= 1e-9 * best, "{here} of {best}: {drafts:?}");
        }
    }
}
