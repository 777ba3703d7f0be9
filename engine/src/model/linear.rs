//! A matrix with the bias that some models add to its products.

use kernels::cpu::{Matrix, Workers, add_bias};

use super::plan::WeightPlan;
use super::tensors::ModelTensor;

/// `y = x · Wᵀ + b`; the matrix is `[out, in]`.
pub(super) struct Linear {
    weight: Matrix,
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
        Self { weight: plan.matrix(workers, weights), bias: biases.map(|biases| plan.load(workers, biases)) }
    }

    /// The products of the rows of `x`, of `k` elements each; a product has `n` elements.
    pub(super) fn forward(&self, workers: &Workers, x: &[f32], (k, n): (usize, usize)) -> Vec<f32> {
        let mut y = vec![0.0; x.len() / k * n];
        self.weight.multiply(workers, x, &mut y);
        if let Some(bias) = &self.bias {
            add_bias(workers, &mut y, bias);
        }
        y
    }

    pub(super) fn sizes(&self) -> impl Iterator<Item = WeightSize> {
        let bias = self.bias.iter().map(|bias| WeightSize::of_floats(bias));
        std::iter::once(WeightSize::of_matrix(&self.weight)).chain(bias)
    }
}

/// What a weight takes.
pub(super) struct WeightSize {
    pub(super) elements: usize,
    pub(super) bytes: usize,
}

impl WeightSize {
    pub(super) fn of_floats(floats: &[f32]) -> Self {
        Self { elements: floats.len(), bytes: size_of_val(floats) }
    }

    pub(super) fn of_matrix(matrix: &Matrix) -> Self {
        Self { elements: matrix.rows() * matrix.columns(), bytes: matrix.bytes() }
    }
}
