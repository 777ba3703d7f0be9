//! A chunk of a run as the kernels for runs compute it: in their number format, rounded where they round and nowhere else.
//!
//! Everything between two roundings is in double precision, and what has no memory of its own is written as the sum that it
//! is. So its errors are those of the format, and none of the kernels' tiles, copies and approximations.

use super::{Token, bf16};

/// Takes the state of a head, `[value_dim, key_dim]`, through a chunk; the results, `[tokens, value_dim]`.
///
/// Rounded are the solutions of the triangular system for keys and for values, the state before the chunk where it is
/// multiplied, what tokens have learnt and what is left of it at the end, and the weights of tokens.
pub(super) fn solve_chunk(tokens: &[Token], scale: f64, state: &mut [f64]) -> Vec<f64> {
    // Logarithms, from the start of the chunk.
    let decays: Vec<f64> = tokens
        .iter()
        .scan(0.0, |sum, token| {
            *sum += token.log_decay;
            Some(*sum)
        })
        .collect();
    let since = |later: usize, earlier: usize| (decays[later] - decays[earlier]).exp();
    let last = tokens.len() - 1;

    // What a token would learn if the state were zeros, and by how much less for a state.
    let (mut of_values, mut of_keys): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    for (later, token) in tokens.iter().enumerate() {
        let mut of_value = times(&token.value, token.beta);
        let mut of_key = times(&token.key, token.beta * decays[later].exp());
        for earlier in 0..later {
            let taken = -token.beta * since(later, earlier) * product(&token.key, &tokens[earlier].key);
            add(&mut of_value, taken, &of_values[earlier]);
            add(&mut of_key, taken, &of_keys[earlier]);
        }
        of_values.push(of_value);
        of_keys.push(of_key);
    }

    let key_dim = tokens[0].key.len();
    let before: Vec<f64> = state.iter().map(|&s| bf16(s)).collect();
    let learnt: Vec<Vec<f64>> = of_values
        .iter()
        .zip(&of_keys)
        .map(|(of_value, of_key)| {
            let of_key: Vec<f64> = of_key.iter().map(|&w| bf16(w)).collect();
            of_value.iter().zip(before.chunks_exact(key_dim)).map(|(&u, row)| bf16(u) - product(row, &of_key)).collect()
        })
        .collect();

    let mut results = Vec::new();
    for (later, token) in tokens.iter().enumerate() {
        let factor = scale * decays[later].exp();
        let mut result: Vec<f64> =
            before.chunks_exact(key_dim).map(|row| factor * product(row, &token.query)).collect();
        for earlier in 0..=later {
            let weight = bf16(scale * since(later, earlier) * product(&token.query, &tokens[earlier].key));
            result.iter_mut().zip(&learnt[earlier]).for_each(|(sum, &u)| *sum += weight * bf16(u));
        }
        results.extend(result);
    }

    for (row, s) in state.chunks_exact_mut(key_dim).enumerate() {
        for s in s.iter_mut() {
            *s *= decays[last].exp();
        }
        for (number, token) in tokens.iter().enumerate() {
            let left = bf16(learnt[number][row] * since(last, number) * token.key_factor);
            add(s, left / token.key_factor, &token.key);
        }
    }
    results
}

fn times(values: &[f64], factor: f64) -> Vec<f64> {
    values.iter().map(|value| value * factor).collect()
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(sums: &mut [f64], factor: f64, values: &[f64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
}
