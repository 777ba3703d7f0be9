//! Choices against cases worked out by hand and against a plain float64 implementation.

use super::{History, Random, Sampling, SamplingError, choose, greedy, logprobs, penalties, shortlist};

const NO_HISTORY: History<'_> = History { prompt: &[], output: &[] };

/// The tokens that may be chosen, with their probabilities, computed the plain way: sorted whole, step by step.
fn oracle(logits: &[f32], sampling: &Sampling) -> Vec<(u32, f64)> {
    let scaled = |&logit: &f32| f64::from(logit) / f64::from(sampling.temperature);
    let max = logits.iter().map(scaled).fold(f64::NEG_INFINITY, f64::max);
    let mut tokens: Vec<(u32, f64)> = (0..).zip(logits.iter().map(|logit| (scaled(logit) - max).exp())).collect();
    let normalise = |tokens: &mut Vec<(u32, f64)>| {
        let sum: f64 = tokens.iter().map(|(_, p)| p).sum();
        for (_, p) in tokens.iter_mut() {
            *p /= sum;
        }
    };
    tokens.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if sampling.top_k > 0 {
        tokens.truncate(sampling.top_k);
    }
    normalise(&mut tokens);
    if sampling.top_p < 1.0 {
        let mut sum = 0.0;
        tokens.retain(|(_, p)| {
            let is_kept = sum < f64::from(sampling.top_p);
            sum += p;
            is_kept
        });
    }
    let threshold = tokens[0].1 * f64::from(sampling.min_p);
    tokens.retain(|&(_, p)| p > 0.0 && p >= threshold);
    normalise(&mut tokens);
    tokens.sort_unstable_by_key(|&(token, _)| token);
    tokens
}

fn kept(probabilities: &[f32], sampling: &Sampling) -> Vec<u32> {
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    shortlist::candidates(&logits, max, sampling).iter().map(|candidate| candidate.token).collect()
}

fn warm() -> Sampling {
    Sampling { temperature: 1.0, ..Sampling::default() }
}

#[test]
fn greedy_takes_the_first_of_the_best() {
    assert_eq!(greedy(&[-1.0, 3.0, 3.0, 2.0]), Ok(1));
    assert_eq!(greedy(&[f32::NEG_INFINITY, -5.0]), Ok(1));
    assert_eq!(choose(&[-1.0, 3.0, 3.0, 2.0], NO_HISTORY, &Sampling::default()), Ok(1));
}

#[test]
fn shortlists_are_those_worked_out_by_hand() {
    let p = [0.1, 0.5, 0.15, 0.25];
    let cases: [(Sampling, &[u32]); 12] = [
        (warm(), &[0, 1, 2, 3]),
        (Sampling { top_k: 2, ..warm() }, &[1, 3]),
        (Sampling { top_k: 1, ..warm() }, &[1]),
        (Sampling { top_k: 9, ..warm() }, &[0, 1, 2, 3]),
        (Sampling { top_p: 0.49, ..warm() }, &[1]),
        (Sampling { top_p: 0.51, ..warm() }, &[1, 3]),
        (Sampling { top_p: 0.8, ..warm() }, &[1, 2, 3]),
        (Sampling { top_p: 1e-6, ..warm() }, &[1]),
        (Sampling { min_p: 0.4, ..warm() }, &[1, 3]),
        (Sampling { min_p: 1.0, ..warm() }, &[1]),
        // The share is taken of what top-k left: 0.75 / 0.9 is enough.
        (Sampling { top_k: 3, top_p: 0.8, ..warm() }, &[1, 3]),
        // Temperature comes first: at 2 the probabilities go as 0.32, 0.71, 0.39, 0.5.
        (Sampling { temperature: 2.0, min_p: 0.6, ..warm() }, &[1, 3]),
    ];
    for (sampling, want) in cases {
        assert_eq!(kept(&p, &sampling), want, "{sampling:?}");
    }
    let equal = [0.25; 4];
    assert_eq!(kept(&equal, &Sampling { top_k: 2, ..warm() }), [0, 1]);
    assert_eq!(kept(&equal, &Sampling { top_p: 0.6, ..warm() }), [0, 1, 2]);
    // A share that is reached exactly is reached.
    assert_eq!(kept(&equal, &Sampling { top_p: 0.5, ..warm() }), [0, 1]);
}

