//! Random parts of attention, and what they are together.

use super::acceptance::{Accuracy, Comparison, compare};
use super::attention::AttentionResult;
use super::guarded::Guarded;
use super::noise::{BF16_NAN, Noise, from_bf16, to_bf16};
use super::strided::{Layout, StridedInput, StridedOutput, widen};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::merge_states::{AttentionState, MergeStates, MergeStatesArgs, MergeStatesShape};

/// Two parts of rows. Of every seven heads of a row one has no first part, one no second, one neither, and what they
/// should have given is NaN; one has a part that weighs nothing beside the other.
#[derive(Debug, Clone)]
pub struct MergeProblem {
    shape: MergeStatesShape,
    rows: usize,
    gap: usize,
    parts: [Part; 2],
    sinks: Vec<f32>,
}

#[derive(Debug, Clone)]
struct Part {
    output: Vec<u16>,
    lse: Vec<f32>,
}

impl MergeProblem {
    /// `rows` rows, `gap` elements apart in the first part and twice as many in the second.
    #[must_use]
    pub fn random(shape: MergeStatesShape, rows: usize, gap: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let states = rows * shape.query_heads;
        let mut parts = [(); 2].map(|()| Part {
            output: noise.normal_bf16(states * shape.head_dim),
            lse: (0..states).map(|_| noise.normal() * 3.0).collect(),
        });
        let nothing = [f32::NEG_INFINITY, f32::INFINITY];
        for state in 0..states {
            let kind = (state + state / 7) % 7;
            for (index, part) in parts.iter_mut().enumerate() {
                if kind == index || kind == 2 {
                    part.lse[state] = nothing[noise.below(2)];
                    part.output[state * shape.head_dim..][..shape.head_dim].fill(BF16_NAN);
                }
            }
            if kind == 3 {
                parts[noise.below(2)].lse[state] += 1000.0;
            }
        }
        let sinks = (0..shape.query_heads).map(|_| noise.normal() + 2.0).collect();
        Self { shape, rows, gap, parts, sinks }
    }

    /// Two parts that kernels have found, laid out without gaps.
    #[must_use]
    pub fn of_results(shape: MergeStatesShape, parts: [&AttentionResult; 2], sinks: &[f32]) -> Self {
        let rows = parts[0].lse.len() / shape.query_heads;
        let parts = parts.map(|part| Part {
            output: part.output.iter().map(|&value| to_bf16(value as f32)).collect(),
            lse: part.lse.iter().map(|&lse| lse as f32).collect(),
        });
        Self { shape, rows, gap: 0, parts, sinks: sinks.to_vec() }
    }

    /// The same problem without the rows from `count` on.
    #[must_use]
    pub fn first_rows(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.rows = count;
        for part in &mut fewer.parts {
            part.lse.truncate(count * self.shape.query_heads);
            part.output.truncate(count * self.shape.query_heads * self.shape.head_dim);
        }
        fewer
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> AttentionResult {
        let mut result = AttentionResult::new();
        for state in 0..self.rows * self.shape.query_heads {
            let seen: Vec<&Part> = self.parts.iter().filter(|part| part.lse[state].is_finite()).collect();
            let max = seen.iter().map(|part| f64::from(part.lse[state])).fold(f64::NEG_INFINITY, f64::max);
            let weight = |part: &Part| (f64::from(part.lse[state]) - max).exp();
            let sum: f64 = seen.iter().map(|part| weight(part)).sum();
            let sink = f64::from(self.sinks[state % self.shape.query_heads]);
            let denominator = sum + if self.shape.sinks { (sink - max).exp() } else { 0.0 };
            for place in 0..self.shape.head_dim {
                let value = |part: &Part| f64::from(from_bf16(part.output[state * self.shape.head_dim + place]));
                let total: f64 = seen.iter().map(|part| weight(part) * value(part)).sum();
                result.output.push(if seen.is_empty() { 0.0 } else { total / denominator });
            }
            result.lse.push(if seen.is_empty() { f64::NEG_INFINITY } else { max + sum.ln() });
        }
        result
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &MergeStates) -> Result<AttentionResult, CudaError> {
        let width = self.shape.query_heads * self.shape.head_dim;
        let states = self.rows * self.shape.query_heads;
        let layout = |gap| Layout { rows: self.rows, width, stride: width + gap };
        let first = StridedInput::new(device, layout(self.gap), &self.parts[0].output)?;
        let second = StridedInput::new(device, layout(2 * self.gap), &self.parts[1].output)?;
        let (first_lse, second_lse) = (device.upload(&self.parts[0].lse)?, device.upload(&self.parts[1].lse)?);
        let sinks = device.upload(&self.sinks)?;
        let mut output = StridedOutput::new(device, layout(3 * self.gap))?;
        let mut lse = Guarded::<f32>::new(device, states)?;
        device.merge_states(
            kernel,
            MergeStatesArgs {
                parts: [
                    AttentionState { output: first.rows(), lse: first_lse.slice(..states) },
                    AttentionState { output: second.rows(), lse: second_lse.slice(..states) },
                ],
                rows: self.rows,
                sinks: self.shape.sinks.then(|| sinks.as_view()),
                output: output.rows(),
                lse: lse.view_mut(),
            },
        )?;
        Ok(AttentionResult::found(&output.read(device)?, &lse.read(device)?))
    }

    /// Compares a solution's output and its softmax denominators with the reference. The output is rounded once.
    #[must_use]
    pub fn compare(&self, found: &AttentionResult) -> [Comparison; 2] {
        let reference = self.reference();
        let rounded: Vec<u16> = reference.output.iter().map(|&value| to_bf16(value as f32)).collect();
        let lse: Vec<f64> = reference.lse.iter().map(|&lse| f64::from(lse as f32)).collect();
        [
            compare(&found.output, &widen(&rounded), &reference.output, Accuracy::Bf16Once),
            compare(&found.lse, &lse, &reference.lse, Accuracy::F32),
        ]
    }
}
