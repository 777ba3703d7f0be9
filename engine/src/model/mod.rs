//! The Llama family of models: configuration, the plan of its weights, and the forward pass.

mod config;
mod config_gguf;
mod config_hub;
mod llama;
mod plan;
mod rope;
mod tensors;

pub use config::{Architecture, ModelConfig};
pub use llama::{Batch, Llama};
pub use plan::WeightPlan;
pub use rope::{Rope, RopeScaling};
pub use tensors::Naming;
