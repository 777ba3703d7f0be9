//! The plan of loading: each tensor of the model matched with one of the checkpoint, before any is read.

use kernels::cpu::Workers;

use super::config::ModelConfig;
use super::tensors::{LayerTensor, ModelTensor, Naming, Stored};
use crate::error::{Error, Result};
use crate::weights::{Weights, dummy};

/// A model whose tensors have all been found to come from somewhere.
pub struct WeightPlan<'a> {
    config: &'a ModelConfig,
    source: Source<'a>,
}

/// Where tensors come from.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// The files of a checkpoint, whose tensors are exactly those of the model.
    Files(&'a Weights, Naming),
    /// [`dummy`].
    Dummy,
}

impl<'a> WeightPlan<'a> {
    /// Checks that every tensor of the model is there in the right shape and that none is left over.
    ///
    /// All differences are reported together.
    pub fn check(config: &'a ModelConfig, weights: &'a Weights, naming: Naming) -> Result<Self> {
        let mut problems = Vec::new();
        let mut wanted: Vec<String> = Vec::new();
        for tensor in ModelTensor::all(config) {
            let Stored { name, shape, part } = tensor.stored(config, naming);
            if part.is_some_and(|part| part > 0) {
                continue;
            }
            match weights.tensor(&name) {
                None => problems.push(format!("`{name}` is missing")),
                Some(found) if found.shape != shape => {
                    problems.push(format!("`{name}` has shape {:?}, not {shape:?}", found.shape));
                }
                Some(_) => {}
            }
            wanted.push(name);
        }
        wanted.sort_unstable();
        let left_over = weights
            .iter()
            .map(|(name, _)| name)
            .filter(|&name| wanted.binary_search_by(|wanted| wanted.as_str().cmp(name)).is_err())
            .filter(|name| !is_redundant(name, config, naming));
        problems.extend(left_over.map(|name| format!("`{name}` has no place in the model")));
        if problems.is_empty() {
            Ok(Self { config, source: Source::Files(weights, naming) })
        } else {
            const SHOWN: usize = 12;
            if problems.len() > SHOWN {
                let more = problems.len() - SHOWN;
                problems.truncate(SHOWN);
                problems.push(format!("and {more} more"));
            }
            Err(Error::Weights { path: weights.path().to_owned(), problems })
        }
    }

    /// The plan of a model without files.
    #[must_use]
    pub fn dummy(config: &'a ModelConfig) -> Self {
        Self { config, source: Source::Dummy }
    }

    /// The configuration the plan was made for.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        self.config
    }

    /// The elements of all weights once they are loaded.
    #[must_use]
    pub fn parameters(&self) -> usize {
        ModelTensor::all(self.config).iter().map(|tensor| tensor.shape(self.config).iter().product::<usize>()).sum()
    }

    /// The bytes of all weights once they are loaded.
    #[must_use]
    pub fn loaded_bytes(&self) -> usize {
        self.parameters() * size_of::<f32>()
    }

    /// The tensors `parts` one below another, in single precision.
    pub(super) fn load(&self, workers: &Workers, parts: &[ModelTensor]) -> Vec<f32> {
        let sizes: Vec<usize> = parts.iter().map(|part| part.shape(self.config).iter().product()).collect();
        let mut out = vec![0.0; sizes.iter().sum()];
        let mut rest = out.as_mut_slice();
        for (&part, &size) in parts.iter().zip(&sizes) {
            let (own, others) = rest.split_at_mut(size);
            rest = others;
            match self.source {
                Source::Files(weights, naming) => self.read(workers, weights, naming, part, own),
                Source::Dummy => {
                    let shape = part.shape(self.config);
                    dummy::fill(workers, shape.last().copied().unwrap_or(1), own);
                }
            }
        }
        out
    }

    fn read(&self, workers: &Workers, weights: &Weights, naming: Naming, part: ModelTensor, out: &mut [f32]) {
        let stored = part.stored(self.config, naming);
        let tensor = weights.tensor(&stored.name).expect("checked to be there");
        let head_dim = self.config.head_dim;
        let interleaved = naming == Naming::Gguf && self.config.architecture.family().gguf_interleaved;
        match part {
            ModelTensor::Layer(_, LayerTensor::QueryBias | LayerTensor::KeyBias) if interleaved => {
                let mut bias = vec![0.0; out.len()];
                weights.read(workers, tensor, |row| row, &mut bias);
                for (row, out) in out.iter_mut().enumerate() {
                    *out = bias[interleaved_row(row, head_dim)];
                }
            }
            ModelTensor::Layer(_, LayerTensor::Query | LayerTensor::Key) if interleaved => {
                weights.read(workers, tensor, |row| interleaved_row(row, head_dim), out);
            }
            _ => {
                let rows = out.len() / stored.shape.last().copied().unwrap_or(1).max(1);
                let first = stored.part.unwrap_or(0) * rows;
                weights.read(workers, tensor, |row| first + row, out);
            }
        }
    }
}

/// Where the rows of a query or key matrix lie in a GGUF file: the two halves of each head alternate.
fn interleaved_row(row: usize, head_dim: usize) -> usize {
    let (head, within) = (row / head_dim, row % head_dim);
    let half = head_dim / 2;
    head * head_dim + (within % half) * 2 + within / half
}

/// Tensors some checkpoints carry although they follow from others.
fn is_redundant(name: &str, config: &ModelConfig, naming: Naming) -> bool {
    naming == Naming::Hub
        && (name.ends_with(".rotary_emb.inv_freq")
            || (config.tied_embeddings && name == ModelTensor::Head.stored(config, naming).name))
}

#[cfg(test)]
mod tests {
    use super::interleaved_row;

    #[test]
    fn rows_of_a_head_alternate_between_its_halves() {
        let rows: Vec<usize> = (0..12).map(|row| interleaved_row(row, 6)).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }
}
