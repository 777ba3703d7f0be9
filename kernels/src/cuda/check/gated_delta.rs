//! Random problems of the gated delta rule, and their solution token by token.

mod chunks;

use chunks::solve_chunk;
use cudarc::driver::CudaSlice;

use super::acceptance::{Accuracy, Comparison, compare};
use super::guarded::Guarded;
use super::noise::{BF16_NAN, Noise, from_bf16, to_bf16};
use super::strided::{Layout, StridedInput, StridedOutput, widen};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::gated_delta::{
    CHUNK, GatedDelta, GatedDeltaInputs, GatedDeltaRuns, GatedDeltaShape, GatedDeltaStates, GatedDeltaWorkspace,
};

/// What a batch has of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatedDeltaRun {
    /// Tokens; one for a step of decoding.
    pub tokens: usize,
    /// Whether it has a state before. `None` is padding.
    pub continues: Option<bool>,
}

/// A batch with everything that is not part of it made harmful: states that are nobody's or not to be read hold NaN, as
/// does padding and what lies between rows. Some tokens forget everything, some nothing, some learn everything, some
/// nothing, and some keys are zeros.
#[derive(Debug, Clone)]
pub struct GatedDeltaProblem {
    shape: GatedDeltaShape,
    runs: Vec<GatedDeltaRun>,
    tokens: usize,
    gap: usize,
    /// Queries, keys, values, what decides decay and what decides learning.
    rows: [Vec<u16>; 5],
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    states: Vec<f32>,
    slots: Vec<i32>,
    /// From a slot that is used to the next, on a device.
    slot_distance: usize,
    starts: Vec<i32>,
    scale: f32,
}

/// A solution.
#[derive(Debug, Clone)]
pub struct GatedDeltaResult {
    /// `[tokens, value_heads, value_dim]`.
    pub output: Vec<f64>,
    /// All states, those that are nobody's among them.
    pub states: Vec<f64>,
    /// Whether the memory around and between both was left alone.
    pub guards_intact: bool,
}

/// How a plain program computes what the kernels do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plain {
    /// Token by token, in double precision.
    Exact,
    /// As that, with results rounded, and states to single precision.
    Rounded,
    /// As that, but chunk by chunk and with everything rounded that the kernels for runs round.
    InChunks,
}

/// What a token brings for a head.
struct Token {
    query: Vec<f64>,
    key: Vec<f64>,
    /// What the key as it is given was multiplied by.
    key_factor: f64,
    value: Vec<f64>,
    log_decay: f64,
    beta: f64,
}

fn bf16(value: f64) -> f64 {
    f64::from(from_bf16(to_bf16(value as f32)))
}

impl GatedDeltaProblem {
    /// A batch of runs, followed by `padding` tokens that belong to none; rows are `gap` elements apart.
    #[must_use]
    pub fn random(shape: GatedDeltaShape, runs: &[GatedDeltaRun], padding: usize, gap: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let mut starts = vec![0];
        for run in runs {
            starts.push(starts[starts.len() - 1] + run.tokens as i32);
        }
        let tokens = starts[runs.len()] as usize + padding;
        let widths = Self::widths(&shape);
        let mut rows = widths.map(|width| noise.normal_bf16(tokens * width));
        let is_padding = |token: usize| {
            let run = starts[1..].iter().position(|&end| token < end as usize);
            run.is_none_or(|run| runs[run].continues.is_none())
        };
        for token in 0..tokens {
            if !shape.normalise {
                // Longer keys would make states grow without end.
                let keys = &mut rows[1][token * widths[1]..][..widths[1]];
                for bits in keys {
                    *bits = to_bf16(from_bf16(*bits) / (shape.key_dim as f32).sqrt());
                }
            }
            for head in 0..shape.value_heads {
                let extreme = |kind: usize| [100.0, -100.0].get(kind).copied();
                if let Some(a) = extreme(noise.below(20)) {
                    rows[3][token * widths[3] + head] = to_bf16(a);
                }
                if let Some(b) = extreme(noise.below(12)) {
                    rows[4][token * widths[4] + head] = to_bf16(b);
                }
            }
            if noise.below(16) == 0 {
                rows[1][token * widths[1]..][..widths[1]].fill(0);
            }
            if is_padding(token) {
                rows.iter_mut().zip(widths).for_each(|(rows, width)| rows[token * width..][..width].fill(BF16_NAN));
            }
        }
        let a_log = (0..shape.value_heads).map(|_| noise.normal() - 1.0).collect();
        let dt_bias = (0..shape.value_heads).map(|_| noise.normal()).collect();

        let mut slots: Vec<i32> = (0..runs.len() as i32 + 2).collect();
        noise.shuffle(&mut slots);
        // The first run that has a slot has the last one.
        let last = slots.iter().position(|&slot| slot as usize == runs.len() + 1).unwrap_or(0);
        slots.swap(last, runs.iter().position(|run| run.continues.is_some()).unwrap_or(last));
        let state = shape.state_length();
        let mut states = vec![f32::NAN; slots.len() * state];
        slots.truncate(runs.len());
        // The nearest that there are not, and the farthest.
        let mut padding = [runs.len() as i32 + 2, -1, i32::MAX].into_iter().cycle();
        for (run, slot) in runs.iter().zip(&mut slots) {
            match run.continues {
                None => *slot = padding.next().unwrap_or(-1),
                Some(false) => {}
                Some(true) => states[*slot as usize * state..][..state].fill_with(|| noise.normal() * 0.5),
            }
        }
        let scale = 1.0 / (shape.key_dim as f32).sqrt();
        Self {
            shape,
            runs: runs.to_vec(),
            tokens,
            gap,
            rows,
            a_log,
            dt_bias,
            states,
            slots,
            slot_distance: 1,
            starts,
            scale,
        }
    }

