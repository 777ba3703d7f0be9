//! Random choices of experts, sorts of rows by expert, and sums over experts, and their solutions.

use std::cmp::Ordering;

use super::acceptance::{Accuracy, Comparison, compare};
use super::guarded::{Element, Guarded};
use super::noise::{Noise, change, from_bf16, to_bf16};
use super::norm::WeightFormat;
use super::strided::{Layout, StridedInput, StridedOutput, widen};
use crate::cuda::combine_experts::{CombineExperts, CombineExpertsArgs, CombineExpertsShape};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::floats::Floats;
use crate::cuda::group_rows::{GroupRows, GroupRowsArgs, GroupRowsShape};
use crate::cuda::grouped_gemm::RowGroups;
use crate::cuda::route_experts::{RouteExperts, RouteExpertsArgs, RouteExpertsShape};

/// Logits of tokens. After the first: one whose logits are all alike, a padding token, one with few different logits, one
/// with zeros of both signs, one without a number, one with a NaN among numbers, one with an infinity, one in which all but
/// one expert are impossible, one far beyond the range of the exponential.
#[derive(Debug, Clone)]
pub struct RoutingProblem {
    shape: RouteExpertsShape,
    stride: usize,
    format: WeightFormat,
    logits: Vec<f32>,
    positions: Vec<i32>,
}

/// A solution.
#[derive(Debug, Clone)]
pub struct RoutingResult {
    /// `[tokens, chosen]`.
    pub experts: Vec<i32>,
    /// `[tokens, chosen]`.
    pub weights: Vec<f64>,
    /// Whether the memory around both was left alone.
    pub guards_intact: bool,
}

impl RoutingResult {
    /// A solution of no tokens yet.
    pub(super) fn new() -> Self {
        Self { experts: Vec::new(), weights: Vec::new(), guards_intact: true }
    }

    /// Adds a token that is padding.
    pub(super) fn push_padding(&mut self, chosen: usize) {
        self.experts.extend(std::iter::repeat_n(-1, chosen));
        self.weights.extend(std::iter::repeat_n(0.0, chosen));
    }

    /// What a kernel has left on the device.
    pub(super) fn read(device: &CudaDevice, experts: &Guarded<i32>, weights: &Guarded<f32>) -> Result<Self, CudaError> {
        let (experts, experts_intact) = experts.read(device)?;
        let (weights, weights_intact) = weights.read(device)?;
        let weights = weights.into_iter().map(f64::from).collect();
        Ok(Self { experts, weights, guards_intact: experts_intact && weights_intact })
    }

    /// Compares the weights with the reference's. The experts are not compared: they must be equal.
    pub(super) fn compare(&self, naive: &Self, reference: &Self) -> Comparison {
        compare(&self.weights, &naive.weights, &reference.weights, Accuracy::F32)
    }
}

impl RoutingProblem {
    /// `tokens` tokens with logits in `format`, `gap` more between them that are higher than any other.
    #[must_use]
    pub fn random(shape: RouteExpertsShape, tokens: usize, gap: usize, format: WeightFormat, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let stride = shape.experts + gap;
        let mut logits = vec![1e30; tokens * stride];
        for (token, row) in logits.chunks_exact_mut(stride).enumerate() {
            let row = &mut row[..shape.experts];
            row.fill_with(|| noise.normal() * 4.0);
            let place = noise.below(shape.experts);
            match token % 10 {
                1 => row.fill(0.5),
                3 => change(row, |logit| logit.round() / 4.0),
                4 => row.iter_mut().enumerate().for_each(|(i, logit)| *logit = if i % 2 == 0 { -0.0 } else { 0.0 }),
                5 => row.fill(f32::NAN),
                6 => row[place] = f32::NAN,
                7 => row[place] = f32::INFINITY,
                8 => {
                    row.fill(f32::NEG_INFINITY);
                    row[place] = -3.0;
                }
                9 => change(row, |logit| logit * 300.0),
                // The next number after the other, in the same lane of a warp.
                0 if shape.experts > 33 => (row[1], row[33]) = (20.0, 20.0_f32.next_up()),
                _ => {}
            }
        }
        if format == WeightFormat::Bf16 {
            change(&mut logits, |logit| from_bf16(to_bf16(logit)));
        }
        let positions = (0..tokens as i32).map(|token| if token % 10 == 2 { -1 } else { token }).collect();
        Self { shape, stride, format, logits, positions }
    }

