//! The plan of loading: each tensor of the model matched with one of the checkpoint, before any is read.

use std::cell::Cell;

use kernels::cpu::{Matrix, Workers};

use super::config::ModelConfig;
use super::rope::RopeScaling;
use super::tensors::{LayerTensor, ModelTensor, Naming, Stored};
use crate::error::{Error, Result};
use crate::weights::{ElementType, Tensor, Weights, dummy};

/// A model whose tensors have all been found to come from somewhere.
pub struct WeightPlan<'a> {
    config: &'a ModelConfig,
    source: Source<'a>,
    form: WeightForm,
    /// Who is told of progress, and the bytes there are.
    progress: Option<(Progress<'a>, usize)>,
    /// Bytes of the tensors that have been read.
    read: Cell<usize>,
}

/// What the matrices that tokens are multiplied with are kept as. The products are the same, bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightForm {
    /// As their file has them, on a CUDA device where it has a kernel for that and all of what is multiplied together is of one type;
    /// made-up ones are single precision.
    Stored,
    /// In single precision; on a CUDA device in bf16.
    Expanded,
}

/// Is told after each tensor how many bytes have been read, and how many there are.
pub type Progress<'a> = &'a dyn Fn(usize, usize);

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
    /// All differences are reported together. Stored divisors of frequencies have to be positive numbers.
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
        if !problems.is_empty() {
            const SHOWN: usize = 12;
            if problems.len() > SHOWN {
                let more = problems.len() - SHOWN;
                problems.truncate(SHOWN);
                problems.push(format!("and {more} more"));
            }
            return Err(Error::Weights { path: weights.path().to_owned(), problems });
        }
        let plan = Self::new(config, Source::Files(weights, naming));
        if config.rope.scaling == RopeScaling::Stored {
            // What every position depends on is looked at even where nobody asks for a search of the weights.
            let divisors = ModelTensor::RopeDivisors;
            let name = divisors.stored(config, naming).name;
            weights.check_positive(&name, plan.found(weights, naming, divisors))?;
        }
        Ok(plan)
    }

    /// The plan of a model without files.
    #[must_use]
    pub fn dummy(config: &'a ModelConfig) -> Self {
        Self::new(config, Source::Dummy)
    }

    fn new(config: &'a ModelConfig, source: Source<'a>) -> Self {
        Self { config, source, form: WeightForm::Stored, progress: None, read: Cell::new(0) }
    }

    /// The same plan, whose matrices are kept in this form.
    #[must_use]
    pub fn with_form(self, form: WeightForm) -> Self {
        Self { form, ..self }
    }

    /// The same plan, of whose execution `progress` is told.
    #[must_use]
    pub fn with_progress(self, progress: Progress<'a>) -> Self {
        let all = ModelTensor::all(self.config).into_iter().map(|part| self.stored_bytes(part)).sum();
        Self { progress: Some((progress, all)), ..self }
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
        ModelTensor::all(self.config).into_iter().map(|part| self.loaded_bytes_of(part)).sum()
    }

    /// The same where elements of matrices, the router among them, take `bytes` bytes.
    pub(super) fn bytes_with_matrices_of(&self, bytes: usize) -> usize {
        let is_router = |part| matches!(part, ModelTensor::Layer(_, LayerTensor::Router));
        let element = |part| if is_matrix(part) || is_router(part) { bytes } else { size_of::<f32>() };
        ModelTensor::all(self.config).into_iter().map(|part| self.elements(part) * element(part)).sum()
    }

    fn loaded_bytes_of(&self, part: ModelTensor) -> usize {
        if is_matrix(part) && self.form == WeightForm::Stored {
            self.stored_bytes(part)
        } else {
            self.elements(part) * size_of::<f32>()
        }
    }

    fn elements(&self, part: ModelTensor) -> usize {
        part.shape(self.config).iter().product()
    }

    /// Refuses weights that are no finite numbers.
    pub fn check_finite(&self, workers: &Workers) -> Result<()> {
        let Source::Files(weights, naming) = self.source else {
            return Ok(());
        };
        ModelTensor::all(self.config).into_iter().try_for_each(|part| {
            let Stored { name, part: index, .. } = part.stored(self.config, naming);
            // The first of several parts stands for all of them.
            if index.is_some_and(|index| index > 0) {
                return Ok(());
            }
            weights.check_finite(workers, &name, self.found(weights, naming, part))
        })
    }

    /// What a tensor takes where it is stored.
    fn stored_bytes(&self, part: ModelTensor) -> usize {
        match self.source {
            Source::Files(weights, naming) => {
                let element = self.found(weights, naming, part).element;
                element.bytes(self.elements(part)).expect("checked to be whole blocks")
            }
            Source::Dummy => self.elements(part) * size_of::<f32>(),
        }
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
                Source::Dummy => dummy::fill(workers, self.columns(part), own),
            }
            self.tell_progress(part);
        }
        out
    }

    fn read(&self, workers: &Workers, weights: &Weights, naming: Naming, part: ModelTensor, out: &mut [f32]) {
        weights.read(workers, self.found(weights, naming, part), out);
        let is_interleaved = naming == Naming::Gguf
            && self.config.architecture.family().gguf_interleaved
            && matches!(part, ModelTensor::Layer(_, LayerTensor::QueryBias | LayerTensor::KeyBias));
        if is_interleaved {
            let stored = out.to_vec();
            for (row, out) in out.iter_mut().enumerate() {
                *out = stored[interleaved_row(row, self.config.head_dim)];
            }
        }
    }

    /// The matrices `parts` one below another, in the plan's form.
    pub(super) fn matrix(&self, workers: &Workers, parts: &[ModelTensor]) -> Matrix {
        self.stacked(workers, parts, |matrix| match self.form {
            WeightForm::Stored => matrix,
            WeightForm::Expanded => matrix.expanded(workers),
        })
    }

    /// The same as their file has them.
    pub(super) fn stored_matrix(&self, workers: &Workers, parts: &[ModelTensor]) -> Matrix {
        self.stacked(workers, parts, |matrix| matrix)
    }

    fn stacked(&self, workers: &Workers, parts: &[ModelTensor], formed: impl Fn(Matrix) -> Matrix) -> Matrix {
        Matrix::stacked(parts.iter().map(|&part| match self.source {
            Source::Files(weights, naming) => {
                let tensor = self.found(weights, naming, part);
                let rows = part.shape(self.config).first().copied().unwrap_or(1);
                let matrix = weights.matrix(tensor, rows, self.stored_row(naming, part));
                self.tell_progress(part);
                formed(matrix)
            }
            Source::Dummy => Matrix::floats(self.columns(part), self.load(workers, &[part])),
        }))
    }

    /// The type that all of `parts` are to be kept in: nothing where they are to be expanded, differ, or are made up.
    pub(super) fn kept_type(&self, parts: &[ModelTensor]) -> Option<ElementType> {
        let Source::Files(weights, naming) = self.source else { return None };
        if self.form == WeightForm::Expanded {
            return None;
        }
        let mut types = parts.iter().map(|&part| self.found(weights, naming, part).element);
        let first = types.next()?;
        types.all(|element| element == first).then_some(first)
    }

    /// Where a row of a matrix lies among those of its tensor.
    fn stored_row(&self, naming: Naming, part: ModelTensor) -> impl Fn(usize) -> usize + use<> {
        let is_interleaved = naming == Naming::Gguf
            && self.config.architecture.family().gguf_interleaved
            && matches!(part, ModelTensor::Layer(_, LayerTensor::Query | LayerTensor::Key));
        let head_dim = self.config.head_dim;
        let rows = part.shape(self.config).first().copied().unwrap_or(1);
        let first = part.stored(self.config, naming).part.unwrap_or(0) * rows;
        move |row| first + if is_interleaved { interleaved_row(row, head_dim) } else { row }
    }

    fn found<'b>(&self, weights: &'b Weights, naming: Naming, part: ModelTensor) -> &'b Tensor {
        weights.tensor(&part.stored(self.config, naming).name).expect("checked to be there")
    }

    fn columns(&self, part: ModelTensor) -> usize {
        part.shape(self.config).last().copied().unwrap_or(1)
    }

    fn tell_progress(&self, part: ModelTensor) {
        if let Some((progress, all)) = self.progress {
            self.read.set(self.read.get() + self.stored_bytes(part));
            progress(self.read.get(), all);
        }
    }
}

