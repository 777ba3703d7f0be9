//! Causal attention over keys and values kept in pages.

use super::matmul::dot_block;
use super::simd::weighted_sum;
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

impl PagedKv<'_> {
    fn row<'a>(&self, from: &'a [f32], pages: &[u32], shape: AttentionShape, token: usize, head: usize) -> &'a [f32] {
        let slot = pages[token / self.page_size] as usize * self.page_size + token % self.page_size;
        let start = (slot * shape.kv_heads + head) * shape.head_dim;
        &from[start..start + shape.head_dim]
    }
}

/// Attention of each new token over its sequence, or the window of it, up to and including itself; scores are scaled by `1 / sqrt(head_dim)`.
///
/// `q` is `[tokens, q_row_len]`, a row beginning with `[heads, head_dim]`; `out` is `[tokens, heads, head_dim]`; tokens are those of
/// `sequences`, one sequence after another. Parallel over tokens and key heads.
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
    // One work item is one token and one key head: `group` consecutive query heads.
    workers.for_each_row(out, group * head_dim, |item, out| {
        let (token, kv_head) = (item / kv_heads, item % kv_heads);
        let (span, position) = owners[token];
        let first = token * q_row_len + kv_head * group * head_dim;
        let queries = &q[first..first + group * head_dim];
        let seen = window.map_or(position + 1, |window| window.min(position + 1));
        let oldest = position + 1 - seen;
        let key = |at| kv.row(kv.keys, span.block_table, shape, oldest + at, kv_head);
        let value = |at| kv.row(kv.values, span.block_table, shape, oldest + at, kv_head);
        attend(isa, (queries, head_dim), seen, key, value, out);
    });
}

/// Attention of the queries of one key head over `context` tokens.
fn attend<'a, 'b>(
    isa: Isa,
    (queries, head_dim): (&[f32], usize),
    context: usize,
    key: impl Fn(usize) -> &'a [f32],
    value: impl Fn(usize) -> &'b [f32],
    out: &mut [f32],
) {
    let group = queries.len() / head_dim;
    let scale = (head_dim as f32).sqrt().recip();
    let mut scores = vec![0.0; group * context];
    dot_block(
        isa,
        (group, |head| &queries[head * head_dim..(head + 1) * head_dim]),
        (context, key),
        |head, at, score| scores[head * context + at] = score * scale,
    );
    for (scores, out) in scores.chunks_exact_mut(context).zip(out.chunks_exact_mut(head_dim)) {
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for score in &mut *scores {
            *score = (*score - max).exp();
            total += *score;
        }
        weighted_sum(isa, scores, &value, out);
        let share = total.recip();
        for element in out {
            *element *= share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_close, workers_of_every_kind};
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
                    let spans = [(0, 1), (0, 19), (33, 1), (17, 6), (0, 0)];
                    check(&workers, &mut random, page_size, shape, &spans);
                }
            }
        }
    }

    fn check(
        workers: &super::Workers,
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