    /// The same problem with slots `distance` times as far apart. What is between them is then not looked at.
    #[must_use]
    pub fn with_distant_slots(mut self, distance: usize) -> Self {
        self.slot_distance = distance;
        self
    }

    fn widths(shape: &GatedDeltaShape) -> [usize; 5] {
        let (keys, values) = (shape.key_heads * shape.key_dim, shape.value_heads * shape.value_dim);
        [keys, keys, values, shape.value_heads, shape.value_heads]
    }

    /// The same problem with the one request alone, and the first `tokens` tokens of its run.
    #[must_use]
    pub fn beginning(&self, request: usize, tokens: usize) -> Self {
        self.part(request, 0, tokens, self.states.clone())
    }

    /// The same problem with the one request alone, and what comes after the first `tokens` tokens of its run, from what
    /// the states were then.
    #[must_use]
    pub fn rest(&self, request: usize, tokens: usize, before: &GatedDeltaResult) -> Self {
        let states = before.states.iter().map(|&value| value as f32).collect();
        let mut rest = self.part(request, tokens, self.runs[request].tokens - tokens, states);
        rest.runs[0].continues = Some(true);
        rest
    }

    fn part(&self, request: usize, skipped: usize, tokens: usize, states: Vec<f32>) -> Self {
        let first = self.starts[request] as usize + skipped;
        let widths = Self::widths(&self.shape);
        let mut index = 0;
        let rows = [(); 5].map(|()| {
            let width = widths[index];
            index += 1;
            self.rows[index - 1][first * width..][..tokens * width].to_vec()
        });
        Self {
            runs: vec![GatedDeltaRun { tokens, ..self.runs[request] }],
            tokens,
            rows,
            states,
            slots: vec![self.slots[request]],
            starts: vec![0, tokens as i32],
            ..self.clone()
        }
    }

