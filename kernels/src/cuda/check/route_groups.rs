//! Random choices of experts by sigmoid within groups, and their solutions.

use super::acceptance::Comparison;
use super::guarded::Guarded;
use super::noise::{Noise, change};
use super::routing::RoutingResult;
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::floats::Floats;
use crate::cuda::route_experts::{ExpertScoring, RouteExpertsArgs, RouteExpertsShape, RouteGroups, RouteGroupsShape};

/// Logits of tokens, and a bias that has few different numbers, so that experts and groups tie. After the first token: one
/// whose logits are all alike, a padding token, one with few different logits, one without a number, one with a NaN among
/// numbers, one whose scores are all zero or one.
#[derive(Debug, Clone)]
pub struct GroupRoutingProblem {
    shape: RouteGroupsShape,
    stride: usize,
    scale: f32,
    bias: Option<Vec<f32>>,
    logits: Vec<f32>,
    positions: Vec<i32>,
}

impl GroupRoutingProblem {
    /// `tokens` tokens, `gap` more logits between them that are higher than any other.
    #[must_use]
    pub fn random(shape: RouteGroupsShape, tokens: usize, gap: usize, is_biased: bool, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let count = shape.experts.experts;
        let stride = count + gap;
        let bias = is_biased.then(|| (0..count).map(|_| (noise.normal() * 2.0).round() / 8.0 - 0.5).collect());
        let mut logits = vec![1e30; tokens * stride];
        for (token, row) in logits.chunks_exact_mut(stride).enumerate() {
            let row = &mut row[..count];
            row.fill_with(|| noise.normal() * 2.0);
            let place = noise.below(count);
            match token % 8 {
                1 => row.fill(0.5),
                3 => change(row, |logit| logit.round() / 4.0),
                4 => row.fill(f32::NAN),
                5 => row[place] = f32::NAN,
                6 => change(row, |logit| logit.signum() * (110.0 + logit.abs() * 100.0)),
                _ => {}
            }
        }
        let positions = (0..tokens as i32).map(|token| if token % 8 == 2 { -1 } else { token }).collect();
        Self { shape, stride, scale: 2.5, bias, logits, positions }
    }

    /// The same problem without the tokens from `count` on.
    #[must_use]
    pub fn first_tokens(&self, count: usize) -> Self {
        let mut fewer = self.clone();
        fewer.positions.truncate(count);
        fewer.logits.truncate(count * self.stride);
        fewer
    }

    /// The solution: choices by scores as single precision has them, weights in double precision.
    #[must_use]
    pub fn reference(&self) -> RoutingResult {
        self.solve(|logit| 1.0 / (1.0 + (-f64::from(logit)).exp()))
    }

    /// The solution with scores in single precision.
    #[must_use]
    pub fn naive(&self) -> RoutingResult {
        self.solve(|logit| f64::from(1.0 / (1.0 + (-logit).exp())))
    }

    fn solve(&self, score: impl Fn(f32) -> f64) -> RoutingResult {
        let RouteGroupsShape { experts: RouteExpertsShape { experts: count, chosen, renormalise }, .. } = self.shape;
        let mut result = RoutingResult::new();
        for (row, &position) in self.logits.chunks_exact(self.stride).zip(&self.positions) {
            if position < 0 {
                result.push_padding(chosen);
                continue;
            }
            let scores: Vec<f64> =
                row[..count].iter().map(|&logit| if logit.is_nan() { 0.0 } else { score(logit) }).collect();
            let choice = |expert: usize| match &self.bias {
                _ if row[expert].is_nan() => f32::NEG_INFINITY,
                Some(bias) => scores[expert] as f32 + bias[expert],
                None => scores[expert] as f32,
            };
            let choices: Vec<f32> = (0..count).map(choice).collect();
            let experts = self.choose(&choices);
            let total: f64 = experts.iter().map(|&expert| scores[expert]).sum();
            let divisor = if renormalise { total + 1e-20 } else { 1.0 };
            result.weights.extend(experts.iter().map(|&expert| scores[expert] / divisor * f64::from(self.scale)));
            result.experts.extend(experts.into_iter().map(|expert| expert as i32));
        }
        result
    }

    /// The experts of a token, given what is for choosing each.
    fn choose(&self, choices: &[f32]) -> Vec<usize> {
        let RouteGroupsShape { experts, groups, chosen_groups } = self.shape;
        let size = experts.experts / groups;
        let of_group = |group: usize| {
            let mut sorted = choices[group * size..(group + 1) * size].to_vec();
            sorted.sort_by(|a, b| b.total_cmp(a));
            if groups == 1 { 0.0 } else { sorted[0] + sorted[1] }
        };
        let best_groups = highest(&(0..groups).map(of_group).collect::<Vec<_>>(), chosen_groups);
        let mut candidates: Vec<usize> =
            best_groups.into_iter().flat_map(|group| group * size..(group + 1) * size).collect();
        candidates.sort_unstable();
        let of_candidates: Vec<f32> = candidates.iter().map(|&expert| choices[expert]).collect();
        highest(&of_candidates, experts.chosen).into_iter().map(|place| candidates[place]).collect()
    }

    /// Solves the problem with the kernel.
    pub fn run(&self, device: &CudaDevice, kernel: &RouteGroups) -> Result<RoutingResult, CudaError> {
        let tokens = self.positions.len();
        let chosen = self.shape.experts.chosen;
        let (logits, positions) = (device.upload(&self.logits)?, device.upload(&self.positions)?);
        let bias = self.bias.as_ref().map(|bias| device.upload(bias)).transpose()?;
        let mut experts = Guarded::<i32>::new(device, tokens * chosen)?;
        let mut weights = Guarded::<f32>::new(device, tokens * chosen)?;
        device.route_groups(
            kernel,
            RouteExpertsArgs {
                logits: Floats::F32(logits.as_view()),
                stride: self.stride,
                positions: positions.slice(..tokens),
                experts: experts.view_mut(),
                weights: weights.view_mut(),
            },
            &ExpertScoring { bias: bias.as_ref().map(|bias| bias.as_view()), scale: self.scale },
        )?;
        RoutingResult::read(device, &experts, &weights)
    }

    /// Compares a solution's weights with the reference. The experts are not compared: they must be equal.
    #[must_use]
    pub fn compare(&self, found: &RoutingResult) -> Comparison {
        found.compare(&self.naive(), &self.reference())
    }
}

/// The places of the `count` highest numbers, of equal ones those that come first.
fn highest(numbers: &[f32], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.sort_by(|&a, &b| numbers[b].partial_cmp(&numbers[a]).expect("numbers that can be compared"));
    places.truncate(count);
    places
}
