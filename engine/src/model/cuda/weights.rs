//! Weights on a device: matrices rounded to bf16 once or of the blocks that their file has, norms and biases in single precision.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use kernels::cpu::{ElementType, Matrix, Workers};
use kernels::cuda::{BlockFormat, CudaDevice, CudaError, CudaSlice, QuantisedMatrix, Staging, to_bf16};

use super::ELEMENT;
use super::experts::ExpertWeights;
use super::kernels::MatrixSize;
use super::product_kernels::MatrixRef;
use crate::model::architecture::{AttentionBias, QueryKeyNorm};
use crate::model::config::{Experts, ModelConfig};
use crate::model::plan::WeightPlan;
use crate::model::tensors::{LayerTensor, ModelTensor};

/// A matrix that tokens are multiplied with.
pub(super) enum DeviceMatrix {
    Bf16(CudaSlice<u16>),
    Quantised(QuantisedMatrix),
}

impl DeviceMatrix {
    pub(super) fn as_ref(&self) -> MatrixRef<'_> {
        match self {
            Self::Bf16(elements) => MatrixRef::Bf16(elements),
            Self::Quantised(matrix) => MatrixRef::Quantised(matrix),
        }
    }
}

/// `y = x · Wᵀ + b`.
pub(super) struct DeviceLinear {
    pub(super) weight: DeviceMatrix,
    pub(super) size: MatrixSize,
    pub(super) bias: Option<CudaSlice<f32>>,
}

/// All weights of a model.
pub(super) struct DeviceWeights {
    /// `[vocab_size, hidden_size]`
    pub(super) embedding: CudaSlice<u16>,
    pub(super) layers: Vec<DeviceLayer>,
    pub(super) final_norm: CudaSlice<f32>,
    /// Of the embedding's size; nothing where the embedding is the head.
    pub(super) head: Option<DeviceMatrix>,
}

/// The weights of a layer.
pub(super) struct DeviceLayer {
    pub(super) attention_norm: CudaSlice<f32>,
    pub(super) query_key_value: DeviceLinear,
    pub(super) query_key_norm: Option<(CudaSlice<f32>, CudaSlice<f32>)>,
    pub(super) attention_output: DeviceLinear,
    pub(super) mlp_norm: CudaSlice<f32>,
    pub(super) feed_forward: DeviceFeedForward,
}

/// The feed-forward block of a layer.
pub(super) enum DeviceFeedForward {
    Dense(Box<DenseWeights>),
    Sparse(ExpertWeights),
}

/// Those of a feed-forward block for all tokens.
pub(super) struct DenseWeights {
    /// Gates above what they gate.
    pub(super) gate_up: DeviceLinear,
    pub(super) down: DeviceLinear,
}

/// What loading needs.
struct Loader<'a> {
    plan: &'a WeightPlan<'a>,
    workers: &'a Workers,
    device: &'a CudaDevice,
    staging: RefCell<Staging<u16>>,
}

/// Elements of a part of a matrix on its way to the device: 8 MiB, of which the host has to have twice as much.
const PART: usize = 4 << 20;

/// The tensors of every matrix that may be kept as its file has it, one below another. Of the embedding rows are gathered, and the
/// products with experts and routers have kernels for bf16 alone.
fn keepable(config: &ModelConfig) -> Vec<Vec<ModelTensor>> {
    use LayerTensor::{Down, Gate, Key, Output, Query, Up, Value};
    let of_layer = |layer: usize| {
        let dense: &[&[LayerTensor]] = if config.experts_of(layer).is_some() { &[] } else { &[&[Gate, Up], &[Down]] };
        let attention: [&[LayerTensor]; 2] = [&[Query, Key, Value], &[Output]];
        let stacks = attention.into_iter().chain(dense.iter().copied());
        stacks.map(move |stack| stack.iter().map(|&tensor| ModelTensor::Layer(layer, tensor)).collect())
    };
    let head = (!config.tied_embeddings).then(|| vec![ModelTensor::Head]);
    (0..config.layers).flat_map(|layer| of_layer(layer).collect::<Vec<_>>()).chain(head).collect()
}

/// The blocks of elements that a kernel reads as a file has them.
pub(super) fn block_format(element: ElementType) -> Option<BlockFormat> {
    match element {
        ElementType::Q8_0 => Some(BlockFormat::Q8_0),
        ElementType::Q4_0 => Some(BlockFormat::Q4_0),
        ElementType::Q4_1 => Some(BlockFormat::Q4_1),
        _ => None,
    }
}

