//! Random decode-attention problems and their solution.

use super::acceptance::{Accuracy, Comparison, compare};
use super::guarded::Guarded;
use super::noise::{BF16_NAN, Noise, from_bf16, to_bf16};
use crate::cuda::decode_attention::{
    DecodeAttention, DecodeAttentionArgs, DecodeAttentionShape, DecodeWorkspace, KvLayout,
};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;

/// A page number that no pool has; a kernel that uses it fails.
const NO_PAGE: i32 = 2_147_480_000;
/// A context length that no table has room for; padding rows carry it.
const NO_CONTEXT: i32 = 2_000_000_000;

/// Whether a page holds its tokens or its heads one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolOrder {
    /// `[page, token, head, element]`.
    TokenMajor,
    /// `[page, head, token, element]`.
    HeadMajor,
}

/// A batch with everything that is not part of it made harmful: rows past a context and unused pages hold NaN, entries
/// of the block table past a context name pages that do not exist, and pages are in random order.
#[derive(Debug, Clone)]
pub struct DecodeProblem {
    shape: DecodeAttentionShape,
    layout: KvLayout,
    query: Vec<u16>,
    keys: Vec<u16>,
    values: Vec<u16>,
    block_table: Vec<i32>,
    table_width: usize,
    slots: Vec<i32>,
    context: Vec<i32>,
    max_context: usize,
    scale: f32,
}

/// A solution.
#[derive(Debug, Clone)]
pub struct AttentionResult {
    /// `[requests, query_heads, head_dim]`.
    pub output: Vec<f64>,
    /// `[requests, query_heads]`.
    pub lse: Vec<f64>,
    /// Whether the memory around both was left alone.
    pub guards_intact: bool,
}

impl DecodeProblem {
    /// A batch with one request per entry of `contexts`, which is its length; `None` is a padding row.
    #[must_use]
    pub fn random(shape: DecodeAttentionShape, contexts: &[Option<usize>], order: PoolOrder, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let max_context = contexts.iter().flatten().copied().max().unwrap_or(0);
        let pages_of = |context: usize| context.div_ceil(shape.page_size);
        let used: usize = contexts.iter().flatten().map(|&length| pages_of(length)).sum();
        let mut free: Vec<i32> = (0..used as i32 + 3).collect();
        noise.shuffle(&mut free);
        let layout = match order {
            PoolOrder::TokenMajor => KvLayout::token_major(&shape, free.len()),
            PoolOrder::HeadMajor => KvLayout::head_major(&shape, free.len()),
        };
        let table_width = pages_of(max_context) + 2;
        let mut slots: Vec<i32> = (0..contexts.len() as i32 + 2).collect();
        noise.shuffle(&mut slots);
        let mut block_table = vec![NO_PAGE; slots.len() * table_width];
        slots.truncate(contexts.len());
        for (slot, context) in slots.iter_mut().zip(contexts) {
            if let Some(length) = *context {
                let row = *slot as usize * table_width;
                let pages = free.split_off(free.len() - pages_of(length));
                block_table[row..][..pages.len()].copy_from_slice(&pages);
            } else {
                *slot = -1;
            }
        }
        let pool = vec![BF16_NAN; layout.pages * layout.page_stride];
        let rows = contexts.len() * shape.query_heads;
        let mut problem = Self {
            shape,
            layout,
            query: noise.normal_bf16(rows * shape.head_dim),
            keys: pool.clone(),
            values: pool,
            block_table,
            table_width,
            slots,
            context: contexts.iter().map(|length| length.map_or(NO_CONTEXT, |length| length as i32)).collect(),
            max_context,
            scale: 1.0 / (shape.head_dim as f32).sqrt(),
        };
        problem.fill(&mut noise);
        problem
    }

    /// Gives every token of every context a random key and value.
    fn fill(&mut self, noise: &mut Noise) {
        for request in 0..self.slots.len() {
            for token in 0..self.visible(request) {
                for head in 0..self.shape.kv_heads {
                    let start = self.row(request, token, head);
                    let range = start..start + self.shape.head_dim;
                    self.keys[range.clone()].copy_from_slice(&noise.normal_bf16(self.shape.head_dim));
                    self.values[range].copy_from_slice(&noise.normal_bf16(self.shape.head_dim));
                }
            }
        }
    }

    /// Tokens that a request's query sees.
    fn visible(&self, request: usize) -> usize {
        if self.slots[request] < 0 { 0 } else { self.context[request] as usize }
    }

    /// Where a key or value starts in its pool.
    fn row(&self, request: usize, token: usize, kv_head: usize) -> usize {
        let page_size = self.shape.page_size;
        let entry = self.slots[request] as usize * self.table_width + token / page_size;
        self.block_table[entry] as usize * self.layout.page_stride
            + token % page_size * self.layout.token_stride
            + kv_head * self.layout.head_stride
    }

