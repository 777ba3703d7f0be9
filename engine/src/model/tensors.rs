//! Which tensors a model has, what the two kinds of checkpoint call them, and their shapes.

use super::config::{Architecture, ModelConfig};

/// Whose names a checkpoint uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `model.layers.0.self_attn.q_proj.weight`, as in safetensors files.
    Hub,
    /// `blk.0.attn_q.weight`, as in GGUF files, where the rows of queries and keys are interleaved for rotary positions.
    Gguf,
}

/// A tensor of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelTensor {
    Embedding,
    FinalNorm,
    Head,
    Layer(usize, LayerTensor),
}

/// A tensor of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerTensor {
    AttentionNorm,
    Query,
    Key,
    Value,
    QueryNorm,
    KeyNorm,
    Output,
    MlpNorm,
    Gate,
    Up,
    Down,
}

impl ModelTensor {
    /// Every tensor of a model.
    pub(super) fn all(config: &ModelConfig) -> Vec<Self> {
        use LayerTensor::{AttentionNorm, Down, Gate, Key, KeyNorm, MlpNorm, Output, Query, QueryNorm, Up, Value};
        let mut tensors = vec![Self::Embedding, Self::FinalNorm];
        if !config.tied_embeddings {
            tensors.push(Self::Head);
        }
        for layer in 0..config.layers {
            let each = [AttentionNorm, Query, Key, Value, Output, MlpNorm, Gate, Up, Down];
            tensors.extend(each.map(|tensor| Self::Layer(layer, tensor)));
            if config.architecture == Architecture::Qwen3 {
                tensors.extend([QueryNorm, KeyNorm].map(|tensor| Self::Layer(layer, tensor)));
            }
        }
        tensors
    }

    pub(super) fn name(self, naming: Naming) -> String {
        match (naming, self) {
            (Naming::Hub, Self::Embedding) => "model.embed_tokens.weight".into(),
            (Naming::Hub, Self::FinalNorm) => "model.norm.weight".into(),
            (Naming::Hub, Self::Head) => "lm_head.weight".into(),
            (Naming::Hub, Self::Layer(layer, tensor)) => {
                format!("model.layers.{layer}.{}.weight", tensor.hub_name())
            }
            (Naming::Gguf, Self::Embedding) => "token_embd.weight".into(),
            (Naming::Gguf, Self::FinalNorm) => "output_norm.weight".into(),
            (Naming::Gguf, Self::Head) => "output.weight".into(),
            (Naming::Gguf, Self::Layer(layer, tensor)) => {
                format!("blk.{layer}.{}.weight", tensor.gguf_name())
            }
        }
    }

    /// The shape, slowest dimension first.
    pub(super) fn shape(self, config: &ModelConfig) -> Vec<usize> {
        match self {
            Self::Embedding | Self::Head => vec![config.vocab_size, config.hidden_size],
            Self::FinalNorm => vec![config.hidden_size],
            Self::Layer(_, tensor) => tensor.shape(config),
        }
    }
}

impl LayerTensor {
    fn hub_name(self) -> &'static str {
        match self {
            Self::AttentionNorm => "input_layernorm",
            Self::Query => "self_attn.q_proj",
            Self::Key => "self_attn.k_proj",
            Self::Value => "self_attn.v_proj",
            Self::QueryNorm => "self_attn.q_norm",
            Self::KeyNorm => "self_attn.k_norm",
            Self::Output => "self_attn.o_proj",
            Self::MlpNorm => "post_attention_layernorm",
            Self::Gate => "mlp.gate_proj",
            Self::Up => "mlp.up_proj",
            Self::Down => "mlp.down_proj",
        }
    }

    fn gguf_name(self) -> &'static str {
        match self {
            Self::AttentionNorm => "attn_norm",
            Self::Query => "attn_q",
            Self::Key => "attn_k",
            Self::Value => "attn_v",
            Self::QueryNorm => "attn_q_norm",
            Self::KeyNorm => "attn_k_norm",
            Self::Output => "attn_output",
            Self::MlpNorm => "ffn_norm",
            Self::Gate => "ffn_gate",
            Self::Up => "ffn_up",
            Self::Down => "ffn_down",
        }
    }

    fn shape(self, config: &ModelConfig) -> Vec<usize> {
        let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
        match self {
            Self::AttentionNorm | Self::MlpNorm => vec![hidden],
            Self::Query => vec![config.query_size(), hidden],
            Self::Key | Self::Value => vec![config.kv_size(), hidden],
            Self::QueryNorm | Self::KeyNorm => vec![config.head_dim],
            Self::Output => vec![hidden, config.query_size()],
            Self::Gate | Self::Up => vec![intermediate, hidden],
            Self::Down => vec![hidden, intermediate],
        }
    }
}