/// The blocks that a matrix stays in, if it does.
fn kept_format(plan: &WeightPlan<'_>, parts: &[ModelTensor]) -> Option<BlockFormat> {
    block_format(plan.kept_type(parts)?)
}

/// The blocks that matrices of a plan stay in.
pub(super) fn formats(plan: &WeightPlan<'_>) -> BTreeSet<BlockFormat> {
    keepable(plan.config()).iter().filter_map(|parts| kept_format(plan, parts)).collect()
}

/// The bytes of all weights of a plan once they are on a device.
pub(super) fn bytes(plan: &WeightPlan<'_>) -> usize {
    let saved = |parts: Vec<ModelTensor>| {
        let shapes = parts.iter().map(|part| part.shape(plan.config()));
        let (rows, columns) = shapes.fold((0, 0), |(rows, _), shape| (rows + shape[0], shape[1]));
        let format = kept_format(plan, &parts)?;
        Some(rows * columns * ELEMENT - QuantisedMatrix::bytes(format, (rows, columns)))
    };
    plan.bytes_with_matrices_of(ELEMENT) - keepable(plan.config()).into_iter().filter_map(saved).sum::<usize>()
}

impl DeviceWeights {
    /// The output head.
    pub(super) fn head(&self) -> MatrixRef<'_> {
        self.head.as_ref().map_or(MatrixRef::Bf16(&self.embedding), DeviceMatrix::as_ref)
    }

    /// Reads all weights of a checked plan, one matrix at a time.
    pub(super) fn load(plan: &WeightPlan<'_>, workers: &Workers, device: &CudaDevice) -> Result<Self, CudaError> {
        let config = plan.config();
        // One row at least, which are as wide as what is multiplied with them.
        let widest = [config.hidden_size, config.query_size(), config.intermediate_size];
        let widest = widest.into_iter().chain(config.experts.iter().map(|experts| experts.intermediate_size)).max();
        let part = PART.min(plan.parameters()).max(widest.unwrap_or(0));
        let staging = RefCell::new(Staging::new(device, part)?);
        let loader = Loader { plan, workers, device, staging };
        let embedding = loader.rounded(&[ModelTensor::Embedding])?;
        let layers = (0..config.layers).map(|index| loader.layer(index)).collect::<Result<_, _>>()?;
        let final_norm = loader.floats(&[ModelTensor::FinalNorm])?;
        let head = if config.tied_embeddings { None } else { Some(loader.matrix(&[ModelTensor::Head])?) };
        Ok(Self { embedding, layers, final_norm, head })
    }
}

