//! Reading a model's numbers from the metadata of a GGUF file.

use super::config::{Architecture, ModelConfig};
use super::rope::{Rope, RopeScaling};
use crate::error::{Error, Result};
use crate::weights::Weights;
use crate::weights::gguf::{Metadata, Value};

/// The keys below `llama.` that are understood; any other could change the result and is refused.
const KNOWN_KEYS: [&str; 14] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "vocab_size",
    "expert_count",
];

impl ModelConfig {
    /// Reads the metadata of a GGUF file; whether the output head is tied is seen from its tensors.
    pub fn from_gguf(metadata: &Metadata, weights: &Weights) -> Result<Self> {
        let path = metadata.path();
        let architecture = metadata.text("general.architecture")?;
        if architecture != "llama" {
            return Err(Error::unsupported(path, format!("GGUF architecture {architecture} (known: llama)")));
        }
        let unknown =
            metadata.keys().filter_map(|key| key.strip_prefix("llama.")).find(|key| !KNOWN_KEYS.contains(key));
        if let Some(key) = unknown {
            return Err(Error::unsupported(path, format!("metadata key `llama.{key}`")));
        }
        let usize = |key: &str| metadata.usize(&format!("llama.{key}"));
        let optional = |key: &str| metadata.optional_usize(&format!("llama.{key}"));

        match metadata.optional_text("llama.rope.scaling.type")? {
            None | Some("none") => {}
            Some(other) => {
                return Err(Error::unsupported(path, format!("rope scaling type {other}")));
            }
        }
        if let Some(experts @ 1..) = optional("expert_count")? {
            return Err(Error::unsupported(path, format!("{experts} experts")));
        }
        let hidden_size = usize("embedding_length")?;
        let heads = usize("attention.head_count")?;
        let head_dim = match optional("attention.key_length")? {
            Some(length) => length,
            None if heads > 0 && hidden_size.is_multiple_of(heads) => hidden_size / heads,
            None => {
                return Err(Error::damaged(path, "embedding_length is no multiple of head_count"));
            }
        };
        for key in ["attention.value_length", "rope.dimension_count"] {
            if let Some(other) = optional(key)?.filter(|&size| size != head_dim) {
                let what = format!("`llama.{key}` = {other} where a head has {head_dim} elements");
                return Err(Error::unsupported(path, what));
            }
        }
        let eps = metadata.optional_float("llama.attention.layer_norm_rms_epsilon")?;
        Self {
            architecture: Architecture::Llama,
            vocab_size: vocab_size(metadata, weights)?,
            hidden_size,
            intermediate_size: usize("feed_forward_length")?,
            layers: usize("block_count")?,
            heads,
            kv_heads: optional("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            rms_norm_eps: eps.ok_or_else(|| Error::damaged(path, "no layer_norm_rms_epsilon"))? as f32,
            rope: Rope {
                theta: metadata.optional_float("llama.rope.freq_base")?.unwrap_or(10_000.0),
                scaling: RopeScaling::None,
            },
            tied_embeddings: weights.tensor("output.weight").is_none(),
            context_length: usize("context_length")?,
        }
        .checked(path)
    }
}

/// The stated vocabulary size, or else the number of tokens.
fn vocab_size(metadata: &Metadata, weights: &Weights) -> Result<usize> {
    if let Some(size) = metadata.optional_usize("llama.vocab_size")? {
        return Ok(size);
    }
    match metadata.get("tokenizer.ggml.tokens") {
        Some(Value::Array(tokens)) => Ok(tokens.len()),
        _ => Err(Error::damaged(weights.path(), "neither llama.vocab_size nor tokenizer.ggml.tokens")),
    }
}
