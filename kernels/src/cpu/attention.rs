//! Causal attention over keys and values kept in pages.

use super::matmul::dot_block;
use super::simd::{exp_shifted, max, weighted_sums};
use super::{Isa, Workers};

/// The keys and values of one layer, `[pages · page_size, kv_heads, head_dim]` each.
///
/// Token `p` of a sequence lies in slot `block_table[p / page_size] · page_size + p % page_size`.
#[derive(Clone, Copy)]
pub struct PagedKv<'a> {
    /// The keys, already rotated.
    pub keys: &'a [f32],
    /// The values.
    pub values: &'a [f32],
    /// Tokens per page, at least one.
    pub page_size: usize,
}

/// The head counts and sizes of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` consecutive query heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// The tokens that a token sees, itself and those before it, at least one. Nothing: all.
    pub window: Option<usize>,
}

/// The new tokens of one sequence within a batch.
#[derive(Clone, Copy, Debug)]
pub struct SequenceSpan<'a> {
    /// The pages of the sequence, in order.
    pub block_table: &'a [u32],
    /// Tokens of the sequence that precede the new ones.
    pub cached: usize,
    /// New tokens, whose keys and values are in the pages already.
    pub new: usize,
}

/// The tokens that are attended to at once, before the next ones are.
///
/// It is part of the order of additions, so it depends on nothing.
const PIECE: usize = 128;

/// The most query heads whose sums are taken together: with more the sums leave the registers.
const HEADS_TOGETHER: usize = 4;

impl PagedKv<'_> {
    /// Where the vectors of tokens `first..` of one head begin, in the keys as in the values.
    fn starts(&self, pages: &[u32], shape: AttentionShape, head: usize, first: usize, starts: &mut [usize]) {
        let token_len = shape.kv_heads * shape.head_dim;
        let (mut page, mut within) = (first / self.page_size, first % self.page_size);
        let mut rest = starts;
        while !rest.is_empty() {
            let (own, others) = rest.split_at_mut(rest.len().min(self.page_size - within));
            let slot = pages[page] as usize * self.page_size + within;
            for (at, start) in own.iter_mut().enumerate() {
                *start = (slot + at) * token_len + head * shape.head_dim;
            }
            (page, within, rest) = (page + 1, 0, others);
        }
    }
}