#[test]
fn penalties_are_those_worked_out_by_hand() {
    let sampling =
        Sampling { repetition_penalty: 2.0, frequency_penalty: 0.5, presence_penalty: 0.25, ..Sampling::default() };
    let mut logits = [2.0, -2.0, 1.0, 0.5];
    // Token 9 is beyond the vocabulary; token 0 is in the prompt twice and divided once.
    let history = History { prompt: &[0, 1, 0, 9], output: &[2, 2] };
    penalties::apply(&mut logits, history, &sampling);
    // All of them are exact in binary.
    assert_eq!(logits.map(f32::to_bits), [1.0_f32, -4.0, 0.5 - 2.0 * 0.5 - 0.25, 0.5].map(f32::to_bits));
    // Greedy choices are penalised, too.
    let sampling = Sampling { presence_penalty: 1.5, ..Sampling::default() };
    let choose = |output| choose(&[2.0, 1.0], History { prompt: &[0], output }, &sampling);
    assert_eq!((choose(&[]), choose(&[0]), choose(&[0, 1, 1])), (Ok(0), Ok(1), Ok(0)));
    // A negative one invites tokens back.
    let sampling = Sampling { frequency_penalty: -1.0, ..Sampling::default() };
    assert_eq!(super::choose(&[2.0, 1.0], History { prompt: &[], output: &[1, 1] }, &sampling), Ok(1));
}

fn parameters() -> Vec<Sampling> {
    let mut all = Vec::new();
    for temperature in [0.3, 1.0, 2.5] {
        for top_k in [0, 1, 40, 700] {
            for top_p in [1.0, 0.95, 0.5, 0.02] {
                for min_p in [0.0, 0.05, 0.7] {
                    all.push(Sampling { temperature, top_k, top_p, min_p, ..Sampling::default() });
                }
            }
        }
    }
    all
}

#[test]
fn shortlists_and_their_probabilities_are_those_of_the_plain_implementation() {
    const SEED: u64 = 0x7368_6f72_746c;
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    for size in [1, 2, 63, 64, 65, 5_000] {
        let mut logits: Vec<f32> = (0..size).map(|_| (random.unit() * 8.0 - 4.0) as f32).collect();
        if size > 3 {
            // Equal tokens, and an impossible one.
            logits[2] = logits[1];
            logits[3] = f32::NEG_INFINITY;
        }
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for sampling in parameters() {
            let got = shortlist::candidates(&logits, max, &sampling);
            let want = oracle(&logits, &sampling);
            let total: f64 = got.iter().map(|candidate| candidate.weight).sum();
            assert_eq!(got.len(), want.len(), "{size} tokens, {sampling:?}");
            for (got, (token, p)) in got.iter().zip(&want) {
                assert_eq!(got.token, *token, "{size} tokens, {sampling:?}");
                assert!((got.weight / total - p).abs() < 1e-9, "{size} tokens, {sampling:?}: {got:?} is not {p}");
            }
        }
    }
}

/// Draws at many positions and compares how often each token came with what is expected, by the chi-square statistic.
#[test]
fn frequencies_follow_the_distribution() {
    const DRAWS: usize = 20_000;
    let logits = [1.0, 0.0, f32::NEG_INFINITY, 2.0, 0.5, -1.0, 1.9];
    let cases = [
        Sampling { seed: 1, ..warm() },
        Sampling { temperature: 0.7, seed: 2, ..warm() },
        Sampling { temperature: 1.5, top_k: 4, seed: 3, ..warm() },
        Sampling { top_p: 0.9, seed: 4, ..warm() },
        Sampling { min_p: 0.2, seed: 5, ..warm() },
        Sampling { temperature: 2.0, top_k: 5, top_p: 0.95, min_p: 0.1, seed: u64::MAX, ..warm() },
    ];
    for sampling in cases {
        let mut counts = [0_usize; 7];
        let prompt = vec![0; DRAWS];
        for position in 0..DRAWS {
            let history = History { prompt: &prompt[..position], output: &[] };
            counts[choose(&logits, history, &sampling).expect("a token") as usize] += 1;
        }
        let expected = oracle(&logits, &sampling);
        let total: usize = expected.iter().map(|&(token, _)| counts[token as usize]).sum();
        assert_eq!(total, DRAWS, "{sampling:?}: a token was drawn that may not be");
        let statistic: f64 = expected
            .iter()
            .map(|&(token, p)| {
                let want = p * DRAWS as f64;
                (counts[token as usize] as f64 - want).powi(2) / want
            })
            .sum();
        let freedom = (expected.len() - 1) as f64;
        // Mean and deviation of the statistic are `freedom` and `sqrt(2 freedom)`.
        let limit = freedom + 4.0 * (2.0 * freedom).sqrt();
        assert!(statistic < limit, "{sampling:?}: chi-square {statistic} with {freedom} degrees of freedom");
    }
}

#[test]
fn each_penalty_alone_changes_the_choice() {
    let history = History { prompt: &[], output: &[0] };
    let alone = [
        Sampling { repetition_penalty: 2.0, ..Sampling::default() },
        Sampling { presence_penalty: 0.5, ..Sampling::default() },
        Sampling { frequency_penalty: 0.5, ..Sampling::default() },
    ];
    assert_eq!(choose(&[1.0, 0.9], history, &Sampling::default()), Ok(0));
    for sampling in alone {
        assert_eq!(choose(&[1.0, 0.9], history, &sampling), Ok(1), "{sampling:?}");
    }
}

