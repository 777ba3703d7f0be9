//! Random problems of attention over compressed keys and values, and their solution.

use super::acceptance::Comparison;
use super::attention::{AttentionResult, Precision, Scoring};
use super::guarded::Guarded;
use super::noise::Noise;
use super::paging::{PagedContexts, PoolOrder};
use crate::cuda::attention_rules::AttentionRules;
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::mla_decode_attention::{MlaDecode, MlaDecodeArgs, MlaDecodeShape};

/// A batch with everything that is not part of it made harmful, as in a [`DecodeProblem`](super::DecodeProblem).
#[derive(Debug, Clone)]
pub struct MlaDecodeProblem {
    shape: MlaDecodeShape,
    query: Vec<u16>,
    contexts: PagedContexts,
    scale: f32,
}

impl MlaDecodeProblem {
    /// A batch with one request per entry of `contexts`, which is its length; `None` is a padding row.
    #[must_use]
    pub fn random(shape: MlaDecodeShape, contexts: &[Option<usize>], seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let row = shape.kv().head_dim;
        let query = noise.normal_bf16(contexts.len() * shape.query_heads * row);
        let contexts = PagedContexts::random(shape.kv(), contexts, PoolOrder::TokenMajor, &mut noise);
        Self { shape, query, contexts, scale: 1.0 / (row as f32).sqrt() }
    }

    /// The same problem without the requests from `count` on. What they had in the pool stays there.
    #[must_use]
    pub fn first_requests(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.query.truncate(count * self.shape.query_heads * self.shape.kv().head_dim);
        fewer.contexts.truncate(count);
        fewer
    }

    /// The same problem with scores `factor` times as far from each other.
    #[must_use]
    pub fn spread(mut self, factor: f32) -> Self {
        self.scale *= factor;
        self
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
        let scoring = Scoring::new(self.scale, &AttentionRules::default(), 0.0);
        for (index, query) in self.query.chunks_exact(shape.kv().head_dim).enumerate() {
            let request = index / shape.query_heads;
            let (keys, _) = self.contexts.heads(request, 0, 0..self.contexts.length(request));
            let values = keys.iter().map(|key| &key[..shape.latent_dim]).collect();
            result.attend(precision, scoring, query, shape.latent_dim, &(keys, values));
        }
        result
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &MlaDecode) -> Result<AttentionResult, CudaError> {
        let requests = self.contexts.count();
        let rows = requests * self.shape.query_heads;
        let query = device.upload(&self.query)?;
        let contexts = self.contexts.upload(device)?;
        let mut output = Guarded::<u16>::new(device, rows * self.shape.latent_dim)?;
        let mut lse = Guarded::<f32>::new(device, rows)?;
        let max_context = self.contexts.longest();
        let mut workspace = kernel.shape().workspace(device, requests, max_context)?;
        device.mla_decode_attention(
            kernel,
            MlaDecodeArgs {
                query: query.slice(..self.query.len()),
                keys: contexts.keys.as_view(),
                layout: contexts.layout,
                block_table: contexts.block_table.as_view(),
                table_width: contexts.table_width,
                slots: contexts.slots.slice(..requests),
                context: contexts.context.slice(..requests),
                max_context,
                scale: self.scale,
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
