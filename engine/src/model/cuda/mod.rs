//! The forward pass on a CUDA device: weights, activations, keys and values in bf16, sums in single precision.
//!
//! [`CudaDecoder`] is the model on a device, [`CudaState`] what a runner of certain sizes needs besides: the pools of keys and
//! values, and room for a step. Logits, those of routers too, are in single precision.

mod decoder;
mod experts;
mod graphs;
mod inputs;
mod kernels;
mod product_kernels;
mod products;
mod room;
mod state;
mod weights;

pub use decoder::CudaDecoder;
pub use experts::{Routed, RouterHook};
pub use graphs::GraphUse;
pub(in crate::model) use kernels::attention_shape;
pub use product_kernels::MatrixFormat;
pub use products::Product;
pub use room::{NoRoom, Steps};
pub use state::{CudaSizes, CudaState};

use ::kernels::cuda::Program;

use super::config::ModelConfig;
use super::plan::WeightPlan;
use crate::error::{Error, Result};
use crate::memory::Need;
use crate::weights::ElementType;

/// What computes the attention of steps in which every sequence has one new token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeKernel {
    /// The kernel of prompts: a token's logits have the same bits as in a prompt, however that is cut.
    Paged,
    /// A kernel of its own, which divides a context among blocks and merges what they find.
    SplitKv {
        /// Tokens of a context that one block reads.
        tokens: usize,
    },
}

/// What a model on a device is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaChoices {
    /// Tokens per page; a runner may be built with others later.
    pub page_size: usize,
    /// The attention of single tokens.
    pub decode: DecodeKernel,
    /// Whether steps of single tokens are captured.
    pub graphs: bool,
    /// Tells the settings apart that these, and the sizes of runners, were chosen by. What is captured carries it.
    pub settings_key: u128,
}

/// Bytes of a weight, an activation, a key or a value.
const ELEMENT: usize = size_of::<u16>();
/// Rows whose logits are computed together, which bounds the memory for them.
const LOGIT_ROWS: usize = 64;

/// Refuses a model that no kernel serves, or pages of a size that none does, with what is supported.
pub fn check_supported(config: &ModelConfig, page_size: usize) -> Result<()> {
    let refused = |what: String| Error::Setting(format!("{what} (on CUDA; --device cpu has no such limit)"));
    kernels::check(config, page_size).map_err(|error| refused(error.to_string()))
}

/// Whether matrices whose file has them in such elements may stay so on a device, because a kernel reads them.
#[must_use]
pub fn is_kept(element: ElementType) -> bool {
    weights::block_format(element).is_some()
}

/// What the kernels of a checked plan's model are compiled from, for pages of a size: all that it may load, whatever the sizes of
/// its products.
pub fn programs(plan: &WeightPlan<'_>, page_size: usize, decode: DecodeKernel) -> Result<Vec<Program>> {
    let config = plan.config();
    check_supported(config, page_size)?;
    let mut programs = kernels::Kernels::programs(config)?;
    programs.extend(kernels::product_programs(config, &weights::formats(plan))?);
    programs.extend(state::programs(config, (page_size, decode))?);
    Ok(programs)
}

/// Memory of a device for the code of kernels and captured steps.
const REST: u64 = 64 << 20;
/// A driver maps memory in pieces of this many bytes, of which what is allocated need not fill the last.
const PIECE: u64 = 2 << 20;
/// What is allocated for a layer and may be larger than a piece: four matrices, a router, keys and values.
const LARGE_PER_LAYER: usize = 7;
/// What else may be: the embedding, the head, cosines and sines, and the numbers of a step.
const LARGE_BESIDE: usize = 20;

/// The memory that a model takes on a device when prompts run `chunk` tokens at a time.
#[must_use]
pub fn need(plan: &WeightPlan<'_>, chunk: usize, choices: CudaChoices) -> Need {
    let config = plan.config();
    let context_length = config.context_length;
    let step = |tokens: usize, page_size: usize| {
        let sizes = CudaSizes { page_size, pages: 0, step_tokens: tokens, sequences: 1, context_length };
        (state::step_bytes(config, sizes, choices.decode) + state::turns_bytes(config, context_length)) as u64
    };
    Need {
        weights: weights::bytes(plan) as u64,
        step: step(chunk.min(context_length), choices.page_size),
        least_step: step(1, 1),
        kv_per_token: (2 * config.layers * config.kv_size() * ELEMENT) as u64,
        rest: REST + PIECE * (config.layers * LARGE_PER_LAYER + LARGE_BESIDE) as u64,
    }
}
