//! The feed-forward block of a layer: one for all tokens, or experts of which each token uses a few.

use kernels::cpu::{
    ExpertGroups, ExpertWeights, Matrix, Workers, combine_experts, grouped_matmul, matmul, route, silu_mul,
};

use super::config::{Experts, ModelConfig};
use super::linear::{Linear, WeightSize};
use super::plan::WeightPlan;
use super::tensors::{LayerTensor, ModelTensor};
use crate::cancel::{Cancel, go_on};

pub(super) enum FeedForward {
    Dense {
        gate_up: Linear,
        down: Linear,
    },
    Sparse {
        /// `[experts, hidden_size]`
        router: Vec<f32>,
        /// For each expert `[2, intermediate_size, hidden_size]`.
        gate_up: Vec<Matrix>,
        /// For each expert `[hidden_size, intermediate_size]`.
        down: Vec<Matrix>,
    },
}

impl FeedForward {
    pub(super) fn load(plan: &WeightPlan<'_>, workers: &Workers, layer: usize) -> Self {
        use LayerTensor::{Down, DownBias, ExpertDown, ExpertGate, ExpertUp, Gate, GateBias, Router, Up, UpBias};
        let of_layer = |tensor| ModelTensor::Layer(layer, tensor);
        let config = plan.config();
        match config.experts_of(layer) {
            Some(experts) => {
                let all = 0..experts.count;
                let gate_up = |expert| plan.matrix(workers, &[ExpertGate(expert), ExpertUp(expert)].map(of_layer));
                let down = |expert| plan.matrix(workers, &[of_layer(ExpertDown(expert))]);
                Self::Sparse {
                    router: plan.load(workers, &[of_layer(Router)]),
                    gate_up: all.clone().map(gate_up).collect(),
                    down: all.map(down).collect(),
                }
            }
            None => {
                let linear = |weights: &[ModelTensor], biases: &[ModelTensor]| {
                    Linear::load(plan, workers, weights, config.mlp_bias.then_some(biases))
                };
                Self::Dense {
                    gate_up: linear(&[Gate, Up].map(of_layer), &[GateBias, UpBias].map(of_layer)),
                    down: linear(&[of_layer(Down)], &[of_layer(DownBias)]),
                }
            }
        }
    }

    pub(super) fn sizes(&self) -> Vec<WeightSize> {
        match self {
            Self::Dense { gate_up, down } => gate_up.sizes().chain(down.sizes()).collect(),
            Self::Sparse { router, gate_up, down } => {
                let matrices = gate_up.iter().chain(down).map(WeightSize::of_matrix);
                std::iter::once(WeightSize::of_floats(router)).chain(matrices).collect()
            }
        }
    }

    /// `x` is `[tokens, hidden_size]`, and so is what is returned; nothing when it was cancelled.
    pub(super) fn forward(
        &self,
        workers: &Workers,
        config: &ModelConfig,
        x: &[f32],
        cancel: &dyn Cancel,
    ) -> Option<Vec<f32>> {
        go_on(cancel)?;
        match (self, &config.experts) {
            (Self::Dense { gate_up, down }, _) => {
                let (width, inner) = (config.hidden_size, config.intermediate_size);
                let both = gate_up.forward(workers, x, (width, 2 * inner));
                go_on(cancel)?;
                Some(down.forward(workers, &activated(workers, &both, inner), (inner, width)))
            }
            (Self::Sparse { router, gate_up, down }, Some(experts)) => {
                sparse(workers, experts, (x, config.hidden_size), router, (gate_up, down), cancel)
            }
            (Self::Sparse { .. }, None) => unreachable!("a layer has experts where its model does"),
        }
    }
}

fn activated(workers: &Workers, gate_up: &[f32], inner: usize) -> Vec<f32> {
    let mut y = vec![0.0; gate_up.len() / 2];
    silu_mul(workers, gate_up, inner, &mut y);
    y
}

fn sparse(
    workers: &Workers,
    experts: &Experts,
    (x, width): (&[f32], usize),
    router: &[f32],
    (gate_up, down): (&[Matrix], &[Matrix]),
    cancel: &dyn Cancel,
) -> Option<Vec<f32>> {
    let inner = experts.intermediate_size;
    let mut logits = vec![0.0; x.len() / width * experts.count];
    matmul(workers, x, router, width, &mut logits);
    let kind = if experts.renormalised { ExpertWeights::Renormalised } else { ExpertWeights::Softmax };
    let routing = route(&logits, experts.count, experts.per_token, kind);
    let groups = ExpertGroups::new(&routing, experts.count);
    let mut both = vec![0.0; groups.rows() * 2 * inner];
    grouped_matmul(workers, &groups, x, |row| groups.token(row), gate_up, &mut both);
    go_on(cancel)?;
    let mut products = vec![0.0; groups.rows() * width];
    grouped_matmul(workers, &groups, &activated(workers, &both, inner), |row| row, down, &mut products);
    let mut y = vec![0.0; x.len()];
    combine_experts(workers, &routing, &groups, (&products, width), &mut y);
    Some(y)
}
