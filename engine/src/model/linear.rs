//! A matrix with the bias that some models add to its products.

use kernels::cpu::{Workers, add_bias, matmul};

use super::plan::WeightPlan;
use super::tensors::ModelTensor;

/// `y = x · Wᵀ + b`; the matrix is `[out, in]`.
pub(super) struct Linear {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Linear {
    /// The matrices `weights` one below another and, where there are any, the biases of all of them.
    pub(super) fn load(
        plan: &WeightPlan<'_>,
        workers: &Workers,
        weights: &[ModelTensor],
        biases: Option<&[ModelTensor]>,
    ) -> Self {
        Self { weight: plan.load(workers, weights), bias: biases.map(|biases| plan.load(workers, biases)) }
    }

    /// The products of the rows of `x`, of `k` elements each; a product has `n` elements.
    pub(super) fn forward(&self, workers: &Workers, x: &[f32], (k, n): (usize, usize)) -> Vec<f32> {
        let mut y = vec![0.0; x.len() / k * n];
        matmul(workers, x, &self.weight, k, &mut y);
        if let Some(bias) = &self.bias {
            add_bias(workers, &mut y, bias);
        }
        y
    }

    pub(super) fn weights(&self) -> impl Iterator<Item = &[f32]> {
        std::iter::once(&self.weight).chain(&self.bias).map(Vec::as_slice)
    }
}