    /// The same problem without the tokens from `count` on.
    #[must_use]
    pub fn first_tokens(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.positions.truncate(count);
        fewer.logits.truncate(count * self.stride);
        fewer
    }

    /// The solution in double precision.
    #[must_use]
    pub fn reference(&self) -> RoutingResult {
        self.solve(|logit, max| (f64::from(logit) - f64::from(max)).exp())
    }

    /// The solution with exponentials in single precision.
    #[must_use]
    pub fn naive(&self) -> RoutingResult {
        self.solve(|logit, max| f64::from((logit - max).exp()))
    }

    fn solve(&self, power: impl Fn(f32, f32) -> f64) -> RoutingResult {
        let RouteExpertsShape { experts: count, chosen, renormalise } = self.shape;
        let mut result = RoutingResult::new();
        for (row, &position) in self.logits.chunks_exact(self.stride).zip(&self.positions) {
            if position < 0 {
                result.push_padding(chosen);
                continue;
            }
            let row: Vec<f32> =
                row[..count].iter().map(|&logit| if logit.is_nan() { f32::NEG_INFINITY } else { logit }).collect();
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap_or(Ordering::Equal));
            let max = row[order[0]];
            let share = |&expert: &usize| match row[expert] {
                _ if max == f32::NEG_INFINITY => 0.0,
                logit if logit >= max => 1.0,
                logit => power(logit, max),
            };
            let counted = if renormalise { &order[..chosen] } else { &order };
            let total: f64 = counted.iter().map(share).sum();
            result.experts.extend(order[..chosen].iter().map(|&expert| expert as i32));
            let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
            result.weights.extend(order[..chosen].iter().map(|expert| share(expert) * scale));
        }
        result
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &RouteExperts) -> Result<RoutingResult, CudaError> {
        let tokens = self.positions.len();
        let bits: Vec<u16> = self.logits.iter().map(|&logit| to_bf16(logit)).collect();
        let (bf16_logits, f32_logits) = (device.upload(&bits)?, device.upload(&self.logits)?);
        let positions = device.upload(&self.positions)?;
        let mut experts = Guarded::<i32>::new(device, tokens * self.shape.chosen)?;
        let mut weights = Guarded::<f32>::new(device, tokens * self.shape.chosen)?;
        device.route_experts(
            kernel,
            RouteExpertsArgs {
                logits: match self.format {
                    WeightFormat::Bf16 => Floats::Bf16(bf16_logits.as_view()),
                    WeightFormat::F32 => Floats::F32(f32_logits.as_view()),
                },
                stride: self.stride,
                positions: positions.slice(..tokens),
                experts: experts.view_mut(),
                weights: weights.view_mut(),
            },
        )?;
        RoutingResult::read(device, &experts, &weights)
    }

    /// Compares a solution's weights with the reference. The experts are not compared: they must be equal.
    #[must_use]
    pub fn compare(&self, found: &RoutingResult) -> Comparison {
        found.compare(&self.naive(), &self.reference())
    }
}

/// Rows sent to experts at random, some of them to experts that there are not, and most to few.
#[derive(Debug, Clone)]
pub struct GroupingProblem {
    shape: GroupRowsShape,
    expert_of_row: Vec<i32>,
    /// Blocks beyond those that any spread of the rows could need.
    spare: usize,
}

/// What a sort of rows leaves, as bits: rows, experts of blocks, and the number of entries in use.
pub type Grouping = (Vec<i32>, Vec<i32>, i32);

impl GroupingProblem {
    /// `rows` rows, and room for `spare` blocks too many.
    #[must_use]
    pub fn random(shape: GroupRowsShape, rows: usize, spare: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let expert_of_row = (0..rows)
            .map(|_| match noise.below(10) {
                0 => [-1, i32::MIN, shape.experts as i32, i32::MAX][noise.below(4)],
                1..4 => noise.below(shape.experts.min(2)) as i32,
                _ => noise.below(shape.experts) as i32,
            })
            .collect();
        Self { shape, expert_of_row, spare }
    }

    fn blocks(&self) -> usize {
        self.shape.most_blocks(self.expert_of_row.len()) + self.spare
    }

