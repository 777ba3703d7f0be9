//! How likely the model finds tokens.

/// A token and the natural logarithm of its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob {
    /// The token.
    pub token_id: u32,
    /// At most 0; negative infinity for an impossible token.
    pub logprob: f64,
}

/// What the model found at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The token that is there.
    pub token: Logprob,
    /// The likeliest tokens, likeliest first, of equals the lower id first.
    pub top: Vec<Logprob>,
}

pub(super) fn of(logits: &[f32], token: u32, top: usize) -> TokenLogprobs {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - f64::from(max)).exp()).sum();
    let normaliser = f64::from(max) + sum.ln();
    let logprob = |token: u32| {
        let logit = logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        Logprob { token_id: token, logprob: f64::from(logit) - normaliser }
    };
    let mut ranked: Vec<u32> = (0..logits.len() as u32).collect();
    let rank = |&a: &u32, &b: &u32| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    if (1..ranked.len()).contains(&top) {
        ranked.select_nth_unstable_by(top - 1, rank);
    }
    ranked.truncate(top);
    ranked.sort_unstable_by(rank);
    TokenLogprobs { token: logprob(token), top: ranked.into_iter().map(logprob).collect() }
}
