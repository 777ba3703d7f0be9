//! The forward pass, in single precision on the CPU.

use kernels::cpu::{
    AttentionShape, RopeTable, SequenceSpan, Workers, apply_rope, matmul, paged_attention, rms_norm, rms_norm_heads,
    silu_mul,
};

use super::config::{Architecture, ModelConfig};
use super::plan::WeightPlan;
use super::tensors::{LayerTensor, ModelTensor};
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
pub struct Llama {
    config: ModelConfig,
    inverse_frequencies: Vec<f64>,
    embedding: Vec<f32>,
    layers: Vec<Layer>,
    final_norm: Vec<f32>,
    /// Nothing where the embedding is the head.
    head: Option<Vec<f32>>,
}

/// Matrices are `[out, in]`; those that read the same input are stacked.
struct Layer {
    attention_norm: Vec<f32>,
    query_key_value: Vec<f32>,
    query_key_norm: Option<(Vec<f32>, Vec<f32>)>,
    attention_output: Vec<f32>,
    mlp_norm: Vec<f32>,
    gate_up: Vec<f32>,
    down: Vec<f32>,
}

impl Layer {
    fn weights(&self) -> impl Iterator<Item = &Vec<f32>> {
        let Self { attention_norm, query_key_value, query_key_norm, attention_output, mlp_norm, gate_up, down } = self;
        let norms = query_key_norm.iter().flat_map(|(query, key)| [query, key]);
        [attention_norm, query_key_value, attention_output, mlp_norm, gate_up, down].into_iter().chain(norms)
    }
}

impl Llama {
    /// Reads all weights of a checked plan.
    #[must_use]
    pub fn load(plan: &WeightPlan<'_>, workers: &Workers) -> Self {
        use LayerTensor::{AttentionNorm, Down, Gate, Key, KeyNorm, MlpNorm, Output, Query, QueryNorm, Up, Value};
        let config = plan.config().clone();
        let one = |tensor| plan.load(workers, &[tensor]);
        let layers = (0..config.layers)
            .map(|index| {
                let layer = |tensor| ModelTensor::Layer(index, tensor);
                Layer {
                    attention_norm: one(layer(AttentionNorm)),
                    query_key_value: plan.load(workers, &[Query, Key, Value].map(layer)),
                    query_key_norm: (config.architecture == Architecture::Qwen3)
                        .then(|| (one(layer(QueryNorm)), one(layer(KeyNorm)))),
                    attention_output: one(layer(Output)),
                    mlp_norm: one(layer(MlpNorm)),
                    gate_up: plan.load(workers, &[Gate, Up].map(layer)),
                    down: one(layer(Down)),
                }
            })
            .collect();
        Self {
            inverse_frequencies: config.rope.inverse_frequencies(config.head_dim),
            embedding: one(ModelTensor::Embedding),
            layers,
            final_norm: one(ModelTensor::FinalNorm),
            head: (!config.tied_embeddings).then(|| one(ModelTensor::Head)),
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
        self.weights().map(<[f32]>::len).sum()
    }

    /// The bytes of all weights.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weights().map(size_of_val).sum()
    }

    fn weights(&self) -> impl Iterator<Item = &[f32]> {
        let layers = self.layers.iter().flat_map(Layer::weights);
        [Some(&self.embedding), Some(&self.final_norm), self.head.as_ref()]
            .into_iter()
            .flatten()
            .chain(layers)
            .map(Vec::as_slice)
    }

    /// Runs the tokens of `batch` through the model, adds their keys and values to `kv`, and returns the wanted logits,
    /// `[logit_rows, vocab_size]`.
    ///
    /// # Panics
    ///
    /// When a token id is not below the vocabulary size, or the parts of the batch do not fit one another or the store.
    #[must_use]
    pub fn forward(&self, workers: &Workers, kv: &mut KvStore, batch: Batch<'_>) -> Vec<f32> {
        workers.run(|| {
            let hidden = self.hidden_states(workers, kv, batch);
            self.logits(workers, &hidden, batch.logit_rows)
        })
    }

