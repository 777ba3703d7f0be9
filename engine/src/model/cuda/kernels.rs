//! The kernels that a model needs whatever the sizes of its runner, compiled once.

use std::collections::BTreeMap;

use kernels::cuda::{
    AddBias, AddBiasShape, CudaDevice, CudaError, GatherRows, GatherRowsShape, GroupedGemm, GroupedGemmShape, HeadNorm,
    PrefillAttentionShape, RmsNorm, RmsNormShape, RopeKvWriteShape, SiluMul, SiluMulShape,
};

use super::experts::{self, ExpertKernels, router_width};
use crate::model::architecture::{AttentionBias, QueryKeyNorm};
use crate::model::config::{Experts, ModelConfig};

/// Rows of a block of a matrix product: few for the steps of decoding, more for prompts.
pub(super) const BLOCK_ROWS: [usize; 2] = [16, 64];

/// Output and input width of a matrix.
pub(super) type MatrixSize = (usize, usize);

/// Logits of a row: those of the vocabulary and, up to a width that the product takes, some of no token.
pub(super) fn logit_width(config: &ModelConfig) -> usize {
    config.vocab_size.next_multiple_of(8)
}

/// Elements of a token's row of queries, keys and values.
pub(super) fn qkv_width(config: &ModelConfig) -> usize {
    config.query_size() + 2 * config.kv_size()
}

/// Whether a layer has a feed-forward block for all tokens.
fn has_dense_layer(config: &ModelConfig) -> bool {
    (0..config.layers).any(|layer| config.experts_of(layer).is_none())
}

/// The experts, if a layer has them.
pub(super) fn experts_in_use(config: &ModelConfig) -> Option<&Experts> {
    (0..config.layers).find_map(|layer| config.experts_of(layer))
}

/// All matrices that every token is multiplied with.
fn matrices(config: &ModelConfig) -> Vec<MatrixSize> {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let mut all = vec![(qkv_width(config), hidden), (hidden, config.query_size()), (logit_width(config), hidden)];
    if has_dense_layer(config) {
        all.extend([(2 * inner, hidden), (hidden, inner)]);
    }
    all.extend(experts_in_use(config).map(|experts| (router_width(experts), hidden)));
    all
}

/// The widths of products that get a bias.
fn biased(config: &ModelConfig) -> impl Iterator<Item = usize> {
    let is_mlp = config.mlp_bias && has_dense_layer(config);
    [
        (config.attention_bias != AttentionBias::None, qkv_width(config)),
        (config.attention_bias == AttentionBias::All, config.hidden_size),
        (is_mlp, 2 * config.intermediate_size),
        (is_mlp, config.hidden_size),
    ]
    .into_iter()
    .filter_map(|(is_there, width)| is_there.then_some(width))
}

pub(super) fn product_shape((columns, depth): MatrixSize, block_rows: usize) -> GroupedGemmShape {
    GroupedGemmShape { block_rows, experts: 1, columns, depth, rows_per_input: 1 }
}

pub(super) fn rope_shape(config: &ModelConfig, page_size: usize) -> RopeKvWriteShape {
    RopeKvWriteShape {
        head_dim: config.head_dim,
        query_heads: config.heads,
        kv_heads: config.kv_heads,
        page_size,
        norm: match config.query_key_norm {
            QueryKeyNorm::None => HeadNorm::None,
            QueryKeyNorm::Head => HeadNorm::PerHead,
            QueryKeyNorm::Row => HeadNorm::AllHeads,
        },
    }
}

pub(in crate::model) fn attention_shape(config: &ModelConfig, page_size: usize) -> PrefillAttentionShape {
    PrefillAttentionShape { head_dim: config.head_dim, query_heads: config.heads, kv_heads: config.kv_heads, page_size }
}

/// Says which size of a model or of its pages no kernel supports.
pub(super) fn check(config: &ModelConfig, page_size: usize) -> Result<(), CudaError> {
    attention_shape(config, page_size).check()?;
    rope_shape(config, page_size).check()?;
    for matrix in matrices(config) {
        product_shape(matrix, BLOCK_ROWS[0]).check()?;
    }
    RmsNormShape { width: config.hidden_size }.check()?;
    SiluMulShape { width: config.intermediate_size }.check()?;
    if let Some(experts) = experts_in_use(config) {
        experts::check(config, experts)?;
    }
    biased(config).try_for_each(|width| AddBiasShape { width }.check())
}

/// Compiled kernels.
pub(super) struct Kernels {
    pub(super) norm: RmsNorm,
    pub(super) gather: GatherRows,
    pub(super) silu: SiluMul,
    pub(super) experts: Option<ExpertKernels>,
    products: BTreeMap<MatrixSize, [GroupedGemm; 2]>,
    biases: BTreeMap<usize, AddBias>,
}

impl Kernels {
    pub(super) fn compile(device: &CudaDevice, config: &ModelConfig) -> Result<Self, CudaError> {
        let hidden = config.hidden_size;
        let mut products = BTreeMap::new();
        for size in matrices(config) {
            let [few, many] = BLOCK_ROWS.map(|rows| GroupedGemm::compile(device, product_shape(size, rows)));
            products.insert(size, [few?, many?]);
        }
        let mut biases = BTreeMap::new();
        for width in biased(config) {
            biases.insert(width, AddBias::compile(device, AddBiasShape { width })?);
        }
        Ok(Self {
            norm: RmsNorm::compile(device, RmsNormShape { width: hidden })?,
            gather: GatherRows::compile(device, GatherRowsShape { width: hidden })?,
            silu: SiluMul::compile(device, SiluMulShape { width: config.intermediate_size })?,
            experts: match experts_in_use(config) {
                Some(experts) => Some(ExpertKernels::compile(device, config, experts)?),
                None => None,
            },
            products,
            biases,
        })
    }

    /// The product with a matrix of this size, for rows that come in blocks of `block_rows`.
    pub(super) fn product(&self, size: MatrixSize, block_rows: usize) -> &GroupedGemm {
        let [few, many] = &self.products[&size];
        if block_rows == few.shape().block_rows { few } else { many }
    }

    /// The addition of a bias of this width.
    pub(super) fn bias(&self, width: usize) -> &AddBias {
        &self.biases[&width]
    }
}

/// The rows of a block for a product of `rows` rows. The bits of a row are the same for either.
pub(super) fn block_rows(rows: usize) -> usize {
    BLOCK_ROWS[usize::from(rows > BLOCK_ROWS[0])]
}
