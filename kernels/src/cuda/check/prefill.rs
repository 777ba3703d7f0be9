//! Random prefill-attention problems and their solution.

use std::ops::Range;

use super::acceptance::Comparison;
use super::attention::{AttentionResult, Precision, Scoring};
use super::guarded::Guarded;
use super::noise::{BF16_NAN, Noise, to_bf16};
use super::paging::{PagedContexts, PoolOrder};
use crate::cuda::attention_rules::AttentionRules;
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::prefill_attention::{PrefillAttention, PrefillAttentionArgs, PrefillAttentionShape};

/// Elements between the queries of two tokens that belong to something else.
const GAP: usize = 24;

/// What a batch has of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefillRequest {
    /// Query tokens.
    pub tokens: usize,
    /// Tokens of its context, the query tokens the last of them; `None` is padding.
    pub context: Option<usize>,
}

/// A batch with everything that is not part of it made harmful, as in a [`DecodeProblem`](super::DecodeProblem); what
/// lies between the queries is NaN as well.
#[derive(Debug, Clone)]
pub struct PrefillProblem {
    shape: PrefillAttentionShape,
    rules: AttentionRules,
    sinks: Vec<f32>,
    /// `[tokens, query_heads * head_dim + GAP]`.
    query: Vec<u16>,
    /// Tokens of requests and, past the last one's, of padding.
    tokens: usize,
    starts: Vec<i32>,
    contexts: PagedContexts,
    /// `[tokens]`, where the query tokens are trees.
    tree: Option<Vec<u64>>,
    scale: f32,
    /// Whether the softmax denominators are asked for.
    wants_lse: bool,
}

impl PrefillProblem {
    /// A batch of requests, followed by query tokens that belong to none.
    #[must_use]
    pub fn random(
        shape: PrefillAttentionShape,
        rules: AttentionRules,
        requests: &[PrefillRequest],
        padding: usize,
        order: PoolOrder,
        seed: u64,
    ) -> Self {
        let mut noise = Noise::new(seed);
        let mut starts = vec![0];
        let mut tokens = 0;
        for request in requests {
            tokens += request.tokens;
            starts.push(tokens as i32);
        }
        tokens += padding;
        let mut query = Vec::new();
        for _ in 0..tokens {
            query.extend(noise.normal_bf16(shape.query_heads * shape.head_dim));
            query.resize(query.len() + GAP, BF16_NAN);
        }
        let contexts: Vec<_> = requests.iter().map(|request| request.context).collect();
        let mut contexts = PagedContexts::random(shape.kv(), &contexts, order, &mut noise);
        for (index, request) in requests.iter().enumerate() {
            let length = contexts.length(index);
            let first_end = (length + 1).saturating_sub(request.tokens).min(length);
            contexts.forget(index, rules.first_visible(first_end));
        }
        let sinks = (0..shape.query_heads).map(|_| noise.normal() + 2.0).collect();
        Self {
            shape,
            rules,
            sinks,
            query,
            tokens,
            starts,
            contexts,
            tree: None,
            scale: 1.0 / (shape.head_dim as f32).sqrt(),
            wants_lse: true,
        }
    }

    /// The same problem with scores `factor` times as far from each other.
    #[must_use]
    pub fn spread(mut self, factor: f32) -> Self {
        self.scale *= factor;
        self
    }

    /// The same problem without asking for the softmax denominators; those of a solution are the reference's.
    #[must_use]
    pub fn without_lse(mut self) -> Self {
        self.wants_lse = false;
        self
    }

    /// The same problem with the one request alone, and of its query tokens those in `part`: what a chunk of it would
    /// have been, with later tokens in the pool already.
    #[must_use]
    pub fn part(&self, request: usize, part: Range<usize>) -> Self {
        let mut alone = self.clone();
        let start = self.starts[request] as usize;
        let tokens = self.starts[request + 1] as usize - start;
        let first = (start + part.start) * self.query_stride();
        alone.query = self.query[first..first + part.len() * self.query_stride()].to_vec();
        alone.tokens = part.len();
        alone.starts = vec![0, part.len() as i32];
        alone.contexts.keep(request);
        alone.contexts.shorten(0, self.contexts.length(request) + part.end - tokens);
        alone
    }

    /// Gives a request's queries, keys and values one constant each.
    #[must_use]
    pub fn constant(mut self, request: usize, query: f32, key: f32, value: f32) -> Self {
        let stride = self.query_stride();
        for token in self.starts[request]..self.starts[request + 1] {
            self.query[token as usize * stride..][..self.shape.query_heads * self.shape.head_dim].fill(to_bf16(query));
        }
        self.contexts.set(request, to_bf16(key), to_bf16(value));
        self
    }