    /// The residual stream after the last layer, `[tokens, hidden_size]`.
    fn hidden_states(&self, workers: &Workers, kv: &mut KvStore, batch: Batch<'_>) -> Vec<f32> {
        let width = self.config.hidden_size;
        let mut hidden: Vec<f32> = batch
            .token_ids
            .iter()
            .flat_map(|&id| &self.embedding[id as usize * width..(id as usize + 1) * width])
            .copied()
            .collect();
        let rope = RopeTable::new(&self.inverse_frequencies, batch.positions.iter().copied());
        for (index, layer) in self.layers.iter().enumerate() {
            let attended = self.attention(workers, kv, batch, (index, layer), &rope, &hidden);
            add(&mut hidden, &attended);
            let fed = self.feed_forward(workers, layer, &hidden);
            add(&mut hidden, &fed);
        }
        hidden
    }

    fn attention(
        &self,
        workers: &Workers,
        kv: &mut KvStore,
        batch: Batch<'_>,
        (index, layer): (usize, &Layer),
        rope: &RopeTable,
        hidden: &[f32],
    ) -> Vec<f32> {
        let config = &self.config;
        let (query_size, kv_size) = (config.query_size(), config.kv_size());
        let row_len = query_size + 2 * kv_size;
        let tokens = batch.token_ids.len();

        let normed = self.normed(workers, &layer.attention_norm, hidden);
        let mut qkv = vec![0.0; tokens * row_len];
        matmul(workers, &normed, &layer.query_key_value, config.hidden_size, &mut qkv);
        if let Some((query_norm, key_norm)) = &layer.query_key_norm {
            let eps = config.rms_norm_eps;
            rms_norm_heads(workers, &mut qkv, row_len, (0, config.heads), query_norm, eps);
            rms_norm_heads(workers, &mut qkv, row_len, (query_size, config.kv_heads), key_norm, eps);
        }
        apply_rope(workers, &mut qkv, row_len, config.heads + config.kv_heads, rope);
        for (row, &slot) in qkv.chunks_exact(row_len).zip(batch.slots) {
            let (key, value) = row[query_size..].split_at(kv_size);
            kv.write(index, slot, key, value);
        }

        let shape = AttentionShape { heads: config.heads, kv_heads: config.kv_heads, head_dim: config.head_dim };
        let mut attended = vec![0.0; tokens * query_size];
        paged_attention(workers, (&qkv, row_len), kv.layer(index), shape, batch.sequences, &mut attended);
        let mut out = vec![0.0; hidden.len()];
        matmul(workers, &attended, &layer.attention_output, query_size, &mut out);
        out
    }

    fn feed_forward(&self, workers: &Workers, layer: &Layer, hidden: &[f32]) -> Vec<f32> {
        let (width, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let tokens = hidden.len() / width;
        let normed = self.normed(workers, &layer.mlp_norm, hidden);
        let mut gate_up = vec![0.0; tokens * 2 * inner];
        matmul(workers, &normed, &layer.gate_up, width, &mut gate_up);
        let mut activated = vec![0.0; tokens * inner];
        silu_mul(workers, &gate_up, inner, &mut activated);
        let mut out = vec![0.0; hidden.len()];
        matmul(workers, &activated, &layer.down, inner, &mut out);
        out
    }

    fn logits(&self, workers: &Workers, hidden: &[f32], rows: &[usize]) -> Vec<f32> {
        let width = self.config.hidden_size;
        let wanted: Vec<f32> = rows.iter().flat_map(|&row| &hidden[row * width..(row + 1) * width]).copied().collect();
        let normed = self.normed(workers, &self.final_norm, &wanted);
        let mut logits = vec![0.0; rows.len() * self.config.vocab_size];
        matmul(workers, &normed, self.head.as_ref().unwrap_or(&self.embedding), width, &mut logits);
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