    /// The solution, by the sort on the host. What is not in use is as it was.
    pub fn reference(&self) -> Result<Grouping, CudaError> {
        let experts = self.shape.experts;
        let here = |&expert: &i32| if (0..experts as i32).contains(&expert) { expert } else { -1 };
        let expert_of_row: Vec<i32> = self.expert_of_row.iter().map(here).collect();
        let RowGroups { mut sorted_rows, mut block_expert } =
            RowGroups::new(&expert_of_row, experts, self.shape.block_rows)?;
        let used = sorted_rows.len() as i32;
        sorted_rows.resize(self.blocks() * self.shape.block_rows, i32::POISON);
        block_expert.resize(self.blocks(), i32::POISON);
        Ok((sorted_rows, block_expert, used))
    }

    /// Solves the problem with the kernel: the sort, and whether the memory around it was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &GroupRows) -> Result<(Grouping, bool), CudaError> {
        let expert_of_row = device.upload(&self.expert_of_row)?;
        let mut sorted_rows = Guarded::<i32>::new(device, self.blocks() * self.shape.block_rows)?;
        let mut block_expert = Guarded::<i32>::new(device, self.blocks())?;
        let mut used_rows = Guarded::<i32>::new(device, 1)?;
        device.group_rows(
            kernel,
            GroupRowsArgs {
                expert_of_row: expert_of_row.slice(..self.expert_of_row.len()),
                sorted_rows: sorted_rows.view_mut(),
                block_expert: block_expert.view_mut(),
                used_rows: used_rows.view_mut(),
            },
        )?;
        let (sorted_rows, sorted_intact) = sorted_rows.read(device)?;
        let (block_expert, experts_intact) = block_expert.read(device)?;
        let (used_rows, used_intact) = used_rows.read(device)?;
        Ok(((sorted_rows, block_expert, used_rows[0]), sorted_intact && experts_intact && used_intact))
    }
}

/// What the experts of some tokens gave, and how much each of them counts.
#[derive(Debug, Clone)]
pub struct CombineProblem {
    shape: CombineExpertsShape,
    tokens: usize,
    gap: usize,
    rows: Vec<u16>,
    weights: Vec<f32>,
}

impl CombineProblem {
    /// `tokens` tokens; rows are `gap` elements apart.
    #[must_use]
    pub fn random(shape: CombineExpertsShape, tokens: usize, gap: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let rows = noise.normal_bf16(tokens * shape.chosen * shape.width);
        let weights = (0..tokens * shape.chosen).map(|_| noise.normal().abs()).collect();
        Self { shape, tokens, gap, rows, weights }
    }

    fn solve(&self, sum: impl Fn(&mut dyn Iterator<Item = (f32, f32)>) -> f64) -> Vec<f64> {
        let CombineExpertsShape { width, chosen } = self.shape;
        let value = |token: usize, i: usize| {
            let choices = token * chosen..(token + 1) * chosen;
            sum(&mut choices.map(|choice| (self.weights[choice], from_bf16(self.rows[choice * width + i]))))
        };
        (0..self.tokens)
            .flat_map(|token| (0..width).map(move |i| (token, i)))
            .map(|(token, i)| value(token, i))
            .collect()
    }

    /// Solves the problem with the kernel: the output, and whether the memory around it was left alone.
    pub fn run(&self, device: &CudaDevice, kernel: &CombineExperts) -> Result<(Vec<f64>, bool), CudaError> {
        let CombineExpertsShape { width, chosen } = self.shape;
        let layout = |rows, gap| Layout { rows, width, stride: width + gap };
        let rows = StridedInput::new(device, layout(self.tokens * chosen, self.gap), &self.rows)?;
        let weights = device.upload(&self.weights)?;
        let mut output = StridedOutput::new(device, layout(self.tokens, 2 * self.gap))?;
        device.combine_experts(
            kernel,
            CombineExpertsArgs {
                rows: rows.rows(),
                weights: weights.slice(..self.weights.len()),
                tokens: self.tokens,
                output: output.rows(),
            },
        )?;
        let (output, guards_intact) = output.read(device)?;
        Ok((widen(&output), guards_intact))
    }

    /// Compares an output with the reference.
    #[must_use]
    pub fn compare(&self, found: &[f64]) -> Comparison {
        let reference = self.solve(|terms| terms.map(|(weight, x)| f64::from(weight) * f64::from(x)).sum());
        let naive = self.solve(|terms| f64::from(from_bf16(to_bf16(terms.map(|(weight, x)| weight * x).sum::<f32>()))));
        compare(found, &naive, &reference, Accuracy::Bf16Once)
    }
}