    /// Makes the query tokens trees, with a mask for each.
    #[must_use]
    pub fn with_tree(mut self, masks: Vec<u64>) -> Self {
        self.tree = Some(masks);
        self
    }

    /// Tells the kernel other starts than the problem has. There is no solution to compare with then.
    #[must_use]
    pub fn with_starts(mut self, starts: &[i32]) -> Self {
        self.starts = starts.to_vec();
        self
    }

    fn query_stride(&self) -> usize {
        self.shape.query_heads * self.shape.head_dim + GAP
    }

    /// The same problem with rows of keys and values `times` as far apart in their pools.
    #[must_use]
    pub fn stretched(mut self, times: usize) -> Self {
        self.contexts.stretch(times);
        self
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> AttentionResult {
        self.solve(Precision::Double)
    }

    /// The solution as a plain program with bf16 inputs and outputs has it: single precision, weights rounded to bf16.
    #[must_use]
    pub fn naive(&self) -> AttentionResult {
        self.solve(Precision::Plain)
    }

    fn solve(&self, precision: Precision) -> AttentionResult {
        let shape = &self.shape;
        let mut result = AttentionResult::new();
        for (token, queries) in self.query.chunks_exact(self.query_stride()).enumerate() {
            let request = self.starts[1..].iter().position(|&end| token < end as usize);
            for head in 0..shape.query_heads {
                let kv_head = head * shape.kv_heads / shape.query_heads;
                let visible = request.map_or_else(Default::default, |request| {
                    let until_end = self.starts[request + 1] as usize - token - 1;
                    let length = self.contexts.length(request);
                    let end = length.saturating_sub(until_end);
                    let Some(tree) = &self.tree else {
                        return self.contexts.heads(request, kv_head, self.rules.first_visible(end)..end);
                    };
                    let start = self.starts[request] as usize;
                    let first = (length + start) as i64 - i64::from(self.starts[request + 1]);
                    let seen = |&key: &usize| match usize::try_from(key as i64 - first) {
                        Ok(draft) => draft < 64 && tree[token] >> draft & 1 == 1,
                        Err(_) => true,
                    };
                    self.contexts.heads(request, kv_head, (0..length).filter(seen))
                });
                let scoring = Scoring::new(self.scale, &self.rules, self.sinks[head]);
                let query = &queries[head * shape.head_dim..][..shape.head_dim];
                result.attend(precision, scoring, query, shape.head_dim, &visible);
            }
        }
        result
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &PrefillAttention) -> Result<AttentionResult, CudaError> {
        let requests = self.contexts.count();
        let rows = self.tokens * self.shape.query_heads;
        let query = device.upload(&self.query)?;
        let starts = device.upload(&self.starts)?;
        let contexts = self.contexts.upload(device)?;
        let sinks = device.upload(&self.sinks)?;
        let mut output = Guarded::<u16>::new(device, rows * self.shape.head_dim)?;
        let mut lse = Guarded::<f32>::new(device, rows)?;
        let args = PrefillAttentionArgs {
            query: query.slice(..self.query.len()),
            query_stride: self.query_stride(),
            tokens: self.tokens,
            keys: contexts.keys.as_view(),
            values: contexts.values.as_view(),
            layout: contexts.layout,
            block_table: contexts.block_table.as_view(),
            table_width: contexts.table_width,
            slots: contexts.slots.slice(..requests),
            query_starts: starts.as_view(),
            context: contexts.context.slice(..requests),
            scale: self.scale,
            sinks: self.rules.sinks.then(|| sinks.as_view()),
            output: output.view_mut(),
            lse: self.wants_lse.then(|| lse.view_mut()),
        };
        if let Some(tree) = &self.tree {
            let tree = device.upload(tree)?;
            device.paged_tree_attention(kernel, args, &tree.slice(..self.tokens))?;
        } else {
            device.paged_prefill_attention(kernel, args)?;
        }
        let mut found = AttentionResult::found(&output.read(device)?, &lse.read(device)?);
        if !self.wants_lse {
            found.guards_intact &= found.lse.iter().all(|lse| lse.is_nan());
            found.lse = self.reference().lse;
        }
        Ok(found)
    }

    /// Compares a solution's output and its softmax denominators with the reference.
    #[must_use]
    pub fn compare(&self, found: &AttentionResult) -> [Comparison; 2] {
        found.compare(&self.naive(), &self.reference())
    }
}
