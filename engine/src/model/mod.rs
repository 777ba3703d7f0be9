//! The Llama family of models: configuration, the plan of its weights, and the forward pass.
//!
//! There is one decoder. What an architecture means by a configuration is a row of `architecture.rs`; readers of `config.json` and of
//! GGUF metadata turn both into a [`ModelConfig`], whose options are all that the decoder knows.

mod architecture;
mod attention;
mod config;
mod config_gguf;
mod config_hub;
pub mod cuda;
mod decoder;
mod feed_forward;
mod linear;
mod plan;
mod rope;
mod tensors;

pub use architecture::{Architecture, AttentionBias, QueryKeyNorm};
pub use attention::{
    AttentionBackend, AttentionBackends, AttentionNeeds, Phase, check as check_attention, choose as choose_attention,
};
pub use config::{Experts, ModelConfig};
pub(crate) use config_hub::hub_json;
pub use cuda::{
    CudaChoices, CudaDecoder, CudaSizes, CudaState, DecodeKernel, GraphUse, MatrixFormat, NoRoom, Product, Routed,
    RouterHook, Steps,
};
pub use decoder::{Batch, Decoder};
pub use plan::{Progress, WeightForm, WeightPlan};
pub use rope::{Rope, RopeScaling};
pub use tensors::Naming;