    /// Tells the kernel other starts than the problem has. There is no solution to compare with then.
    #[must_use]
    pub fn with_starts(mut self, starts: &[i32]) -> Self {
        self.starts = starts.to_vec();
        self
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> GatedDeltaResult {
        self.solve(Plain::Exact)
    }

    fn solve(&self, plain: Plain) -> GatedDeltaResult {
        let shape = &self.shape;
        let length = shape.value_dim * shape.key_dim;
        let mut output = vec![0.0; self.tokens * shape.value_heads * shape.value_dim];
        let mut states: Vec<f64> = self.states.iter().map(|&value| f64::from(value)).collect();
        for (request, run) in self.runs.iter().enumerate() {
            let Some(continues) = run.continues else { continue };
            for head in 0..shape.value_heads {
                let start = (self.slots[request] as usize * shape.value_heads + head) * length;
                let state = &mut states[start..][..length];
                if !continues && run.tokens > 0 {
                    state.fill(0.0);
                }
                let first = self.starts[request] as usize;
                let tokens: Vec<Token> = (first..first + run.tokens).map(|token| self.token(token, head)).collect();
                let scale = f64::from(self.scale);
                let results: Vec<f64> = if plain == Plain::InChunks {
                    tokens.chunks(CHUNK).flat_map(|chunk| solve_chunk(chunk, scale, state)).collect()
                } else {
                    tokens.iter().flat_map(|token| step(token, scale, state)).collect()
                };
                for (number, result) in results.chunks_exact(shape.value_dim).enumerate() {
                    let to = ((first + number) * shape.value_heads + head) * shape.value_dim;
                    output[to..][..shape.value_dim].copy_from_slice(result);
                }
                if plain != Plain::Exact {
                    for value in state {
                        *value = f64::from(*value as f32);
                    }
                }
            }
        }
        if plain != Plain::Exact {
            for value in &mut output {
                *value = bf16(*value);
            }
        }
        GatedDeltaResult { output, states, guards_intact: true }
    }

    fn token(&self, token: usize, head: usize) -> Token {
        let GatedDeltaShape { key_heads, value_heads, key_dim, value_dim, normalise } = self.shape;
        let key_place = (token * key_heads + head * key_heads / value_heads) * key_dim;
        let [(query, _), (key, key_factor)] = [0, 1].map(|kind| {
            let row = widen(&self.rows[kind][key_place..][..key_dim]);
            let square: f64 = row.iter().map(|x| x * x).sum();
            let factor = if normalise { 1.0 / (square + 1e-6).sqrt() } else { 1.0 };
            (row.into_iter().map(|x| x * factor).collect::<Vec<_>>(), factor)
        });
        let gate = |kind: usize| f64::from(from_bf16(self.rows[kind][token * value_heads + head]));
        let x = gate(3) + f64::from(self.dt_bias[head]);
        let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
        Token {
            query,
            key,
            key_factor,
            value: widen(&self.rows[2][(token * value_heads + head) * value_dim..][..value_dim]),
            log_decay: -f64::from(self.a_log[head]).exp() * softplus,
            beta: 1.0 / (1.0 + (-gate(4)).exp()),
        }
    }

    /// Solves a problem of one token per request, all of which continue, with the kernel for that.
    pub fn run_decode(&self, device: &CudaDevice, kernel: &GatedDelta) -> Result<GatedDeltaResult, CudaError> {
        self.run(device, |device, inputs, states, output| {
            device.gated_delta_decode(kernel, inputs, states, output.rows())
        })
    }

    /// Solves the problem with the kernels for runs.
    pub fn run_prefill(&self, device: &CudaDevice, kernel: &GatedDelta) -> Result<GatedDeltaResult, CudaError> {
        let starts = device.upload(&self.starts)?;
        let continues: Vec<i32> =
            self.runs.iter().map(|run| if run.continues == Some(false) { 0 } else { 7 }).collect();
        let continues = device.upload(&continues)?;
        let requests = self.runs.len();
        let mut workspace = GatedDeltaWorkspace::new(device, &self.shape, requests, self.tokens)?;
        workspace.chunks = device.upload(&vec![u32::MAX; workspace.chunks.len()])?;
        let runs = GatedDeltaRuns {
            starts: starts.as_view(),
            continues: continues.slice(..requests),
            tokens: self.tokens,
            longest: self.runs.iter().map(|run| run.tokens).max().unwrap_or(0),
        };
        self.run(device, |device, inputs, states, output| {
            device.gated_delta_prefill(kernel, inputs, &runs, states, &mut workspace, output.rows())
        })
    }

    fn run(
        &self,
        device: &CudaDevice,
        launch: impl FnOnce(
            &CudaDevice,
            &GatedDeltaInputs<'_>,
            GatedDeltaStates<'_>,
            &mut StridedOutput,
        ) -> Result<(), CudaError>,
    ) -> Result<GatedDeltaResult, CudaError> {
        let widths = Self::widths(&self.shape);
        let layout = |width, gap| Layout { rows: self.tokens, width, stride: width + gap };
        let input = |kind: usize| StridedInput::new(device, layout(widths[kind], self.gap), &self.rows[kind]);
        let (query, key, value, a, b) = (input(0)?, input(1)?, input(2)?, input(3)?, input(4)?);
        let (a_log, dt_bias): (CudaSlice<f32>, CudaSlice<f32>) =
            (device.upload(&self.a_log)?, device.upload(&self.dt_bias)?);
        let distance = self.slot_distance;
        let distant = |&slot: &i32| if slot == i32::MAX { slot } else { slot * distance as i32 };
        let slots = device.upload(&self.slots.iter().map(distant).collect::<Vec<_>>())?;
        let length = self.shape.state_length();
        let places =
            (0..self.states.len() / length).map(|slot| slot * distance * length..(slot * distance + 1) * length);
        let mut states = if distance == 1 {
            Guarded::with(device, &self.states)?
        } else {
            let mut states = Guarded::in_pieces(device, self.states.len() * distance, places.clone())?;
            for (place, state) in places.clone().zip(self.states.chunks_exact(length)) {
                device.overwrite(&mut states.view_mut().slice_mut(place), state)?;
            }
            states
        };
        let mut output = StridedOutput::new(device, layout(widths[2], 2 * self.gap))?;
        let inputs = GatedDeltaInputs {
            query: query.rows(),
            key: key.rows(),
            value: value.rows(),
            a: a.rows(),
            b: b.rows(),
            a_log: a_log.as_view(),
            dt_bias: dt_bias.as_view(),
            scale: self.scale,
        };
        let of_requests = GatedDeltaStates { values: states.view_mut(), slots: slots.slice(..self.slots.len()) };
        launch(device, &inputs, of_requests, &mut output)?;
        let (output, output_intact) = output.read(device)?;
        let (states, states_intact) =
            if distance == 1 { states.read(device)? } else { states.read_pieces(device, places)? };
        Ok(GatedDeltaResult {
            output: widen(&output),
            states: states.into_iter().map(f64::from).collect(),
            guards_intact: output_intact && states_intact,
        })
    }

    /// Compares a solution of single tokens: its output, which is rounded once, and the states.
    #[must_use]
    pub fn compare_decode(&self, found: &GatedDeltaResult) -> [Comparison; 2] {
        self.compare(found, Plain::Rounded, [Accuracy::Bf16Once, Accuracy::F32])
    }

    /// Compares a solution of runs: its output and the states.
    #[must_use]
    pub fn compare_prefill(&self, found: &GatedDeltaResult) -> [Comparison; 2] {
        self.compare(found, Plain::InChunks, [Accuracy::Bf16Alike; 2])
    }

    fn compare(&self, found: &GatedDeltaResult, naive: Plain, accuracy: [Accuracy; 2]) -> [Comparison; 2] {
        let (naive, reference) = (self.solve(naive), self.reference());
        [
            compare(&found.output, &naive.output, &reference.output, accuracy[0]),
            compare(&found.states, &naive.states, &reference.states, accuracy[1]),
        ]
    }
}

/// Takes the state of a head through a token; its result.
fn step(token: &Token, scale: f64, state: &mut [f64]) -> Vec<f64> {
    let decay = token.log_decay.exp();
    let rows = state.chunks_exact_mut(token.key.len()).zip(&token.value);
    let result = rows.map(|(row, value)| {
        for s in row.iter_mut() {
            *s *= decay;
        }
        let known: f64 = row.iter().zip(&token.key).map(|(s, k)| s * k).sum();
        let learnt = token.beta * (value - known);
        row.iter_mut().zip(&token.key).for_each(|(s, k)| *s += learnt * k);
        scale * row.iter().zip(&token.query).map(|(s, q)| s * q).sum::<f64>()
    });
    result.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrong plain computation would excuse a wrong kernel.
    #[test]
    fn chunks_differ_from_tokens_by_rounding_alone() {
        for (key_dim, value_dim, normalise) in [(64, 32, true), (128, 32, false)] {
            let shape = GatedDeltaShape { key_heads: 1, value_heads: 2, key_dim, value_dim, normalise };
            let runs = [(150, true), (64, false), (1, true)];
            let runs = runs.map(|(tokens, continues)| GatedDeltaRun { tokens, continues: Some(continues) });
            let problem = GatedDeltaProblem::random(shape, &runs, 1, 0, 3);
            let comparisons = problem.compare_prefill(&problem.solve(Plain::InChunks));
            for Comparison { relative, .. } in comparisons {
                assert!((2e-4..4e-3).contains(&relative), "{shape:?}: {relative}");
            }
        }
    }
}
