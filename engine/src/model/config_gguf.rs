//! Reading a model's numbers from the metadata of a GGUF file.

use std::path::Path;

use super::architecture::{AttentionBias, BiasRule, FAMILIES, Family};
use super::config::{Experts, ModelConfig, check_head_count, check_layer_count};
use super::rope::{Rope, RopeScaling};
use crate::error::{Error, Result};
use crate::weights::Weights;
use crate::weights::gguf::{Metadata, Value};

/// The keys below the name of the architecture that are understood; any other could change the result and is refused.
const KNOWN_KEYS: [&str; 25] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.clamp_kqv",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "vocab_size",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_weights_norm",
    "expert_gating_func",
];

/// How the format numbers a router whose probabilities are a softmax.
const SOFTMAX_GATING: usize = 1;

/// The metadata of one architecture, read by keys without its name.
struct Keys<'a> {
    metadata: &'a Metadata,
    family: &'static Family,
}

impl<'a> Keys<'a> {
    fn of(metadata: &'a Metadata) -> Result<Self> {
        let path = metadata.path();
        let name = metadata.text("general.architecture")?;
        let has_experts = metadata.optional_usize(&format!("{name}.expert_count"))?.is_some_and(|count| count > 0);
        let known = || FAMILIES.iter().filter(|family| family.gguf_name == name);
        let family = known().find(|family| family.experts.is_some() == has_experts);
        let Some(family) = family else {
            let what = match known().next() {
                Some(_) if has_experts => format!("`{name}.expert_count` in GGUF architecture {name}"),
                Some(_) => {
                    return Err(Error::damaged(path, format!("metadata key `{name}.expert_count` is missing or 0")));
                }
                None => format!("GGUF architecture {name} (known: {})", known_names()),
            };
            return Err(Error::unsupported(path, what));
        };
        let keys = Self { metadata, family };
        let unknown = metadata
            .keys()
            .filter_map(|key| key.strip_prefix(name)?.strip_prefix('.'))
            .find(|key| !KNOWN_KEYS.contains(key));
        match unknown {
            Some(key) => Err(Error::unsupported(path, format!("metadata key `{}`", keys.full(key)))),
            None => Ok(keys),
        }
    }

    fn path(&self) -> &Path {
        self.metadata.path()
    }

    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.family.gguf_name)
    }

    fn size(&self, key: &str) -> Result<usize> {
        self.metadata.usize(&self.full(key))
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>> {
        self.metadata.optional_usize(&self.full(key))
    }

    fn optional_float(&self, key: &str) -> Result<Option<f64>> {
        self.metadata.optional_float(&self.full(key))
    }

    fn float(&self, key: &str) -> Result<f64> {
        let missing = || Error::damaged(self.path(), format!("metadata key `{}` is missing", self.full(key)));
        self.optional_float(key)?.ok_or_else(missing)
    }

    fn refuse(&self, key: &str, value: impl std::fmt::Display) -> Error {
        Error::unsupported(self.path(), format!("`{}` = {value}", self.full(key)))
    }
}