/// Attention of each new token over its sequence, or the window of it, up to and including itself; scores are scaled by `1 / sqrt(head_dim)`.
///
/// `q` is `[tokens, q_row_len]`, a row beginning with `[heads, head_dim]`; `out` is `[tokens, heads, head_dim]`; tokens are those of
/// `sequences`, one sequence after another. Parallel over tokens, key heads and, where these are few, pieces of the context.
///
/// The context of a token is cut into pieces of 128 tokens, its oldest first. In each, the weights are the powers of *e* of the
/// scores less the largest, and values are added in the order of tokens. The pieces are added in order, each after the sum so
/// far was brought to the largest score yet.
///
/// # Panics
///
/// When the lengths do not fit one another or a block table is too short or names a page that is not there.
pub fn paged_attention(
    workers: &Workers,
    (q, q_row_len): (&[f32], usize),
    kv: PagedKv<'_>,
    shape: AttentionShape,
    sequences: &[SequenceSpan<'_>],
    out: &mut [f32],
) {
    let AttentionShape { heads, kv_heads, head_dim, window } = shape;
    assert!(kv_heads > 0 && heads.is_multiple_of(kv_heads), "{heads} heads over {kv_heads}");
    assert!(window != Some(0), "a window of no tokens");
    let owners: Vec<(SequenceSpan<'_>, usize)> =
        sequences.iter().flat_map(|&span| (0..span.new).map(move |new| (span, span.cached + new))).collect();
    assert_eq!(out.len(), owners.len() * heads * head_dim, "output of another shape");
    assert_eq!(q.len(), owners.len() * q_row_len, "queries of another shape");
    if out.is_empty() {
        return;
    }
    let group = heads / kv_heads;
    let isa = workers.isa();
    let sums_len = group * (head_dim + 2);
    // The tokens seen by the token of an item, which is one token and one key head: `group` consecutive query heads.
    let context = |item: usize| {
        let (_, position) = owners[item / kv_heads];
        let seen = window.map_or(position + 1, |window| window.min(position + 1));
        position + 1 - seen..position + 1
    };
    let attend = |item: usize, piece: usize, sums: &mut [f32]| {
        let (token, kv_head) = (item / kv_heads, item % kv_heads);
        let tokens = context(item);
        let first = tokens.start + piece * PIECE;
        let mut starts = [0; PIECE];
        let starts = &mut starts[..PIECE.min(tokens.end - first)];
        kv.starts(owners[token].0.block_table, shape, kv_head, first, starts);
        let first_query = token * q_row_len + kv_head * group * head_dim;
        let queries = &q[first_query..first_query + group * head_dim];
        Sums::of(sums, head_dim).attend(isa, queries, kv, starts);
    };
    let pieces = (0..owners.len() * kv_heads).map(|item| context(item).len().div_ceil(PIECE)).max().unwrap_or(1);
    if pieces == 1 || owners.len() * kv_heads >= 4 * workers.threads() {
        return workers.for_each_row(out, group * head_dim, |item, out| {
            let mut sums = vec![0.0; 2 * sums_len];
            let (all, next) = sums.split_at_mut(sums_len);
            attend(item, 0, all);
            for piece in 1..context(item).len().div_ceil(PIECE) {
                attend(item, piece, next);
                Sums::of(all, head_dim).add(isa, &Sums::of(next, head_dim));
            }
            Sums::of(all, head_dim).finish(out);
        });
    }
    let mut sums = vec![0.0; owners.len() * kv_heads * pieces * sums_len];
    workers.for_each_row(&mut sums, sums_len, |index, sums| {
        let (item, piece) = (index / pieces, index % pieces);
        if piece * PIECE < context(item).len() {
            attend(item, piece, sums);
        }
    });
    let items = sums.chunks_exact_mut(pieces * sums_len).zip(out.chunks_exact_mut(group * head_dim));
    for (item, (sums, out)) in items.enumerate() {
        let (all, others) = sums.split_at_mut(sums_len);
        for next in others.chunks_exact_mut(sums_len).take(context(item).len().div_ceil(PIECE) - 1) {
            Sums::of(all, head_dim).add(isa, &Sums::of(next, head_dim));
        }
        Sums::of(all, head_dim).finish(out);
    }
}

/// What the query heads of one key head have gathered from some tokens.
struct Sums<'a> {
    head_dim: usize,
    /// The largest score of each head.
    largest: &'a mut [f32],
    /// The sum of the weights of each head.
    total: &'a mut [f32],
    /// The weighted sum of the values, `[heads, head_dim]`.
    values: &'a mut [f32],
}

impl<'a> Sums<'a> {
    fn of(numbers: &'a mut [f32], head_dim: usize) -> Self {
        let heads = numbers.len() / (head_dim + 2);
        let (largest, rest) = numbers.split_at_mut(heads);
        let (total, values) = rest.split_at_mut(heads);
        Self { head_dim, largest, total, values }
    }

    /// Attends to the tokens whose vectors begin at `starts`; there are [`PIECE`] at most.
    fn attend(&mut self, isa: Isa, queries: &[f32], kv: PagedKv<'_>, starts: &[usize]) {
        let Self { head_dim, largest, total, values } = self;
        let head_dim = *head_dim;
        let scale = (head_dim as f32).sqrt().recip();
        let mut weights = [[0.0; PIECE]; HEADS_TOGETHER];
        let heads = queries.chunks(HEADS_TOGETHER * head_dim).zip(values.chunks_mut(HEADS_TOGETHER * head_dim));
        let heads = heads.zip(largest.chunks_mut(HEADS_TOGETHER).zip(total.chunks_mut(HEADS_TOGETHER)));
        for ((queries, values), (largest, total)) in heads {
            dot_block(
                isa,
                (largest.len(), |head| &queries[head * head_dim..(head + 1) * head_dim]),
                (starts.len(), |at: usize| &kv.keys[starts[at]..starts[at] + head_dim]),
                |head, at, score| weights[head][at] = score * scale,
            );
            for ((weights, largest), total) in weights.iter_mut().zip(&mut *largest).zip(total) {
                let weights = &mut weights[..starts.len()];
                *largest = max(isa, weights);
                *total = exp_shifted(isa, weights, *largest);
            }
            let [first, second, third, fourth] = weights.each_ref().map(|weights| &weights[..starts.len()]);
            let value = |at: usize| &kv.values[starts[at]..starts[at] + head_dim];
            let mut out = values.chunks_exact_mut(head_dim);
            match (out.next(), out.next(), out.next(), out.next()) {
                (Some(a), Some(b), Some(c), Some(d)) => {
                    weighted_sums(isa, [first, second, third, fourth], value, [a, b, c, d]);
                }
                (Some(a), Some(b), Some(c), None) => weighted_sums(isa, [first, second, third], value, [a, b, c]),
                (Some(a), Some(b), ..) => weighted_sums(isa, [first, second], value, [a, b]),
                (Some(a), ..) => weighted_sums(isa, [first], value, [a]),
                (None, ..) => {}
            }
        }
    }

    /// Adds what was gathered from the tokens that follow.
    fn add(&mut self, isa: Isa, next: &Sums<'_>) {
        let values = self.values.chunks_exact_mut(self.head_dim).zip(next.values.chunks_exact(self.head_dim));
        let heads =
            self.largest.iter_mut().zip(&*next.largest).zip(self.total.iter_mut().zip(&*next.total)).zip(values);
        for (((largest, &next_largest), (total, &next_total)), (values, next_values)) in heads {
            let both = [*largest, next_largest];
            *largest = max(isa, &both);
            let mut factors = both;
            exp_shifted(isa, &mut factors, *largest);
            *total = *total * factors[0] + next_total * factors[1];
            for (value, next) in values.iter_mut().zip(next_values) {
                *value = *value * factors[0] + next * factors[1];
            }
        }
    }

    /// Divides by the sums of the weights.
    fn finish(&self, out: &mut [f32]) {
        let heads = out.chunks_exact_mut(self.head_dim).zip(self.values.chunks_exact(self.head_dim));
        for ((out, values), total) in heads.zip(&*self.total) {
            let share = total.recip();
            for (out, value) in out.iter_mut().zip(values) {
                *out = value * share;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // Where results are compared so, they are exact.
mod tests {
    use std::num::NonZeroUsize;

    use super::super::testing::{Random, assert_close, workers_of_every_kind};
    use super::super::{Isa, Workers};
    use super::{AttentionShape, PagedKv, SequenceSpan, paged_attention};

    /// Keys and values of one sequence without pages, `[tokens, kv_heads, head_dim]`.
    struct Dense {
        keys: Vec<f32>,
        values: Vec<f32>,
    }

    fn reference(q: &[f32], dense: &Dense, shape: AttentionShape, position: usize) -> Vec<f64> {
        let AttentionShape { heads, kv_heads, head_dim, window } = shape;
        let oldest = window.map_or(0, |window| (position + 1).saturating_sub(window));
        let row = |from: &[f32], at: usize, head: usize| -> Vec<f64> {
            let start = (at * kv_heads + head) * head_dim;
            from[start..start + head_dim].iter().map(|&x| f64::from(x)).collect()
        };
        (0..heads)
            .flat_map(|head| {
                let kv_head = head / (heads / kv_heads);
                let query = &q[head * head_dim..(head + 1) * head_dim];
                let weights: Vec<f64> = (oldest..=position)
                    .map(|at| {
                        let key = row(&dense.keys, at, kv_head);
                        let dot: f64 = query.iter().zip(key).map(|(&q, k)| f64::from(q) * k).sum();
                        (dot / (head_dim as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = weights.iter().sum();
                (0..head_dim).map(move |i| (i, weights.clone(), total)).map({
                    let values = &dense.values;
                    move |(i, weights, total)| {
                        let weighted = |(at, weight): (usize, &f64)| weight * row(values, oldest + at, kv_head)[i];
                        weights.iter().enumerate().map(weighted).sum::<f64>() / total
                    }
                })
            })
            .collect()
    }

    #[test]
    fn gathers_through_shuffled_block_tables_for_any_page_size_head_ratio_and_window() {
        let mut random = Random::announced(0x6174_746e);
        for workers in workers_of_every_kind() {
            for page_size in [1, 2, 7, 16] {
                for (heads, kv_heads, head_dim, window) in
                    [(1, 1, 8, None), (4, 2, 16, Some(5)), (9, 3, 64, None), (8, 1, 20, Some(1)), (6, 6, 5, Some(18))]
                {
                    let shape = AttentionShape { heads, kv_heads, head_dim, window };
                    let spans = [(0, 1), (0, 19), (33, 1), (17, 6), (0, 0), (300, 1), (126, 4)];
                    check(&workers, &mut random, page_size, shape, &spans);
                    // Alone it is too little for all threads, so that they share its context.
                    check(&workers, &mut random, page_size, shape, &[(516, 1)]);
                    // So are two of them, one of which has fewer pieces.
                    check(&workers, &mut random, page_size, shape, &[(516, 1), (200, 1)]);
                }
            }
        }
    }

    #[test]
    fn a_token_gets_the_same_bits_alone_on_any_number_of_threads_and_in_a_batch() {
        let mut random = Random::announced(0x7069_6563);
        let shape = AttentionShape { heads: 6, kv_heads: 2, head_dim: 24, window: None };
        let (tokens, page_size) = (300, 16);
        let keys = random.floats(304 * 48);
        let values = random.floats(304 * 48);
        let q = random.floats(tokens * 144);
        let block_table: Vec<u32> = (0..19).rev().collect();
        let kv = PagedKv { keys: &keys, values: &values, page_size };
        for isa in Isa::available() {
            let attended = |threads: usize, cached: usize, new: usize| {
                let workers =
                    Workers::with_isa(NonZeroUsize::new(threads).expect("not zero"), isa).expect("threads start");
                let span = SequenceSpan { block_table: &block_table, cached, new };
                let mut out = vec![f32::NAN; new * 144];
                let q = &q[cached * 144..(cached + new) * 144];
                paged_attention(&workers, (q, 144), kv, shape, &[span], &mut out);
                out
            };
            let all = attended(2, 0, tokens);
            for token in [0, 126, 127, 128, 129, 255, 256, 299] {
                for threads in [1, 2, 5] {
                    let alone = attended(threads, token, 1);
                    assert_eq!(alone, all[token * 144..(token + 1) * 144], "{isa:?}, token {token}, {threads} threads");
                }
            }
        }
    }

    fn check(
        workers: &Workers,
        random: &mut Random,
        page_size: usize,
        shape: AttentionShape,
        spans: &[(usize, usize)],
    ) {
        let token_len = shape.kv_heads * shape.head_dim;
        let pages_of = |tokens: usize| tokens.div_ceil(page_size);
        let total_pages: usize = spans.iter().map(|(cached, new)| pages_of(cached + new)).sum::<usize>() + 3;
        let mut free: Vec<u32> = (0..total_pages as u32).collect();
        // What no sequence owns is NaN, so that reading a wrong slot shows.
        let mut keys = vec![f32::NAN; total_pages * page_size * token_len];
        let mut values = keys.clone();
        let mut tables = Vec::new();
        let mut dense = Vec::new();
        for (cached, new) in spans {
            let tokens = cached + new;
            let table: Vec<u32> = (0..pages_of(tokens)).map(|_| free.swap_remove(random.below(free.len()))).collect();
            let own = Dense { keys: random.floats(tokens * token_len), values: random.floats(tokens * token_len) };
            for token in 0..tokens {
                let slot = table[token / page_size] as usize * page_size + token % page_size;
                let (to, from) = (slot * token_len, token * token_len);
                keys[to..to + token_len].copy_from_slice(&own.keys[from..from + token_len]);
                values[to..to + token_len].copy_from_slice(&own.values[from..from + token_len]);
            }
            tables.push(table);
            dense.push(own);
        }
        let sequences: Vec<SequenceSpan<'_>> = spans
            .iter()
            .zip(&tables)
            .map(|(&(cached, new), table)| SequenceSpan { block_table: table, cached, new })
            .collect();
        let tokens: usize = spans.iter().map(|(_, new)| new).sum();
        let width = shape.heads * shape.head_dim;
        let q_row_len = width + 3;
        let q = random.floats(tokens * q_row_len);
        let mut out = vec![0.0; tokens * width];
        let kv = PagedKv { keys: &keys, values: &values, page_size };
        paged_attention(workers, (&q, q_row_len), kv, shape, &sequences, &mut out);

        let mut want = Vec::new();
        let mut queries = q.chunks(q_row_len);
        for (&(cached, new), dense) in spans.iter().zip(&dense) {
            for position in cached..cached + new {
                let query = queries.next().expect("one row per token");
                want.extend(reference(&query[..width], dense, shape, position));
            }
        }
        assert_close(&out, &want, 2e-6, &format!("{:?}, pages of {page_size}, {shape:?}", workers.isa()));
    }
}
