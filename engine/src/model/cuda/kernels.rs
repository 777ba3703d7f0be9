//! The kernels that a model needs whatever the sizes of its runner.

use std::collections::BTreeSet;

use kernels::cuda::{
    BlockFormat, CudaDevice, CudaError, GatherRows, GatherRowsShape, Gemm, GemmTiles, HeadNorm, PrefillAttentionShape,
    Program, RmsNorm, RmsNormShape, RopeKvWriteShape, SiluMul, SiluMulShape,
};

use super::experts::{ExpertKernels, ExpertShapes};
use super::product_kernels::ProductKernels;
use crate::model::architecture::QueryKeyNorm;
use crate::model::config::{Experts, ModelConfig};

/// Output and input width of a matrix.
pub(super) type MatrixSize = (usize, usize);

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

/// A size, and what a person who looks at a model calls it.
type Called = (&'static str, usize);

/// Output and input width of all matrices that every token is multiplied with.
fn matrices(config: &ModelConfig) -> Vec<[Called; 2]> {
    let hidden = ("hidden size", config.hidden_size);
    let inner = ("intermediate size", config.intermediate_size);
    let mut all = vec![
        [("size of queries, keys and values", qkv_width(config)), hidden],
        [hidden, ("size of all query heads", config.query_size())],
        [("vocabulary size", config.vocab_size), hidden],
    ];
    if has_dense_layer(config) {
        all.extend([[("twice the intermediate size", 2 * config.intermediate_size), hidden], [hidden, inner]]);
    }
    all.extend(experts_in_use(config).map(|experts| [("number of experts", experts.count), hidden]));
    all
}

/// The same refusal in words for a model: kernels call its sizes by what these are to them.
pub(super) fn in_words_of_a_model(error: CudaError, names: &[(&str, &'static str)]) -> CudaError {
    match error {
        CudaError::Unsupported { what, value, supported } => {
            let name = names.iter().find(|(field, _)| *field == what).map(|(_, name)| *name);
            CudaError::Unsupported { what: name.unwrap_or(what), value, supported }
        }
        other => other,
    }
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
    for [(columns_name, columns), (depth_name, depth)] in matrices(config) {
        let names = [("columns", columns_name), ("depth", depth_name)];
        Gemm::check(columns, depth).map_err(|error| in_words_of_a_model(error, &names))?;
    }
    let Shapes { norm, gather, silu, experts } = Shapes::of(config);
    let width = |name| move |error| in_words_of_a_model(error, &[("width", name)]);
    norm.check().map_err(width("hidden size"))?;
    gather.check().map_err(width("hidden size"))?;
    silu.check().map_err(width("intermediate size"))?;
    experts.map_or(Ok(()), |shapes| shapes.check())
}

/// What the kernels of a model are compiled for, but for its products.
struct Shapes {
    norm: RmsNormShape,
    gather: GatherRowsShape,
    silu: SiluMulShape,
    experts: Option<ExpertShapes>,
}

impl Shapes {
    fn of(config: &ModelConfig) -> Self {
        let width = config.hidden_size;
        Self {
            norm: RmsNormShape { width },
            gather: GatherRowsShape { width },
            silu: SiluMulShape { width: config.intermediate_size },
            experts: experts_in_use(config).map(|experts| ExpertShapes::of(config, experts)),
        }
    }
}

/// The kernels of a model.
pub(super) struct Kernels {
    pub(super) norm: RmsNorm,
    pub(super) gather: GatherRows,
    pub(super) silu: SiluMul,
    pub(super) experts: Option<ExpertKernels>,
    /// The product with every matrix that all tokens are multiplied with.
    pub(super) products: ProductKernels,
}

impl Kernels {
    /// What [`compile`](Self::compile) compiles.
    pub(super) fn programs(config: &ModelConfig) -> Result<Vec<Program>, CudaError> {
        let Shapes { norm, gather, silu, experts } = Shapes::of(config);
        let mut programs = vec![
            RmsNorm::program(norm, RmsNorm::SOURCE)?,
            GatherRows::program(gather, GatherRows::SOURCE)?,
            SiluMul::program(silu, SiluMul::SOURCE)?,
        ];
        if let Some(shapes) = experts {
            programs.extend(shapes.programs()?);
        }
        Ok(programs)
    }

    /// Compiles all but the products, for matrices in bf16 and in blocks of `formats`.
    pub(super) fn compile(
        device: &CudaDevice,
        config: &ModelConfig,
        formats: &BTreeSet<BlockFormat>,
    ) -> Result<Self, CudaError> {
        let Shapes { norm, gather, silu, experts } = Shapes::of(config);
        Ok(Self {
            norm: RmsNorm::compile(device, norm)?,
            gather: GatherRows::compile(device, gather)?,
            silu: SiluMul::compile(device, silu)?,
            experts: experts.map(|shapes| ExpertKernels::compile(device, shapes)).transpose()?,
            products: ProductKernels::new(formats, |_| GemmTiles::default()),
        })
    }
}

/// What the products of a model are compiled from, whatever their sizes.
pub(super) fn product_programs(
    config: &ModelConfig,
    formats: &BTreeSet<BlockFormat>,
) -> Result<Vec<Program>, CudaError> {
    let mut programs = ProductKernels::new(formats, |_| GemmTiles::default()).all_programs()?;
    if let Some(experts) = experts_in_use(config) {
        programs.extend(ExpertShapes::of(config, experts).product_programs()?);
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::checkpoint::{Checkpoint, LoadFormat};

    #[test]
    fn a_size_without_a_kernel_is_called_as_in_the_model() {
        let refusal = |model: &str, change: fn(&mut ModelConfig)| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(model);
            let mut config = Checkpoint::open(&path, LoadFormat::Auto).expect("a model").config().clone();
            change(&mut config);
            check(&config, 16).expect_err("no kernel").to_string()
        };
        let of_experts = |config: &mut ModelConfig| {
            config.experts.iter_mut().for_each(|experts| experts.intermediate_size = 36);
        };
        let cases = [
            (refusal("llama", |config| config.hidden_size = 60), "hidden size is 60; supported: "),
            (refusal("llama", |config| config.intermediate_size = 100), "intermediate size is 100; supported: "),
            (
                refusal("llama", |config| config.intermediate_size = 1 << 21),
                "intermediate size is 2097152; supported: ",
            ),
            (refusal("qwen3_moe", of_experts), "intermediate size of an expert is 36; supported: "),
        ];
        for (refusal, expected) in cases {
            assert!(refusal.starts_with(expected), "{refusal}");
        }
    }
}