    /// The same problem without the requests from `count` on. What they had in the pools stays there.
    #[must_use]
    pub fn first_requests(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.query.truncate(count * self.shape.query_heads * self.shape.head_dim);
        fewer.slots.truncate(count);
        fewer.context.truncate(count);
        fewer.max_context = (0..count).map(|request| self.visible(request)).max().unwrap_or(0);
        fewer
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> AttentionResult {
        self.solve(|query, keys, values| {
            let scores: Vec<f64> = keys
                .iter()
                .map(|key| {
                    let dot: f64 =
                        query.iter().zip(*key).map(|(q, k)| f64::from(from_bf16(*q)) * f64::from(from_bf16(*k))).sum();
                    dot * f64::from(self.scale)
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let output = (0..query.len())
                .map(|d| {
                    let value = |i: usize| f64::from(from_bf16(values[i][d]));
                    let weighted: f64 = weights.iter().enumerate().map(|(i, w)| w * value(i)).sum();
                    weighted / sum
                })
                .collect();
            (output, max + sum.ln())
        })
    }

    /// The solution as a plain program with bf16 inputs and outputs has it: single precision, weights rounded to bf16.
    #[must_use]
    pub fn naive(&self) -> AttentionResult {
        self.solve(|query, keys, values| {
            let scores: Vec<f32> = keys
                .iter()
                .map(|key| {
                    let products = query.iter().zip(*key);
                    let dot: f32 = products.map(|(q, k)| from_bf16(*q) * from_bf16(*k)).sum();
                    dot * self.scale
                })
                .collect();
            let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
            let sum: f32 = weights.iter().sum();
            let output = (0..query.len())
                .map(|d| {
                    let weight = |i: usize| from_bf16(to_bf16(weights[i]));
                    let weighted: f32 = (0..keys.len()).map(|i| weight(i) * from_bf16(values[i][d])).sum();
                    f64::from(from_bf16(to_bf16(weighted / sum)))
                })
                .collect();
            (output, f64::from(max + sum.ln()))
        })
    }

    /// Applies `attend` to each head of each request that sees something; the others are zero and minus infinity.
    fn solve(&self, attend: impl Fn(&[u16], &[&[u16]], &[&[u16]]) -> (Vec<f64>, f64)) -> AttentionResult {
        let shape = &self.shape;
        let mut result =
            AttentionResult { output: Vec::with_capacity(self.query.len()), lse: Vec::new(), guards_intact: true };
        for (index, query) in self.query.chunks_exact(shape.head_dim).enumerate() {
            let request = index / shape.query_heads;
            let kv_head = index % shape.query_heads * shape.kv_heads / shape.query_heads;
            let rows: Vec<usize> = (0..self.visible(request)).map(|token| self.row(request, token, kv_head)).collect();
            if rows.is_empty() {
                result.output.resize(result.output.len() + shape.head_dim, 0.0);
                result.lse.push(f64::NEG_INFINITY);
                continue;
            }
            let of = |pool| -> Vec<&[u16]> { rows.iter().map(|&row| head(pool, row, shape)).collect() };
            let (output, lse) = attend(query, &of(&self.keys), &of(&self.values));
            result.output.extend(output);
            result.lse.push(lse);
        }
        result
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &DecodeAttention) -> Result<AttentionResult, CudaError> {
        let requests = self.slots.len();
        let query = device.upload(&self.query)?;
        let keys = device.upload(&self.keys)?;
        let values = device.upload(&self.values)?;
        let block_table = device.upload(&self.block_table)?;
        let slots = device.upload(&self.slots)?;
        let context = device.upload(&self.context)?;
        let mut output = Guarded::<u16>::new(device, self.query.len())?;
        let mut lse = Guarded::<f32>::new(device, requests * self.shape.query_heads)?;
        let mut workspace = DecodeWorkspace::new(device, kernel.shape(), requests, self.max_context)?;
        device.paged_decode_attention(
            kernel,
            DecodeAttentionArgs {
                query: query.as_view(),
                keys: keys.as_view(),
                values: values.as_view(),
                layout: self.layout,
                block_table: block_table.as_view(),
                table_width: self.table_width,
                slots: slots.slice(..requests),
                context: context.slice(..requests),
                max_context: self.max_context,
                scale: self.scale,
                output: output.view_mut(),
                lse: lse.view_mut(),
                workspace: &mut workspace,
            },
        )?;
        let (output, output_intact) = output.read(device)?;
        let (lse, lse_intact) = lse.read(device)?;
        Ok(AttentionResult {
            output: output.iter().map(|&bits| f64::from(from_bf16(bits))).collect(),
            lse: lse.iter().map(|&value| f64::from(value)).collect(),
            guards_intact: output_intact && lse_intact,
        })
    }

    /// Compares a solution's output and its softmax denominators with the reference.
    #[must_use]
    pub fn compare(&self, found: &AttentionResult) -> [Comparison; 2] {
        let (naive, reference) = (self.naive(), self.reference());
        [
            compare(&found.output, &naive.output, &reference.output, Accuracy::Bf16),
            compare(&found.lse, &naive.lse, &reference.lse, Accuracy::F32),
        ]
    }
}

fn head<'a>(pool: &'a [u16], row: usize, shape: &DecodeAttentionShape) -> &'a [u16] {
    &pool[row..row + shape.head_dim]
}
