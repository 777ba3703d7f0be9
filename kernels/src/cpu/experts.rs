//! Products of tokens with the matrices of the experts they were given to.

use rayon::prelude::*;

use super::matmul::{Rows, TILE_ROWS, columns_of, products};
use super::routing::Routing;
use super::simd::weighted_sums;
use super::{Matrix, Workers};

/// The choices of a [`Routing`] sorted by expert: all tokens of the first expert, then those of the second, and so on.
///
/// A *row* is a place in this order. Within an expert, rows are in the order of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    per_token: usize,
    /// The first row of each expert, and the end of the last one's.
    starts: Vec<usize>,
    /// The choice, as an index into the routing's lists, of each row.
    choices: Vec<usize>,
    /// The row of each choice.
    rows: Vec<usize>,
}

impl ExpertGroups {
    /// Sorts the choices of `routing` among `experts` experts.
    ///
    /// # Panics
    ///
    /// When a choice is none of them.
    #[must_use]
    pub fn new(routing: &Routing, experts: usize) -> Self {
        let mut starts = vec![0; experts + 1];
        for &expert in &routing.experts {
            starts[expert as usize + 1] += 1;
        }
        for expert in 0..experts {
            starts[expert + 1] += starts[expert];
        }
        let mut next = starts.clone();
        let mut choices = vec![0; routing.experts.len()];
        let mut rows = choices.clone();
        for (choice, &expert) in routing.experts.iter().enumerate() {
            let row = &mut next[expert as usize];
            choices[*row] = choice;
            rows[choice] = *row;
            *row += 1;
        }
        Self { per_token: routing.per_token, starts, choices, rows }
    }

    /// The number of rows: one for each choice.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.choices.len()
    }

    /// The token of a row.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    #[must_use]
    pub fn token(&self, row: usize) -> usize {
        self.choices[row] / self.per_token
    }
}

/// `y[r] = x[source(r)] · Wᵀ` for each row `r` of `groups`, where `W` is the matrix of the row's expert.
///
/// `x` is `[any, k]`, each matrix of `w` is `[n, k]`, `y` is `[rows, n]`. Parallel over experts and rows of their matrices; each
/// element has the bits that [`Matrix::multiply`] gives, so a token's result does not depend on which others there are.
///
/// # Panics
///
/// When the lengths do not fit one another, or `source` names a vector that is not there.
pub fn grouped_matmul(
    workers: &Workers,
    groups: &ExpertGroups,
    x: &[f32],
    source: impl Fn(usize) -> usize + Sync + Send,
    w: &[Matrix],
    y: &mut [f32],
) {
    assert_eq!(w.len(), groups.starts.len() - 1, "matrices of another number of experts");
    let (n, k) = w.first().map_or((0, 0), |w| (w.rows(), w.columns()));
    assert!(w.iter().all(|w| (w.rows(), w.columns()) == (n, k)), "experts of different shapes");
    assert_eq!(y.len(), groups.rows() * n, "output of another shape");
    if y.is_empty() {
        return;
    }
    let isa = workers.isa();
    let busy = groups.starts.windows(2).filter(|ends| ends[0] < ends[1]).count();
    let tasks_per_expert = (workers.threads() * 4).div_ceil(busy);
    let rows_per_task = n.div_ceil(tasks_per_expert).next_multiple_of(TILE_ROWS);

    // A task owns some columns of all rows of one expert.
    let mut tasks: Vec<Task<'_>> = Vec::new();
    let mut rest = y;
    for (w, ends) in w.iter().zip(groups.starts.windows(2)) {
        let (own, others) = rest.split_at_mut((ends[1] - ends[0]) * n);
        rest = others;
        if own.is_empty() {
            continue;
        }
        let pieces: Vec<Rows<'_>> = w.parts().flat_map(|part| part.pieces(k, rows_per_task)).collect();
        let columns = columns_of(&pieces, k, own.chunks_exact_mut(n));
        tasks.extend(pieces.into_iter().zip(columns).map(|(rows, out)| Task { rows, first_row: ends[0], out }));
    }
    workers.run(|| {
        tasks.into_par_iter().for_each(|Task { rows, first_row, mut out }| {
            let vector = |t: usize| {
                let start = source(first_row + t) * k;
                &x[start..start + k]
            };
            products(isa, (k, vector), rows, &mut out);
        });
    });
}