/// Whether tokens are multiplied with it. Norms, biases and the router, which is small, become single precision whatever the form.
fn is_matrix(part: ModelTensor) -> bool {
    use LayerTensor::{Down, ExpertDown, ExpertGate, ExpertUp, Gate, Key, Output, Query, Up, Value};
    matches!(
        part,
        ModelTensor::Embedding
            | ModelTensor::Head
            | ModelTensor::Layer(
                _,
                Query | Key | Value | Output | Gate | Up | Down | ExpertGate(_) | ExpertUp(_) | ExpertDown(_)
            )
    )
}

/// Where the rows of a query or key matrix lie in a GGUF file: the two halves of each head alternate.
fn interleaved_row(row: usize, head_dim: usize) -> usize {
    let (head, within) = (row / head_dim, row % head_dim);
    let half = head_dim / 2;
    head * head_dim + (within % half) * 2 + within / half
}

/// Whether some checkpoints carry a tensor although it follows from others: frequencies, and the head of a model whose embedding is
/// its head, of any other model it is a tensor of its own.
fn is_redundant(name: &str, config: &ModelConfig, naming: Naming) -> bool {
    (naming == Naming::Hub && name.ends_with(".rotary_emb.inv_freq"))
        || name == ModelTensor::Head.stored(config, naming).name
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ModelConfig, WeightPlan, interleaved_row};

    #[test]
    fn matrices_and_the_router_are_what_becomes_smaller() {
        let text = r#"{"architectures": ["MixtralForCausalLM"], "vocab_size": 10, "hidden_size": 8,
            "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
            "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2}"#;
        let config = ModelConfig::from_hub_json(Path::new("config.json"), text).unwrap_or_else(|e| panic!("{e}"));
        // Embedding and head; queries, keys, values and what becomes of them; the router; four experts of three matrices.
        let matrices = 2 * 80 + 64 + 32 + 32 + 64 + 32 + 4 * 3 * 128;
        let norms = 3 * 8;
        let plan = WeightPlan::dummy(&config);
        assert_eq!(plan.bytes_with_matrices_of(2), 2 * matrices + 4 * norms);
        assert_eq!(plan.loaded_bytes(), 4 * (matrices + norms));
    }

    #[test]
    fn rows_of_a_head_alternate_between_its_halves() {
        let rows: Vec<usize> = (0..12).map(|row| interleaved_row(row, 6)).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }
}
