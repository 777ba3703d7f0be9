//! Does every way of computing the same thing give the same answer, and is it the answer of a reference?

use std::path::Path;

use serde::Deserialize;

use super::{likeliest, random_tokens};
use crate::error::{Error, Result};
use crate::runner::{Logits, Runner, RunnerLimits};

/// How a prompt is computed: tokens per page, and tokens of the prompt that run at once.
const WAYS: [(usize, usize); 6] = [(1, 7), (1, 64), (16, 1), (16, 16), (64, 7), (64, 64)];
/// Tokens chosen one by one after the prompt.
const CONTINUED: usize = 8;

/// A place where two computations disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct Disagreement {
    /// Which computation, and against what.
    pub what: String,
    /// The token of the sequence after which it shows first.
    pub position: usize,
    /// How they differ there.
    pub how: String,
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} after token {}: {}", self.what, self.position, self.how)
    }
}

/// Prefills a random prompt whole, in chunks of several sizes and over pages of several sizes, and decodes its continuation
/// step by step; all logits have to be within `tolerance` of each other.
///
/// Gives the runner back as it was, with what disagrees.
pub fn ways_agree(mut runner: Runner, length: usize, seed: u64, tolerance: f32) -> Result<(Runner, Vec<Disagreement>)> {
    let own = runner.limits();
    let room = runner.context_length().min(runner.capacity());
    if room <= CONTINUED {
        return Err(Error::Request(format!("a room of {room} tokens is too little for the correctness test")));
    }
    let mut tokens = random_tokens(&runner, seed, length.clamp(1, room - CONTINUED));
    let prompt = tokens.len();
    // The continuation is that of decoding: one token at a time.
    let mut sequence = runner.start();
    let mut stepped = runner.extend(&mut sequence, &tokens, Logits::All)?;
    let vocab_size = runner.config().vocab_size;
    for _ in 0..CONTINUED {
        let last = &stepped[stepped.len() - vocab_size..];
        let next =
            likeliest(last).ok_or_else(|| Error::Request("the model gives logits that are no numbers".into()))?;
        tokens.push(next);
        stepped.extend(runner.extend(&mut sequence, &[next], Logits::All)?);
    }
    runner.release(sequence)?;

    let pages = |page_size: usize| tokens.len().div_ceil(page_size);
    let whole = RunnerLimits { page_size: 16, pool_pages: pages(16), chunked_prefill_size: tokens.len(), ..own };
    runner = runner.rebuild(whole)?;
    let reference = all_logits(&mut runner, &tokens)?;
    let mut found = Vec::new();
    let decode = format!("a prompt of {prompt} tokens and {CONTINUED} decode steps, against one prefill");
    found.extend(first_difference(decode, &stepped, &reference, vocab_size, tolerance));
    for (page_size, chunk) in WAYS {
        // A device has no kernels for some.
        if !runner.takes_pages_of(page_size) {
            continue;
        }
        let limits = RunnerLimits { page_size, pool_pages: pages(page_size), chunked_prefill_size: chunk, ..own };
        runner = runner.rebuild(limits)?;
        let what = format!("pages of {page_size} and chunks of {chunk}, against one prefill");
        let logits = all_logits(&mut runner, &tokens)?;
        found.extend(first_difference(what, &logits, &reference, vocab_size, tolerance));
    }
    Ok((runner.rebuild(own)?, found))
}

fn all_logits(runner: &mut Runner, tokens: &[u32]) -> Result<Vec<f32>> {
    let mut sequence = runner.start();
    let logits = runner.extend(&mut sequence, tokens, Logits::All);
    runner.release(sequence)?;
    logits
}

/// The first row with a logit that is further than `tolerance` from that of the other; what is no number is far from all
/// others.
fn first_difference(what: String, one: &[f32], other: &[f32], row: usize, tolerance: f32) -> Option<Disagreement> {
    let far = |(a, b): (&f32, &f32)| {
        let distance = (a - b).abs();
        a.to_bits() != b.to_bits() && (distance.is_nan() || distance > tolerance)
    };
    let at = one.iter().zip(other).position(far)?;
    let how = format!("token {} has the logit {}, not {}", at % row, one[at], other[at]);
    Some(Disagreement { what, position: at / row, how })
}

