//! Random rotations of queries and keys, and their solution.

use std::ops::Range;

use super::acceptance::{Accuracy, Comparison, compare};
use super::guarded::Guarded;
use super::noise::{BF16_NAN, Noise, from_bf16, to_bf16};
use super::norm::WeightFormat;
use super::paging::{PoolOrder, stretched};
use super::strided::{Layout, StridedInput, StridedOutput, widen};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::floats::Floats;
use crate::cuda::kv_pool::KvLayout;
use crate::cuda::rope_kv_write::{
    HeadNorm, HeadNormWeights, RopeKvWrite, RopeKvWriteArgs, RopeKvWriteShape, rope_turns,
};

/// What a position is that marks padding; the first that the table does not have is another.
const NO_POSITION: i32 = -1;

/// A batch of tokens at random places of the pools. Padding tokens are NaN, and so is the pools' memory; of every five
/// tokens one has no slot, and one has a slot that the pools do not have.
#[derive(Debug, Clone)]
pub struct RopeProblem {
    shape: RopeKvWriteShape,
    layout: KvLayout,
    is_stretched: bool,
    /// Elements between the rows of the batch, and between the queries of the result.
    gap: usize,
    qkv: Vec<u16>,
    format: WeightFormat,
    query_weight: Vec<f32>,
    key_weight: Vec<f32>,
    epsilon: f32,
    clip: Option<f32>,
    positions: Vec<i32>,
    frequencies: Vec<f64>,
    amplitude: f64,
    table_positions: usize,
    slots: Vec<i32>,
}

/// A solution.
#[derive(Debug, Clone)]
pub struct RopeResult {
    /// `[tokens, query_heads, head_dim]`.
    pub query: Vec<f64>,
    /// `[stored tokens, kv_heads, head_dim]`.
    pub keys: Vec<f64>,
    /// `[stored tokens, kv_heads, head_dim]`.
    pub values: Vec<f64>,
    /// Whether the memory around and between results was left alone, and the rest of the pools.
    pub guards_intact: bool,
}

impl RopeProblem {
    /// One token for each entry of `positions`; `None` is padding. Weights are in `format`.
    #[must_use]
    pub fn random(
        shape: RopeKvWriteShape,
        positions: &[Option<usize>],
        (order, format): (PoolOrder, WeightFormat),
        clip: Option<f32>,
        seed: u64,
    ) -> Self {
        let mut noise = Noise::new(seed);
        let tokens = positions.len();
        let pages = tokens.div_ceil(shape.page_size) + 2;
        let RopeKvWriteShape { head_dim, query_heads, kv_heads, page_size, .. } = shape;
        let layout = match order {
            PoolOrder::TokenMajor => KvLayout::token_major(shape.pool(), pages),
            PoolOrder::HeadMajor => KvLayout::head_major(shape.pool(), pages),
        };
        let mut slots: Vec<i32> = (0..(pages * page_size) as i32).collect();
        noise.shuffle(&mut slots);
        // The first token takes the last slot of all.
        let last = slots.iter().position(|&slot| slot as usize + 1 == pages * page_size).unwrap_or(0);
        slots.swap(0, last);
        slots.truncate(tokens);
        for (token, slot) in slots.iter_mut().enumerate() {
            match (positions[token], token % 5) {
                (_, 2) => *slot = -1,
                (_, 4) => *slot = (pages * page_size) as i32,
                _ => {}
            }
        }
        let table_positions = positions.iter().flatten().max().map_or(0, |last| last + 1);
        let row = shape.row_length();
        let qkv = positions.iter().flat_map(|position| match position {
            Some(_) => noise.normal_bf16(row),
            None => vec![BF16_NAN; row],
        });
        let qkv = qkv.collect();
        let mut weight = |length: usize| -> Vec<f32> {
            let values = (0..length).map(|_| 1.0 + 0.5 * noise.normal());
            match format {
                WeightFormat::Bf16 => values.map(|value| from_bf16(to_bf16(value))).collect(),
                WeightFormat::F32 => values.collect(),
            }
        };
        let lengths = match shape.norm {
            HeadNorm::None => (0, 0),
            HeadNorm::PerHead => (head_dim, head_dim),
            HeadNorm::AllHeads => (query_heads * head_dim, kv_heads * head_dim),
        };
        Self {
            query_weight: weight(lengths.0),
            key_weight: weight(lengths.1),
            shape,
            layout,
            is_stretched: false,
            gap: seed as usize % 2 * 8,
            qkv,
            format,
            epsilon: 1e-6,
            clip,
            positions: positions
                .iter()
                .enumerate()
                .map(|(token, position)| match position {
                    Some(position) => *position as i32,
                    None if token % 2 == 0 => NO_POSITION,
                    None => table_positions as i32,
                })
                .collect(),
            frequencies: (0..head_dim / 2).map(|i| 1e4_f64.powf(-2.0 * i as f64 / head_dim as f64)).collect(),
            amplitude: if seed.is_multiple_of(3) { 1.25 } else { 1.0 },
            table_positions,
            slots,
        }
    }