struct Task<'a> {
    rows: Rows<'a>,
    first_row: usize,
    out: Vec<&'a mut [f32]>,
}

/// `y[t] = Σ weight · x[r]` over the rows `r` of token `t`, in the order of its choices.
///
/// `x` is `[rows, width]`, `y` is `[tokens, width]`. Parallel over tokens.
///
/// # Panics
///
/// When the lengths do not fit one another.
pub fn combine_experts(
    workers: &Workers,
    routing: &Routing,
    groups: &ExpertGroups,
    (x, width): (&[f32], usize),
    y: &mut [f32],
) {
    let per_token = routing.per_token;
    assert_eq!(x.len(), groups.rows() * width, "rows of another shape");
    assert_eq!(y.len() * per_token, x.len(), "output of another shape");
    let isa = workers.isa();
    workers.for_each_row(y, width, |token, y| {
        let choices = token * per_token..(token + 1) * per_token;
        let rows = &groups.rows[choices.clone()];
        weighted_sums(isa, [&routing.weights[choices]], |choice| &x[rows[choice] * width..][..width], [y]);
    });
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // These results are exact.
mod tests {
    use super::super::testing::{Random, assert_close, reference, with_references, workers_of_every_kind};
    use super::super::{ElementType, ExpertWeights, route};
    use super::{ExpertGroups, Matrix, Routing, Workers, combine_experts, grouped_matmul};

    /// The matrices of experts whose numbers follow one another.
    fn matrices(w: &[f32], experts: usize, k: usize) -> Vec<Matrix> {
        w.chunks(w.len() / experts).map(|w| Matrix::floats(k, w.to_vec())).collect()
    }

    /// One product for each choice and their weighted sum.
    fn mixed(workers: &Workers, routing: &Routing, x: &[f32], w: &[Matrix]) -> Vec<f32> {
        let (n, k) = (w[0].rows(), w[0].columns());
        let groups = ExpertGroups::new(routing, w.len());
        let mut products = vec![f32::NAN; groups.rows() * n];
        grouped_matmul(workers, &groups, x, |row| groups.token(row), w, &mut products);
        let mut y = vec![f32::NAN; x.len() / k * n];
        combine_experts(workers, routing, &groups, (&products, n), &mut y);
        y
    }

    /// The same in double precision; `row` is a row of an expert's matrix.
    fn mixed_exactly<'a>(
        routing: &Routing,
        (x, k): (&[f32], usize),
        n: usize,
        row: impl Fn(usize, usize) -> &'a [f32],
    ) -> Vec<f64> {
        let mut y = vec![0.0; x.len() / k * n];
        for (choice, (&expert, &weight)) in routing.experts.iter().zip(&routing.weights).enumerate() {
            let token = choice / routing.per_token;
            for column in 0..n {
                let pairs = x[token * k..][..k].iter().zip(row(expert as usize, column));
                let dot: f64 = pairs.map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
                y[token * n + column] += f64::from(weight) * dot;
            }
        }
        y
    }

    #[test]
    fn rows_are_sorted_by_expert_and_then_by_token() {
        let routing = Routing { per_token: 2, experts: vec![3, 0, 1, 3, 0, 3], weights: vec![0.5; 6] };
        let groups = ExpertGroups::new(&routing, 5);
        assert_eq!(groups.starts, [0, 2, 3, 3, 6, 6]);
        assert_eq!(groups.choices, [1, 4, 2, 0, 3, 5]);
        assert_eq!((0..6).map(|row| groups.token(row)).collect::<Vec<_>>(), [0, 2, 1, 0, 1, 2]);
    }

    #[test]
    fn matches_a_float64_mixture_for_every_shape_and_instruction_set() {
        let mut random = Random::announced(0x6578_7065);
        for workers in workers_of_every_kind() {
            for (tokens, experts, per_token, n, k) in
                [(1, 1, 1, 1, 1), (1, 8, 2, 13, 24), (9, 4, 2, 33, 17), (70, 3, 1, 20, 40), (31, 16, 5, 6, 9)]
            {
                let logits: Vec<f32> = random.floats(tokens * experts).iter().map(|x| x * 4.0).collect();
                let routing = route(&logits, experts, per_token, ExpertWeights::Softmax);
                let x = random.floats(tokens * k);
                let w = random.floats(experts * n * k);
                let got = mixed(&workers, &routing, &x, &matrices(&w, experts, k));
                let want = mixed_exactly(&routing, (&x, k), n, |expert, row| &w[(expert * n + row) * k..][..k]);
                let case = format!("{:?}, {tokens} tokens, {per_token} of {experts}", workers.isa());
                assert_close(&got, &want, 1e-5, &case);
            }
        }
    }

    #[test]
    fn a_token_gets_the_same_bits_alone_and_in_a_batch_even_where_all_choose_one_expert() {
        let mut random = Random::announced(0x736b_6577);
        let (tokens, experts, n, k) = (33, 6, 10, 50);
        for workers in workers_of_every_kind() {
            let x = random.floats(tokens * k);
            let w = random.floats(experts * n * k);
            let skewed: Vec<f32> = random
                .floats(tokens * experts)
                .iter()
                .enumerate()
                .map(|(i, x)| x + 9.0 * f32::from(i % 6 == 4))
                .collect();
            let whole = route(&skewed, experts, 2, ExpertWeights::Renormalised);
            assert!(whole.experts.iter().step_by(2).all(|&expert| expert == 4));
            let w = matrices(&w, experts, k);
            let all = mixed(&workers, &whole, &x, &w);
            for token in 0..tokens {
                let logits = &skewed[token * experts..][..experts];
                let routing = route(logits, experts, 2, ExpertWeights::Renormalised);
                let alone = mixed(&workers, &routing, &x[token * k..][..k], &w);
                assert_eq!(alone, all[token * n..][..n], "{:?}, token {token}", workers.isa());
            }
        }
    }

    #[test]
    fn stored_experts_have_the_bits_of_those_expanded_whatever_types_are_stacked() {
        let mut random = Random::announced(0x7374_6f72);
        let (experts, k) = (4, 256);
        let types: Vec<ElementType> = with_references().collect();
        for (index, &upper) in types.iter().enumerate() {
            let lower = types[(index + 1) % types.len()];
            let (above, below) = (reference(upper), reference(lower));
            // Of four rows, each expert has the one of its number, and below it the two after that, of another type.
            let rows = |expert: usize| {
                [(&above, upper, expert), (&below, lower, (expert + 1) % 4), (&below, lower, (expert + 2) % 4)]
            };
            let numbers = |expert: usize, row: usize| {
                let ((_, numbers), _, at) = rows(expert)[row];
                &numbers[at * k..][..k]
            };
            let stored: Vec<Matrix> = (0..experts)
                .map(|expert| {
                    Matrix::stacked(rows(expert).map(|((bytes, _), element, at)| {
                        let row = element.bytes(k).expect("whole blocks");
                        Matrix::stored(element, k, bytes[at * row..][..row].to_vec())
                    }))
                })
                .collect();
            let expanded: Vec<Matrix> = (0..experts)
                .map(|expert| Matrix::floats(k, (0..3).flat_map(|row| numbers(expert, row)).copied().collect()))
                .collect();
            assert!(stored.iter().zip(&expanded).all(|(one, other)| one.bytes() < other.bytes()));
            let largest = above.1.iter().chain(&below.1).fold(0.0_f32, |largest, number| largest.max(number.abs()));
            for workers in workers_of_every_kind() {
                for tokens in [1, 2, 40] {
                    let x = random.floats(tokens * k);
                    let routing = route(&random.floats(tokens * experts), experts, 2, ExpertWeights::Softmax);
                    let got = mixed(&workers, &routing, &x, &stored);
                    let case = format!("{} over {}, {tokens} tokens, {:?}", upper.name(), lower.name(), workers.isa());
                    assert_eq!(got, mixed(&workers, &routing, &x, &expanded), "{case}");
                    assert_close(&got, &mixed_exactly(&routing, (&x, k), 3, numbers), 1e-4 * f64::from(largest), &case);
                }
            }
        }
    }

    #[test]
    fn no_tokens_are_nothing_to_do() {
        for workers in workers_of_every_kind() {
            let routing = route(&[], 3, 2, ExpertWeights::Softmax);
            assert!(mixed(&workers, &routing, &[], &matrices(&[0.0; 12], 3, 2)).is_empty());
        }
    }
}