/// What another implementation computed: prompts and their likeliest continuations.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Reference {
    /// Several cases.
    Many {
        /// All of them.
        cases: Vec<Case>,
    },
    /// One case.
    One(Case),
}

/// A prompt and its likeliest continuation.
#[derive(Debug, Deserialize)]
pub struct Case {
    /// The prompt.
    pub prompt_ids: Vec<u32>,
    /// Its continuation.
    pub greedy_ids: Vec<u32>,
    /// How much likelier than the next one each token of the continuation was; empty if that is not known.
    #[serde(default)]
    pub margins: Vec<f32>,
}

impl Reference {
    /// Reads a JSON file: an object with `prompt_ids`, `greedy_ids` and perhaps `margins`, or with a list `cases` of such.
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        serde_json::from_str(&text).map_err(|_| {
            Error::damaged(
                path,
                "no reference: it takes prompt_ids and greedy_ids, lists of token ids, or cases of both",
            )
        })
    }

    /// The cases.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        match self {
            Self::Many { cases } => cases,
            Self::One(case) => std::slice::from_ref(case),
        }
    }
}

/// Runs the tokens of each case and compares the likeliest next token with the reference wherever that was likelier than
/// every other by at least `least_margin`.
///
/// The tokens that are run are those of the reference, so one difference does not lead to the next.
pub fn reference_agrees(runner: &mut Runner, reference: &Reference, least_margin: f32) -> Result<Vec<Disagreement>> {
    let mut found = Vec::new();
    for (index, case) in reference.cases().iter().enumerate() {
        let without = |what: &str| Error::Request(format!("case {} of the reference has no {what}", index + 1));
        let (_, fed) = case.greedy_ids.split_last().ok_or_else(|| without("greedy_ids"))?;
        if case.prompt_ids.is_empty() {
            // No token comes before the first of the continuation that could make it likely.
            return Err(without("prompt_ids"));
        }
        let tokens = [&case.prompt_ids[..], fed].concat();
        let logits = all_logits(runner, &tokens)?;
        let vocab_size = runner.config().vocab_size;
        let first = case.prompt_ids.len() - 1;
        let rows = logits.chunks(vocab_size).skip(first);
        for (step, (row, &wanted)) in rows.zip(&case.greedy_ids).enumerate() {
            let is_close = case.margins.get(step).is_some_and(|&margin| margin < least_margin);
            let got = likeliest(row);
            if got != Some(wanted) && !is_close {
                let got = got.map_or("no token".to_owned(), |got| format!("token {got}"));
                found.push(Disagreement {
                    what: format!("case {} of the reference", index + 1),
                    position: first + step,
                    how: format!("{got} is the likeliest, not token {wanted}"),
                });
                break;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_logit_that_is_too_far_is_named() {
        let difference = |one: &[f32]| first_difference("x".into(), one, &[1.0, 2.0, 3.0, 4.0], 2, 0.25);
        assert_eq!(difference(&[1.25, 2.0, 2.75, 4.0]), None);
        let found = difference(&[1.0, 2.0, 3.0, 4.5]).expect("too far");
        assert_eq!(found.to_string(), "x after token 1: token 1 has the logit 4.5, not 4");
        assert!(difference(&[1.0, f32::NAN, 3.0, 4.0]).is_some(), "what is no number agrees with nothing");
        assert_eq!(first_difference("x".into(), &[f32::INFINITY], &[f32::INFINITY], 1, 0.0), None);
    }

    #[test]
    fn references_are_one_case_or_many() {
        let one: Reference = serde_json::from_str(r#"{"prompt_ids": [1], "greedy_ids": [2], "more": 1}"#).expect("one");
        let many: Reference =
            serde_json::from_str(r#"{"cases": [{"prompt_ids": [1], "greedy_ids": [2], "margins": [0.5]}]}"#)
                .expect("many");
        assert_eq!((one.cases().len(), many.cases()[0].margins.len()), (1, 1));
        assert!(serde_json::from_str::<Reference>(r#"{"prompt_ids": [1]}"#).is_err());
    }
}