    /// The same problem with rows of the batch `gap` elements apart, and queries of the result twice that.
    #[must_use]
    pub fn with_gap(mut self, gap: usize) -> Self {
        self.gap = gap;
        self
    }

    /// The same problem with rows of the pools `times` as far apart. What is between them is then not looked at.
    #[must_use]
    pub fn stretched(mut self, times: usize) -> Self {
        self.layout = stretched(self.layout, times);
        self.is_stretched = true;
        self
    }

    /// The same problem without the tokens from `count` on.
    #[must_use]
    pub fn first_tokens(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.positions.truncate(count);
        fewer.slots.truncate(count);
        fewer.qkv.truncate(count * self.shape.row_length());
        fewer
    }

    /// A token's position; nothing where it is padding.
    fn position(&self, token: usize) -> Option<usize> {
        usize::try_from(self.positions[token]).ok().filter(|&position| position < self.table_positions)
    }

    /// Where each token's row of a head starts in the pools; nothing where it is not stored.
    fn place(&self, token: usize, head: usize) -> Option<usize> {
        let page_size = self.shape.page_size;
        self.position(token)?;
        let slot = usize::try_from(self.slots[token]).ok().filter(|&slot| slot < self.layout.pages * page_size)?;
        let page = slot / page_size * self.layout.page_stride;
        Some(page + slot % page_size * self.layout.token_stride + head * self.layout.head_stride)
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> RopeResult {
        self.solve(
            |vector, weight| {
                let mean = vector.iter().map(|x| x * x).sum::<f64>() / vector.len() as f64;
                let rms = (mean + f64::from(self.epsilon)).sqrt();
                for (x, &w) in vector.iter_mut().zip(weight.iter().cycle()) {
                    *x *= f64::from(w) / rms;
                }
            },
            |x| x,
        )
    }

    /// The solution with normalisations in single precision and results rounded to bf16.
    #[must_use]
    pub fn naive(&self) -> RopeResult {
        self.solve(
            |vector, weight| {
                let mean = vector.iter().map(|&x| x as f32 * x as f32).sum::<f32>() / vector.len() as f32;
                let scale = 1.0 / (mean + self.epsilon).sqrt();
                for (x, &w) in vector.iter_mut().zip(weight.iter().cycle()) {
                    *x = f64::from(*x as f32 * scale * w);
                }
            },
            |x| f64::from(from_bf16(to_bf16(x as f32))),
        )
    }

    fn solve(&self, normalise: impl Fn(&mut [f64], &[f32]), round: impl Fn(f64) -> f64) -> RopeResult {
        let RopeKvWriteShape { head_dim, query_heads, kv_heads, norm, .. } = self.shape;
        let mut result = RopeResult { query: Vec::new(), keys: Vec::new(), values: Vec::new(), guards_intact: true };
        for (token, row) in self.qkv.chunks_exact(self.shape.row_length()).enumerate() {
            let Some(position) = self.position(token) else {
                result.query.resize(result.query.len() + query_heads * head_dim, 0.0);
                continue;
            };
            let mut row = widen(row);
            let (query, rest) = row.split_at_mut(query_heads * head_dim);
            let (key, value) = rest.split_at_mut(kv_heads * head_dim);
            for (vectors, weight) in [(&mut *query, &self.query_weight), (&mut *key, &self.key_weight)] {
                match norm {
                    HeadNorm::None => {}
                    HeadNorm::PerHead => vectors.chunks_exact_mut(head_dim).for_each(|head| normalise(head, weight)),
                    HeadNorm::AllHeads => normalise(vectors, weight),
                }
            }
            if let Some(limit) = self.clip.map(f64::from) {
                query.iter_mut().chain(&mut *key).chain(&mut *value).for_each(|x| *x = x.clamp(-limit, limit));
            }
            for head in query.chunks_exact_mut(head_dim).chain(key.chunks_exact_mut(head_dim)) {
                let (low, high) = head.split_at_mut(head_dim / 2);
                for ((low, high), frequency) in low.iter_mut().zip(high).zip(&self.frequencies) {
                    let (sin, cos) = (position as f64 * frequency).sin_cos();
                    (*low, *high) =
                        ((*low * cos - *high * sin) * self.amplitude, (*high * cos + *low * sin) * self.amplitude);
                }
            }
            result.query.extend(query.iter().copied().map(&round));
            if self.place(token, 0).is_some() {
                result.keys.extend(key.iter().copied().map(&round));
                result.values.extend(value.iter().copied().map(&round));
            }
        }
        result
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &RopeKvWrite) -> Result<RopeResult, CudaError> {
        let RopeKvWriteShape { head_dim, query_heads, norm, .. } = self.shape;
        let tokens = self.positions.len();
        let layout = |width, gap| Layout { rows: tokens, width, stride: width + gap };
        let qkv = StridedInput::new(device, layout(self.shape.row_length(), self.gap), &self.qkv)?;
        let mut query = StridedOutput::new(device, layout(query_heads * head_dim, 2 * self.gap))?;
        let pool = self.layout.pages * self.layout.page_stride;
        let new_pool = || {
            if self.is_stretched {
                Guarded::<u16>::in_pieces(device, pool, self.places())
            } else {
                Guarded::new(device, pool)
            }
        };
        let (mut keys, mut values) = (new_pool()?, new_pool()?);
        let bits = |values: &[f32]| values.iter().map(|&value| to_bf16(value)).collect::<Vec<_>>();
        let bf16_weights = (device.upload(&bits(&self.query_weight))?, device.upload(&bits(&self.key_weight))?);
        let f32_weights = (device.upload(&self.query_weight)?, device.upload(&self.key_weight)?);
        let turns = device.upload(&rope_turns(&self.frequencies, self.amplitude, self.table_positions))?;
        let (positions, slots) = (device.upload(&self.positions)?, device.upload(&self.slots)?);
        let (query_weight, key_weight) = match self.format {
            WeightFormat::Bf16 => (Floats::Bf16(bf16_weights.0.as_view()), Floats::Bf16(bf16_weights.1.as_view())),
            WeightFormat::F32 => (Floats::F32(f32_weights.0.as_view()), Floats::F32(f32_weights.1.as_view())),
        };
        device.rope_kv_write(
            kernel,
            RopeKvWriteArgs {
                qkv: qkv.rows(),
                norm: (norm != HeadNorm::None).then_some(HeadNormWeights {
                    query: query_weight,
                    key: key_weight,
                    epsilon: self.epsilon,
                }),
                clip: self.clip,
                positions: positions.slice(..tokens),
                turns: turns.slice(..self.table_positions * head_dim),
                slots: slots.slice(..tokens),
                query: query.rows(),
                keys: keys.view_mut(),
                values: values.view_mut(),
                layout: self.layout,
            },
        )?;
        let (query, query_intact) = query.read(device)?;
        let read_pool = |pool: &Guarded<u16>| {
            if self.is_stretched {
                pool.read_pieces(device, self.places()).map(|(rows, intact)| (widen(&rows), intact))
            } else {
                pool.read(device).map(|found| self.take(found))
            }
        };
        let (keys, keys_intact) = read_pool(&keys)?;
        let (values, values_intact) = read_pool(&values)?;
        Ok(RopeResult {
            query: widen(&query),
            keys,
            values,
            guards_intact: query_intact && keys_intact && values_intact,
        })
    }

    /// Where the heads of the stored tokens are in a pool.
    fn places(&self) -> impl Iterator<Item = Range<usize>> {
        let heads = (0..self.positions.len()).flat_map(|token| (0..self.shape.kv_heads).map(move |head| (token, head)));
        let starts = heads.filter_map(|(token, head)| self.place(token, head));
        starts.map(|start| start..start + self.shape.head_dim)
    }

    /// What a pool holds of the stored tokens, and whether everything else was left alone.
    fn take(&self, (mut pool, bands_intact): (Vec<u16>, bool)) -> (Vec<f64>, bool) {
        let mut taken = Vec::new();
        for place in self.places() {
            let row = &mut pool[place];
            taken.extend(widen(row));
            row.fill(BF16_NAN);
        }
        (taken, bands_intact && pool.iter().all(|&bits| bits == BF16_NAN))
    }

    /// Compares a solution's queries, keys and values with the reference.
    #[must_use]
    pub fn compare(&self, found: &RopeResult) -> [Comparison; 3] {
        let (naive, reference) = (self.naive(), self.reference());
        [
            compare(&found.query, &naive.query, &reference.query, Accuracy::Bf16Once),
            compare(&found.keys, &naive.keys, &reference.keys, Accuracy::Bf16Once),
            compare(&found.values, &naive.values, &reference.values, Accuracy::Bf16Once),
        ]
    }
}
