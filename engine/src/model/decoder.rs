//! The forward pass on the CPU: weights as they are stored, everything else in single precision.

use kernels::cpu::{
    AttentionShape, Matrix, RopeTable, SequenceSpan, Workers, apply_rope, clip, paged_attention, rms_norm,
    rms_norm_heads,
};

use super::architecture::{AttentionBias, QueryKeyNorm};
use super::config::ModelConfig;
use super::feed_forward::FeedForward;
use super::linear::{Linear, WeightSize};
use super::plan::WeightPlan;
use super::rope::RopeScaling;
use super::tensors::{LayerTensor, ModelTensor};
use crate::cancel::{Cancel, go_on};
use crate::kv::KvStore;

/// The tokens of one step: those of one sequence after another.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The new tokens of all sequences.
    pub token_ids: &'a [u32],
    /// The position of each within its sequence.
    pub positions: &'a [usize],
    /// Where the keys and values of each go.
    pub slots: &'a [usize],
    /// Whose tokens they are, in order.
    pub sequences: &'a [SequenceSpan<'a>],
    /// The tokens, as indices into the batch, whose logits are wanted.
    pub logit_rows: &'a [usize],
}

/// A loaded model.
pub struct Decoder {
    config: ModelConfig,
    inverse_frequencies: Vec<f64>,
    embedding: Matrix,
    layers: Vec<Layer>,
    final_norm: Vec<f32>,
    /// Nothing where the embedding is the head.
    head: Option<Matrix>,
}

/// Matrices are `[out, in]`; those that read the same input are stacked.
struct Layer {
    attention_norm: Vec<f32>,
    query_key_value: Linear,
    query_key_norm: Option<(Vec<f32>, Vec<f32>)>,
    attention_output: Linear,
    mlp_norm: Vec<f32>,
    feed_forward: FeedForward,
}

impl Layer {
    fn load(plan: &WeightPlan<'_>, workers: &Workers, index: usize) -> Self {
        use LayerTensor::{
            AttentionNorm, Key, KeyBias, KeyNorm, MlpNorm, Output, OutputBias, Query, QueryBias, QueryNorm, Value,
            ValueBias,
        };
        let config = plan.config();
        let of_layer = |tensor| ModelTensor::Layer(index, tensor);
        let one = |tensor| plan.load(workers, &[of_layer(tensor)]);
        let linear = |weights: &[ModelTensor], biases: &[ModelTensor], is_biased: bool| {
            Linear::load(plan, workers, weights, is_biased.then_some(biases))
        };
        Self {
            attention_norm: one(AttentionNorm),
            query_key_value: linear(
                &[Query, Key, Value].map(of_layer),
                &[QueryBias, KeyBias, ValueBias].map(of_layer),
                config.attention_bias != AttentionBias::None,
            ),
            query_key_norm: (config.query_key_norm != QueryKeyNorm::None).then(|| (one(QueryNorm), one(KeyNorm))),
            attention_output: linear(
                &[of_layer(Output)],
                &[of_layer(OutputBias)],
                config.attention_bias == AttentionBias::All,
            ),
            mlp_norm: one(MlpNorm),
            feed_forward: FeedForward::load(plan, workers, index),
        }
    }

    fn sizes(&self) -> impl Iterator<Item = WeightSize> {
        let Self { attention_norm, query_key_value, query_key_norm, attention_output, mlp_norm, feed_forward } = self;
        let norms = query_key_norm.iter().flat_map(|(query, key)| [query, key]);
        [attention_norm, mlp_norm]
            .into_iter()
            .chain(norms)
            .map(|norm| WeightSize::of_floats(norm))
            .chain(query_key_value.sizes())
            .chain(attention_output.sizes())
            .chain(feed_forward.sizes())
    }
}

/// Radians per token for each pair of elements of a head.
pub(super) fn inverse_frequencies(plan: &WeightPlan<'_>, workers: &Workers) -> Vec<f64> {
    let config = plan.config();
    let mut frequencies = config.rope.inverse_frequencies(config.head_dim);
    if config.rope.scaling == RopeScaling::Stored {
        for (frequency, divisor) in frequencies.iter_mut().zip(plan.load(workers, &[ModelTensor::RopeDivisors])) {
            *frequency /= f64::from(divisor);
        }
    }
    frequencies
}

impl Decoder {
    /// Reads all weights of a checked plan.
    #[must_use]
    pub fn load(plan: &WeightPlan<'_>, workers: &Workers) -> Self {
        let config = plan.config().clone();
        let one = |tensor| plan.load(workers, &[tensor]);
        let matrix = |tensor| plan.matrix(workers, &[tensor]);
        Self {
            inverse_frequencies: inverse_frequencies(plan, workers),
            embedding: matrix(ModelTensor::Embedding),
            layers: (0..config.layers).map(|index| Layer::load(plan, workers, index)).collect(),
            final_norm: one(ModelTensor::FinalNorm),
            head: (!config.tied_embeddings).then(|| matrix(ModelTensor::Head)),
            config,
        }
    }

