//! The forward pass on a CUDA device: weights, activations, keys and values in bf16, sums in single precision.
//!
//! [`CudaDecoder`] is the model on a device, [`CudaState`] what a runner of certain sizes needs besides: the pools of keys and
//! values, and room for a step. Logits come back in single precision, rounded to bf16 by the product that makes them.

mod decoder;
mod experts;
mod kernels;
mod state;
mod weights;

pub use decoder::CudaDecoder;
pub use state::{CudaSizes, CudaState};

use super::config::ModelConfig;
use super::plan::WeightPlan;
use crate::error::{Error, Result};
use crate::memory::Need;

/// Bytes of a weight, an activation, a key or a value.
const ELEMENT: usize = size_of::<u16>();
/// Rows whose logits are computed together, which bounds the memory for them.
const LOGIT_ROWS: usize = 64;

/// Refuses a model that no kernel serves, or pages of a size that none does, with what is supported.
pub fn check_supported(config: &ModelConfig, page_size: usize) -> Result<()> {
    let refused = |what: String| Error::Setting(format!("{what} (on CUDA; --device cpu has no such limit)"));
    kernels::check(config, page_size).map_err(|error| refused(error.to_string()))
}

/// The memory that a model takes on a device when prompts run `chunk` tokens at a time.
#[must_use]
pub fn need(plan: &WeightPlan<'_>, chunk: usize) -> Need {
    let config = plan.config();
    let step =
        |tokens: usize| (state::step_bytes(config, tokens) + state::turns_bytes(config, config.context_length)) as u64;
    Need {
        weights: weights::bytes(plan) as u64,
        step: step(chunk.min(config.context_length)),
        least_step: step(1),
        kv_per_token: (2 * config.layers * config.kv_size() * ELEMENT) as u64,
    }
}