#[test]
fn a_draw_at_the_end_of_a_share_is_the_next_ones() {
    let candidates = [(3, 0.5), (5, 0.25), (6, 0.25)].map(|(token, weight)| shortlist::Candidate { token, weight });
    for (unit, token) in [(0.0, 3), (0.49, 3), (0.5, 5), (0.74, 5), (0.75, 6), (0.99, 6), (1.0, 6)] {
        assert_eq!(shortlist::draw(&candidates, unit), token, "{unit}");
    }
}

#[test]
fn seed_and_position_decide_and_nothing_else() {
    let logits = [1.0, 0.0, 0.5, 2.0];
    let tokens = [3; 400];
    let draw = |seed, position: usize, split: usize| {
        let (prompt, output) = tokens[..position].split_at(split.min(position));
        choose(&logits, History { prompt, output }, &Sampling { seed, ..warm() }).expect("a token")
    };
    let row = |seed| -> Vec<u32> { (0..400).map(|position| draw(seed, position, 0)).collect() };
    let mut backwards: Vec<u32> = (0..400).rev().map(|position| draw(5, position, 399)).collect();
    backwards.reverse();
    // Neither the order of draws, nor where the prompt ends, nor other requests matter.
    assert_eq!(row(5), backwards);
    assert_ne!(row(5), row(6));
}

#[test]
fn a_low_temperature_approaches_greedy() {
    let sampling = Sampling { temperature: 1e-30, ..warm() };
    assert_eq!(choose(&[0.0, 1e-3, -1.0], NO_HISTORY, &sampling), Ok(1));
}

#[test]
fn logprobs_are_those_of_the_plain_implementation() {
    let logits = [1.0, -3.0, 2.5, f32::NEG_INFINITY, 2.5, 30.0];
    let plain: Vec<f64> = {
        let sum: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
        logits.iter().map(|&l| (f64::from(l).exp() / sum).ln()).collect()
    };
    let got = logprobs(&logits, 0, 4);
    assert!((got.token.logprob - plain[0]).abs() < 1e-9 && got.token.token_id == 0, "{got:?}");
    let top: Vec<u32> = got.top.iter().map(|logprob| logprob.token_id).collect();
    assert_eq!(top, [5, 2, 4, 0]);
    for entry in got.top {
        assert!((entry.logprob - plain[entry.token_id as usize]).abs() < 1e-9, "{entry:?}");
    }
    assert!(logprobs(&logits, 3, 0).token.logprob == f64::NEG_INFINITY);
    let all = logprobs(&logits, 1, 99).top;
    assert_eq!(all.len(), 6);
    let sum: f64 = all.iter().map(|entry| entry.logprob.exp()).sum();
    assert!((sum - 1.0).abs() < 1e-12, "{sum}");
}

#[test]
fn bad_logits_are_errors() {
    for temperature in [0.0, 1.0] {
        let choose = |logits: &[f32]| choose(logits, NO_HISTORY, &Sampling { temperature, ..Sampling::default() });
        let error = choose(&[0.0, f32::NAN]).expect_err("not a number");
        assert!(matches!(error, SamplingError::BadLogit { token: 1, .. }), "{error}");
        let error = choose(&[f32::INFINITY, 0.0]).expect_err("infinite");
        assert!(matches!(error, SamplingError::BadLogit { token: 0, .. }), "{error}");
        assert_eq!(choose(&[f32::NEG_INFINITY]), Err(SamplingError::NoCandidate));
        assert_eq!(choose(&[]), Err(SamplingError::NoCandidate));
    }
}

#[test]
fn bad_parameters_are_named_with_what_is_right() {
    let bad = |value: f32| {
        [
            (value < 0.0, Sampling { temperature: value, ..warm() }),
            (value <= 0.0 || value > 1.0, Sampling { top_p: value, ..warm() }),
            (!(0.0..=1.0).contains(&value), Sampling { min_p: value, ..warm() }),
            (value <= 0.0, Sampling { repetition_penalty: value, ..warm() }),
            (false, Sampling { presence_penalty: value, ..warm() }),
            (false, Sampling { frequency_penalty: value, ..warm() }),
        ]
    };
    for value in [-1.0, 0.0, 0.5, 1.0, 1.5, f32::NAN, f32::INFINITY] {
        for (is_bad, sampling) in bad(value) {
            assert_eq!(sampling.check().is_err(), is_bad || !value.is_finite(), "{sampling:?}");
        }
    }
    let error = Sampling { top_p: 0.0, ..warm() }.check().expect_err("no tokens");
    assert_eq!(error.to_string(), "top-p 0 is not a number above 0 and at most 1");
    assert!(choose(&[0.0], NO_HISTORY, &Sampling { temperature: -1.0, ..warm() }).is_err());
}
