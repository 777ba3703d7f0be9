//! Random decode-attention problems and their solution.

use super::acceptance::Comparison;
use super::attention::{AttentionResult, Precision, Scoring};
use super::guarded::Guarded;
use super::noise::Noise;
use super::paging::{PagedContexts, PoolOrder};
use crate::cuda::attention_rules::AttentionRules;
use crate::cuda::decode_attention::{DecodeAttention, DecodeAttentionArgs, DecodeAttentionShape, DecodeWorkspace};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;

/// A batch with everything that is not part of it made harmful: rows past a context and unused pages hold NaN, entries
/// of the block table past a context name pages that do not exist, and pages are in random order.
#[derive(Debug, Clone)]
pub struct DecodeProblem {
    shape: DecodeAttentionShape,
    rules: AttentionRules,
    sinks: Vec<f32>,
    query: Vec<u16>,
    contexts: PagedContexts,
    scale: f32,
}

impl DecodeProblem {
    /// A batch with one request per entry of `contexts`, which is its length; `None` is a padding row.
    #[must_use]
    pub fn random(
        shape: DecodeAttentionShape,
        rules: AttentionRules,
        contexts: &[Option<usize>],
        order: PoolOrder,
        seed: u64,
    ) -> Self {
        let mut noise = Noise::new(seed);
        let query = noise.normal_bf16(contexts.len() * shape.query_heads * shape.head_dim);
        let mut contexts = PagedContexts::random(shape.kv(), contexts, order, &mut noise);
        for request in 0..contexts.count() {
            contexts.forget(request, rules.first_visible(contexts.length(request)));
        }
        let sinks = (0..shape.query_heads).map(|_| noise.normal() + 2.0).collect();
        Self { shape, rules, sinks, query, contexts, scale: 1.0 / (shape.head_dim as f32).sqrt() }
    }

    /// The same problem without the requests from `count` on. What they had in the pools stays there.
    #[must_use]
    pub fn first_requests(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.query.truncate(count * self.shape.query_heads * self.shape.head_dim);
        fewer.contexts.truncate(count);
        fewer
    }

    /// The same problem with scores `factor` times as far from each other.
    #[must_use]
    pub fn spread(mut self, factor: f32) -> Self {
        self.scale *= factor;
        self
    }

    /// The same queries over the first `pages` pages of every context, and over what comes after them. Every token is seen
    /// by one of both.
    #[must_use]
    pub fn parts(&self, pages: usize) -> [Self; 2] {
        let mut parts = [self.clone(), self.clone()];
        parts[0].contexts.keep_pages(pages);
        parts[1].contexts.drop_pages(pages);
        parts
    }

    /// The same problem with other rules, which are those of the kernel that is to solve it.
    #[must_use]
    pub fn with_rules(mut self, rules: AttentionRules) -> Self {
        self.rules = rules;
        self
    }

    /// The sinks of the query heads.
    #[must_use]
    pub fn sinks(&self) -> &[f32] {
        &self.sinks
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
        for (index, query) in self.query.chunks_exact(shape.head_dim).enumerate() {
            let (request, head) = (index / shape.query_heads, index % shape.query_heads);
            let kv_head = head * shape.kv_heads / shape.query_heads;
            let length = self.contexts.length(request);
            let visible = self.contexts.heads(request, kv_head, self.rules.first_visible(length)..length);
            let scoring = Scoring::new(self.scale, &self.rules, self.sinks[head]);
            result.attend(precision, scoring, query, shape.head_dim, &visible);
        }
        result
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &DecodeAttention) -> Result<AttentionResult, CudaError> {
        let requests = self.contexts.count();
        let query = device.upload(&self.query)?;
        let contexts = self.contexts.upload(device)?;
        let sinks = device.upload(&self.sinks)?;
        let mut output = Guarded::<u16>::new(device, self.query.len())?;
        let mut lse = Guarded::<f32>::new(device, requests * self.shape.query_heads)?;
        let max_context = self.contexts.longest();
        let mut workspace = DecodeWorkspace::new(device, kernel.shape(), requests, max_context)?;
        device.paged_decode_attention(
            kernel,
            DecodeAttentionArgs {
                query: query.slice(..self.query.len()),
                keys: contexts.keys.as_view(),
                values: contexts.values.as_view(),
                layout: contexts.layout,
                block_table: contexts.block_table.as_view(),
                table_width: contexts.table_width,
                slots: contexts.slots.slice(..requests),
                context: contexts.context.slice(..requests),
                max_context,
                scale: self.scale,
                sinks: self.rules.sinks.then(|| sinks.as_view()),
                output: output.view_mut(),
                lse: lse.view_mut(),
                workspace: &mut workspace,
            },
        )?;
        Ok(AttentionResult::found(&output.read(device)?, &lse.read(device)?))
    }

    /// Compares a solution's output and its softmax denominators with the reference.
    #[must_use]
    pub fn compare(&self, found: &AttentionResult) -> [Comparison; 2] {
        found.compare(&self.naive(), &self.reference())
    }
}
