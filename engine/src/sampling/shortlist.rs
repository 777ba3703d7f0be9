//! Which tokens may be chosen, and the draw among them.

use std::cmp::Ordering;

use super::Sampling;

/// A token that may be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) token: u32,
    /// Its probability as a share of the likeliest token's.
    pub(super) weight: f64,
}

/// Likeliest first, of equals the lower id.
fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.weight.total_cmp(&a.weight).then(a.token.cmp(&b.token))
}

/// The tokens that may be chosen at a temperature above 0, by id. `max` is the highest logit.
pub(super) fn candidates(logits: &[f32], max: f32, sampling: &Sampling) -> Vec<Candidate> {
    let temperature = f64::from(sampling.temperature);
    let weight = |logit: f32| ((f64::from(logit) - f64::from(max)) / temperature).exp();
    let all = logits.iter().enumerate().map(|(token, &logit)| Candidate { token: token as u32, weight: weight(logit) });
    let mut candidates: Vec<Candidate> = all.filter(|candidate| candidate.weight > 0.0).collect();
    let mut is_in_order = true;
    if (1..candidates.len()).contains(&sampling.top_k) {
        candidates.select_nth_unstable_by(sampling.top_k - 1, rank);
        candidates.truncate(sampling.top_k);
        is_in_order = false;
    }
    if sampling.top_p < 1.0 {
        keep_share(&mut candidates, f64::from(sampling.top_p));
        is_in_order = false;
    }
    if sampling.min_p > 0.0 {
        candidates.retain(|candidate| candidate.weight >= f64::from(sampling.min_p));
    }
    if !is_in_order {
        // The draw follows the order of ids, not that which partial sorting happens to leave.
        candidates.sort_unstable_by_key(|candidate| candidate.token);
    }
    candidates
}

/// Keeps the fewest likeliest candidates that have `share` of the probability of all; at least one.
fn keep_share(candidates: &mut Vec<Candidate>, share: f64) {
    /// Most texts are decided between few tokens, so the long tail is sorted only when it is needed.
    const FIRST: usize = 64;
    const GROWTH: usize = 8;
    let wanted = share * candidates.iter().map(|candidate| candidate.weight).sum::<f64>();
    let mut sorted = FIRST;
    loop {
        let count = sorted.min(candidates.len());
        if count < candidates.len() {
            candidates.select_nth_unstable_by(count - 1, rank);
        }
        candidates[..count].sort_unstable_by(rank);
        let mut sum = 0.0;
        let reached = candidates[..count].iter().position(|candidate| {
            sum += candidate.weight;
            sum >= wanted
        });
        if let Some(last) = reached {
            candidates.truncate(last + 1);
            return;
        }
        if count == candidates.len() {
            // Rounding left the sum a sliver short of all.
            return;
        }
        sorted *= GROWTH;
    }
}

/// The candidate at the share `unit` of the summed weights. There is at least one candidate.
pub(super) fn draw(candidates: &[Candidate], unit: f64) -> u32 {
    let total: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
    let mut rest = unit * total;
    for candidate in candidates {
        rest -= candidate.weight;
        if rest < 0.0 {
            return candidate.token;
        }
    }
    // Rounding left a sliver of the total unclaimed.
    candidates[candidates.len() - 1].token
}