fn known_names() -> String {
    let mut names = FAMILIES.map(|family| family.gguf_name).to_vec();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

impl ModelConfig {
    /// Reads the metadata of a GGUF file; whether the output head is tied and what has a bias is seen from its tensors.
    pub fn from_gguf(metadata: &Metadata, weights: &Weights) -> Result<Self> {
        let keys = Keys::of(metadata)?;
        let path = metadata.path();
        let hidden_size = keys.size("embedding_length")?;
        let heads = keys.size("attention.head_count")?;
        check_head_count(path, heads)?;
        let head_dim = match keys.optional_size("attention.key_length")? {
            Some(length) => length,
            None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
            None => {
                return Err(Error::damaged(path, "embedding_length is no multiple of head_count"));
            }
        };
        for key in ["attention.value_length", "rope.dimension_count"] {
            if let Some(other) = keys.optional_size(key)?.filter(|&size| size != head_dim) {
                return Err(keys.refuse(key, format!("{other} where a head has {head_dim} elements")));
            }
        }
        let layers = keys.size("block_count")?;
        check_layer_count(path, layers)?;
        let has_tensor = |name: &str| weights.tensor(name).is_some();
        let attention_bias = match keys.family.attention_bias {
            BiasRule::Always(bias) => bias,
            BiasRule::Stated if has_tensor("blk.0.attn_q.bias") => AttentionBias::All,
            BiasRule::Stated => AttentionBias::None,
        };
        let experts = experts(&keys, layers)?;
        // A model whose layers all have experts may leave out the width of the others.
        let intermediate_size = match &experts {
            Some(experts) => keys.optional_size("feed_forward_length")?.unwrap_or(experts.intermediate_size),
            None => keys.size("feed_forward_length")?,
        };
        Self {
            architecture: keys.family.architecture,
            vocab_size: vocab_size(&keys)?,
            hidden_size,
            intermediate_size,
            layers,
            heads,
            kv_heads: keys.optional_size("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            rms_norm_eps: keys.float("attention.layer_norm_rms_epsilon")? as f32,
            rope: rope(&keys, has_tensor("rope_freqs.weight"))?,
            tied_embeddings: !has_tensor("output.weight"),
            context_length: keys.size("context_length")?,
            attention_bias,
            mlp_bias: keys.family.mlp_bias && has_tensor("blk.0.ffn_gate.bias"),
            query_key_norm: keys.family.query_key_norm,
            clip_qkv: clip(&keys)?,
            windows: vec![window(&keys)?; layers],
            experts,
        }
        .checked(path)
    }
}

fn rope(keys: &Keys<'_>, has_divisors: bool) -> Result<Rope> {
    let theta = keys.optional_float("rope.freq_base")?.unwrap_or(10_000.0);
    let kind = keys.metadata.optional_text(&keys.full("rope.scaling.type"))?;
    let scaling = match kind {
        None | Some("none") if has_divisors => RopeScaling::Stored,
        None | Some("none") => RopeScaling::None,
        Some(other) if has_divisors => {
            return Err(keys.refuse("rope.scaling.type", format!("{other} together with tensor `rope_freqs.weight`")));
        }
        Some("linear") => RopeScaling::Linear { factor: keys.float("rope.scaling.factor")? },
        Some("yarn") => {
            let factor = keys.float("rope.scaling.factor")?;
            RopeScaling::Yarn {
                factor,
                beta_fast: keys.optional_float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: keys.optional_float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                truncate: true,
                original_context: keys.size("rope.scaling.original_context_length")? as f64,
                attention_factor: RopeScaling::yarn_attention_factor(factor),
            }
        }
        Some(other) => {
            return Err(keys.refuse("rope.scaling.type", format!("{other} (known: none, linear, yarn)")));
        }
    };
    Ok(Rope { theta, scaling })
}

/// The format has one window for all layers.
fn window(keys: &Keys<'_>) -> Result<Option<usize>> {
    let key = "attention.sliding_window";
    match (keys.optional_size(key)?, keys.family.gguf_name) {
        (None, _) => Ok(None),
        (window, "llama") => Ok(window),
        (Some(window), _) => Err(keys.refuse(key, window)),
    }
}

fn clip(keys: &Keys<'_>) -> Result<Option<f32>> {
    let key = "attention.clamp_kqv";
    match keys.optional_float(key)? {
        Some(limit) if !keys.family.clip => Err(keys.refuse(key, limit)),
        limit => Ok(limit.map(|limit| limit as f32)),
    }
}

fn experts(keys: &Keys<'_>, layers: usize) -> Result<Option<Experts>> {
    let Some(rule) = keys.family.experts else {
        return Ok(None);
    };
    if let Some(other) = keys.optional_size("expert_gating_func")?.filter(|&gating| gating != SOFTMAX_GATING) {
        return Err(keys.refuse("expert_gating_func", other));
    }
    let width = match keys.optional_size("expert_feed_forward_length")? {
        Some(width) => width,
        None => keys.size("feed_forward_length")?,
    };
    let stated = keys.metadata.optional_bool(&keys.full("expert_weights_norm"))?;
    Ok(Some(Experts {
        count: keys.size("expert_count")?,
        per_token: keys.size("expert_used_count")?,
        intermediate_size: width,
        renormalised: stated.unwrap_or(rule.gguf_renormalised),
        sparse_layers: vec![true; layers],
    }))
}

/// The stated vocabulary size, or else the number of tokens.
fn vocab_size(keys: &Keys<'_>) -> Result<usize> {
    if let Some(size) = keys.optional_size("vocab_size")? {
        return Ok(size);
    }
    match keys.metadata.get("tokenizer.ggml.tokens") {
        Some(Value::Array(tokens)) => Ok(tokens.len()),
        _ => {
            let problem = format!("neither {} nor tokenizer.ggml.tokens", keys.full("vocab_size"));
            Err(Error::damaged(keys.path(), problem))
        }
    }
}
