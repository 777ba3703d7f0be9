//! Making tokens that were there before less likely, or more.

use std::collections::{HashMap, HashSet};

use super::{History, Sampling};

/// Whether any penalty changes anything.
pub(super) fn are_wanted(sampling: &Sampling) -> bool {
    changes(sampling.repetition_penalty, 1.0)
        || changes(sampling.presence_penalty, 0.0)
        || changes(sampling.frequency_penalty, 0.0)
}

#[allow(clippy::float_cmp)] // A number next to the neutral one does change something.
fn changes(penalty: f32, neutral: f32) -> bool {
    penalty != neutral
}

/// Changes the logits of tokens of the history. Tokens beyond the vocabulary have none.
pub(super) fn apply(logits: &mut [f32], history: History<'_>, sampling: &Sampling) {
    if changes(sampling.repetition_penalty, 1.0) {
        // Each token once, however often it is there.
        let seen: HashSet<u32> = history.prompt.iter().chain(history.output).copied().collect();
        for token in seen {
            if let Some(logit) = logits.get_mut(token as usize) {
                let penalty = sampling.repetition_penalty;
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }
    if changes(sampling.presence_penalty, 0.0) || changes(sampling.frequency_penalty, 0.0) {
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for &token in history.output {
            *counts.entry(token).or_default() += 1;
        }
        for (token, count) in counts {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit -= sampling.frequency_penalty * count as f32 + sampling.presence_penalty;
            }
        }
    }
}