impl Loader<'_> {
    fn layer(&self, index: usize) -> Result<DeviceLayer, CudaError> {
        use LayerTensor::{
            AttentionNorm, Down, DownBias, Gate, GateBias, Key, KeyBias, KeyNorm, MlpNorm, Output, OutputBias, Query,
            QueryBias, QueryNorm, Up, UpBias, Value, ValueBias,
        };
        let config = self.plan.config();
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let of_layer = |tensor| ModelTensor::Layer(index, tensor);
        let one = |tensor| self.floats(&[of_layer(tensor)]);
        let linear = |weights: &[LayerTensor], biases: &[LayerTensor], is_biased: bool, size: MatrixSize| {
            let all = |tensors: &[LayerTensor]| tensors.iter().map(|&tensor| of_layer(tensor)).collect::<Vec<_>>();
            Ok::<_, CudaError>(DeviceLinear {
                weight: self.matrix(&all(weights))?,
                size,
                bias: if is_biased { Some(self.floats(&all(biases))?) } else { None },
            })
        };
        let biases = config.attention_bias;
        Ok(DeviceLayer {
            attention_norm: one(AttentionNorm)?,
            query_key_value: linear(
                &[Query, Key, Value],
                &[QueryBias, KeyBias, ValueBias],
                biases != AttentionBias::None,
                (super::kernels::qkv_width(config), hidden),
            )?,
            query_key_norm: match config.query_key_norm {
                QueryKeyNorm::None => None,
                QueryKeyNorm::Head | QueryKeyNorm::Row => Some((one(QueryNorm)?, one(KeyNorm)?)),
            },
            attention_output: linear(
                &[Output],
                &[OutputBias],
                biases == AttentionBias::All,
                (hidden, config.query_size()),
            )?,
            mlp_norm: one(MlpNorm)?,
            feed_forward: match config.experts_of(index) {
                Some(experts) => DeviceFeedForward::Sparse(self.experts(index, experts)?),
                None => DeviceFeedForward::Dense(Box::new(DenseWeights {
                    gate_up: linear(&[Gate, Up], &[GateBias, UpBias], config.mlp_bias, (2 * inner, hidden))?,
                    down: linear(&[Down], &[DownBias], config.mlp_bias, (hidden, inner))?,
                })),
            },
        })
    }

    fn experts(&self, layer: usize, experts: &Experts) -> Result<ExpertWeights, CudaError> {
        use LayerTensor::{ExpertDown, ExpertGate, ExpertUp, Router};
        let of_layer = |tensor| ModelTensor::Layer(layer, tensor);
        let router = Matrix::floats(self.plan.config().hidden_size, self.plan.load(self.workers, &[of_layer(Router)]));
        let all = 0..experts.count;
        let gates = all.clone().flat_map(|expert| [ExpertGate(expert), ExpertUp(expert)].map(of_layer));
        let (gates, downs): (Vec<_>, Vec<_>) =
            (gates.collect(), all.map(|expert| of_layer(ExpertDown(expert))).collect());
        Ok(ExpertWeights { router: self.upload(&router)?, gate_up: self.rounded(&gates)?, down: self.rounded(&downs)? })
    }

    fn floats(&self, parts: &[ModelTensor]) -> Result<CudaSlice<f32>, CudaError> {
        self.device.upload(&self.plan.load(self.workers, parts))
    }

    /// The matrices `parts` one below another, in the blocks of their file if that is wanted and there is a kernel for these.
    fn matrix(&self, parts: &[ModelTensor]) -> Result<DeviceMatrix, CudaError> {
        let matrix = self.plan.stored_matrix(self.workers, parts);
        let (Some(format), Some((_, bytes))) = (kept_format(self.plan, parts), matrix.as_stored()) else {
            return Ok(DeviceMatrix::Bf16(self.upload(&matrix)?));
        };
        let bytes = match bytes.as_slice() {
            [all] => Cow::Borrowed(*all),
            several => Cow::Owned(several.concat()),
        };
        let (size, mut staging) = ((matrix.rows(), matrix.columns()), self.staging.borrow_mut());
        Ok(DeviceMatrix::Quantised(QuantisedMatrix::upload(self.device, &mut staging, format, size, &bytes)?))
    }

    /// The matrices `parts` one below another, in bf16.
    fn rounded(&self, parts: &[ModelTensor]) -> Result<CudaSlice<u16>, CudaError> {
        self.upload(&self.plan.stored_matrix(self.workers, parts))
    }

    /// A part of a matrix is rounded while the one before is copied.
    fn upload(&self, matrix: &Matrix) -> Result<CudaSlice<u16>, CudaError> {
        let columns = matrix.columns();
        let size = (matrix.rows() * columns, columns);
        let round = |start, bits: &mut [u16]| round(self.workers, matrix, start / columns, bits);
        self.staging.borrow_mut().upload(self.device, size, round)
    }
}

/// The nearest bf16 of every number of the rows of a matrix from `first` on.
fn round(workers: &Workers, matrix: &Matrix, first: usize, bits: &mut [u16]) {
    let columns = matrix.columns();
    let room = || vec![0.0; columns];
    workers.for_each_row_with(bits, columns, room, |numbers, row, bits| {
        matrix.expand_row(workers.isa(), first + row, numbers);
        for (bits, &number) in bits.iter_mut().zip(numbers.iter()) {
            *bits = to_bf16(number);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    #[test]
    fn rows_of_a_matrix_are_rounded_and_keep_their_order() {
        let workers = Workers::new(NonZeroUsize::new(3).expect("not zero")).expect("threads start");
        let numbers: Vec<f32> = (0..340).map(|number| number as f32 * 1.01 - 3.0).collect();
        let mut bits = vec![0; 300];
        round(&workers, &Matrix::floats(2, numbers.clone()), 20, &mut bits);
        assert_eq!(bits, numbers[40..].iter().map(|&number| to_bf16(number)).collect::<Vec<_>>());
    }
}
