//! Attention of one query, computed twice: exactly, and as a plain bf16 program has it.

use super::acceptance::{Accuracy, Comparison, compare};
use super::noise::{from_bf16, to_bf16};
use crate::cuda::attention_rules::AttentionRules;

/// A solution.
#[derive(Debug, Clone)]
pub struct AttentionResult {
    /// `[tokens, query_heads, elements of a value]`.
    pub output: Vec<f64>,
    /// `[tokens, query_heads]`.
    pub lse: Vec<f64>,
    /// Whether the memory around both was left alone.
    pub guards_intact: bool,
}

/// How a score is made of a product of query and key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scoring {
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
    /// The sink of the query's head.
    pub(super) sink: Option<f32>,
}

impl Scoring {
    pub(super) fn new(scale: f32, rules: &AttentionRules, sink: f32) -> Self {
        Self { scale, softcap: rules.softcap, sink: rules.sinks.then_some(sink) }
    }
}

/// How a solution is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// In double precision.
    Double,
    /// In single precision, with weights and results rounded to bf16.
    Plain,
}

impl AttentionResult {
    pub(super) fn new() -> Self {
        Self { output: Vec::new(), lse: Vec::new(), guards_intact: true }
    }

    /// What a kernel has left on the device: output and denominators, each with whether the memory around it was left alone.
    pub(super) fn found(output: &(Vec<u16>, bool), lse: &(Vec<f32>, bool)) -> Self {
        Self {
            output: output.0.iter().map(|&bits| f64::from(from_bf16(bits))).collect(),
            lse: lse.0.iter().map(|&value| f64::from(value)).collect(),
            guards_intact: output.1 && lse.1,
        }
    }

    /// Appends the attention of a query over some keys and their values, which have `width` elements. Without any it is
    /// zeros, and minus infinity.
    pub(super) fn attend(
        &mut self,
        precision: Precision,
        scoring: Scoring,
        query: &[u16],
        width: usize,
        (keys, values): &(Vec<&[u16]>, Vec<&[u16]>),
    ) {
        if keys.is_empty() {
            self.output.resize(self.output.len() + width, 0.0);
            self.lse.push(f64::NEG_INFINITY);
            return;
        }
        let (output, lse) = match precision {
            Precision::Double => exactly(scoring, query, keys, values),
            Precision::Plain => plainly(scoring, query, keys, values),
        };
        self.output.extend(output);
        self.lse.push(lse);
    }

    /// Compares this solution's output and its softmax denominators with the reference.
    pub(super) fn compare(&self, naive: &Self, reference: &Self) -> [Comparison; 2] {
        [
            compare(&self.output, &naive.output, &reference.output, Accuracy::Bf16),
            compare(&self.lse, &naive.lse, &reference.lse, Accuracy::F32),
        ]
    }
}

fn exactly(scoring: Scoring, query: &[u16], keys: &[&[u16]], values: &[&[u16]]) -> (Vec<f64>, f64) {
    let wide = |bits: u16| f64::from(from_bf16(bits));
    let score = |key: &&[u16]| {
        let dot: f64 = query.iter().zip(*key).map(|(&q, &k)| wide(q) * wide(k)).sum();
        let score = dot * f64::from(scoring.scale);
        scoring.softcap.map(f64::from).map_or(score, |cap| cap * (score / cap).tanh())
    };
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let with_sink = sum + scoring.sink.map_or(0.0, |sink| (f64::from(sink) - max).exp());
    let mut output = vec![0.0; values[0].len()];
    for (weight, value) in weights.iter().zip(values) {
        for (output, &value) in output.iter_mut().zip(*value) {
            *output += weight * wide(value) / with_sink;
        }
    }
    (output, max + sum.ln())
}

fn plainly(scoring: Scoring, query: &[u16], keys: &[&[u16]], values: &[&[u16]]) -> (Vec<f64>, f64) {
    let score = |key: &&[u16]| {
        let dot: f32 = query.iter().zip(*key).map(|(&q, &k)| from_bf16(q) * from_bf16(k)).sum();
        let score = dot * scoring.scale;
        scoring.softcap.map_or(score, |cap| cap * (score / cap).tanh())
    };
    let scores: Vec<f32> = keys.iter().map(score).collect();
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f32 = weights.iter().sum();
    let with_sink = sum + scoring.sink.map_or(0.0, |sink| (sink - max).exp());
    let mut output = vec![0.0_f32; values[0].len()];
    for (&weight, value) in weights.iter().zip(values) {
        let weight = from_bf16(to_bf16(weight));
        for (output, &value) in output.iter_mut().zip(*value) {
            *output += weight * from_bf16(value);
        }
    }
    let output = output.into_iter().map(|value| f64::from(from_bf16(to_bf16(value / with_sink)))).collect();
    (output, f64::from(max + sum.ln()))
}