    /// The model's numbers.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The elements of all weights.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.sizes().map(|size| size.elements).sum()
    }

    /// The bytes of all weights.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.sizes().map(|size| size.bytes).sum()
    }

    fn sizes(&self) -> impl Iterator<Item = WeightSize> {
        std::iter::once(&self.embedding)
            .chain(&self.head)
            .map(WeightSize::of_matrix)
            .chain(std::iter::once(WeightSize::of_floats(&self.final_norm)))
            .chain(self.layers.iter().flat_map(Layer::sizes))
    }

    /// Runs the tokens of `batch` through the model, adds their keys and values to `kv`, and returns the wanted logits,
    /// `[logit_rows, vocab_size]`; nothing when it was cancelled, and then the keys and values of these tokens are not all there.
    ///
    /// `cancel` is asked before each product with a large matrix.
    ///
    /// # Panics
    ///
    /// When a token id is not below the vocabulary size, or the parts of the batch do not fit one another or the store.
    #[must_use]
    pub fn forward(
        &self,
        workers: &Workers,
        kv: &mut KvStore,
        batch: Batch<'_>,
        cancel: &dyn Cancel,
    ) -> Option<Vec<f32>> {
        workers.run_awake(|| {
            let hidden = self.hidden_states(workers, kv, batch, cancel)?;
            go_on(cancel)?;
            Some(self.logits(workers, &hidden, batch.logit_rows))
        })
    }

    /// The residual stream after the last layer, `[tokens, hidden_size]`.
    fn hidden_states(
        &self,
        workers: &Workers,
        kv: &mut KvStore,
        batch: Batch<'_>,
        cancel: &dyn Cancel,
    ) -> Option<Vec<f32>> {
        let width = self.config.hidden_size;
        let mut hidden = vec![0.0; batch.token_ids.len() * width];
        for (&id, row) in batch.token_ids.iter().zip(hidden.chunks_exact_mut(width)) {
            self.embedding.expand_row(workers.isa(), id as usize, row);
        }
        let rope =
            RopeTable::new(&self.inverse_frequencies, self.config.rope.amplitude(), batch.positions.iter().copied());
        for (index, layer) in self.layers.iter().enumerate() {
            let attended = self.attention(workers, kv, batch, (index, layer), (&rope, &hidden), cancel)?;
            add(&mut hidden, &attended);
            let normed = self.normed(workers, &layer.mlp_norm, &hidden);
            let fed = layer.feed_forward.forward(workers, &self.config, &normed, cancel)?;
            add(&mut hidden, &fed);
        }
        Some(hidden)
    }

    fn attention(
        &self,
        workers: &Workers,
        kv: &mut KvStore,
        batch: Batch<'_>,
        (index, layer): (usize, &Layer),
        (rope, hidden): (&RopeTable, &[f32]),
        cancel: &dyn Cancel,
    ) -> Option<Vec<f32>> {
        go_on(cancel)?;
        let config = &self.config;
        let (query_size, kv_size) = (config.query_size(), config.kv_size());
        let row_len = query_size + 2 * kv_size;
        let tokens = batch.token_ids.len();

        let normed = self.normed(workers, &layer.attention_norm, hidden);
        let mut qkv = layer.query_key_value.forward(workers, &normed, (config.hidden_size, row_len));
        if let Some((query_norm, key_norm)) = &layer.query_key_norm {
            let eps = config.rms_norm_eps;
            // As many vectors as the weights have room for: every head, or all of them as one.
            let (queries, keys) = (query_size / query_norm.len(), kv_size / key_norm.len());
            rms_norm_heads(workers, &mut qkv, row_len, (0, queries), query_norm, eps);
            rms_norm_heads(workers, &mut qkv, row_len, (query_size, keys), key_norm, eps);
        }
        if let Some(limit) = config.clip_qkv {
            clip(&mut qkv, limit);
        }
        apply_rope(workers, &mut qkv, row_len, config.heads + config.kv_heads, rope);
        for (row, &slot) in qkv.chunks_exact(row_len).zip(batch.slots) {
            let (key, value) = row[query_size..].split_at(kv_size);
            kv.write(index, slot, key, value);
        }

        let shape = AttentionShape {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            window: config.windows[index],
        };
        let mut attended = vec![0.0; tokens * query_size];
        paged_attention(workers, (&qkv, row_len), kv.layer(index), shape, batch.sequences, &mut attended);
        go_on(cancel)?;
        Some(layer.attention_output.forward(workers, &attended, (query_size, config.hidden_size)))
    }

    fn logits(&self, workers: &Workers, hidden: &[f32], rows: &[usize]) -> Vec<f32> {
        let width = self.config.hidden_size;
        let wanted: Vec<f32> = rows.iter().flat_map(|&row| &hidden[row * width..(row + 1) * width]).copied().collect();
        let normed = self.normed(workers, &self.final_norm, &wanted);
        let mut logits = vec![0.0; rows.len() * self.config.vocab_size];
        self.head.as_ref().unwrap_or(&self.embedding).multiply(workers, &normed, &mut logits);
        logits
    }

    fn normed(&self, workers: &Workers, weight: &[f32], x: &[f32]) -> Vec<f32> {
        let mut normed = vec![0.0; x.len()];
        rms_norm(workers, x, weight, self.config.rms_norm_eps, &mut normed);
        normed
    }
}

/// Adds to the residual stream.
fn add(hidden: &mut [f32], update: &[f32]) {
    for (hidden, update) in hidden.iter_mut().zip(update) {
        *hidden += update;
    }
}
