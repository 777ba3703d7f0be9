//! Which tensors a model has, what the two kinds of checkpoint call them, and their shapes.

use super::architecture::{AttentionBias, ExpertNames, QueryKeyNorm};
use super::config::{Experts, ModelConfig};
use super::rope::RopeScaling;

/// Whose names a checkpoint uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `model.layers.0.self_attn.q_proj.weight`, as in safetensors files.
    Hub,
    /// `blk.0.attn_q.weight`, as in GGUF files, where the rows of queries and keys of some architectures are interleaved for rotary
    /// positions, and a matrix of all experts of a layer is one tensor.
    Gguf,
}

/// A tensor of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelTensor {
    Embedding,
    FinalNorm,
    Head,
    RopeDivisors,
    Layer(usize, LayerTensor),
}

/// A tensor of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerTensor {
    AttentionNorm,
    Query,
    QueryBias,
    Key,
    KeyBias,
    Value,
    ValueBias,
    QueryNorm,
    KeyNorm,
    Output,
    OutputBias,
    MlpNorm,
    Gate,
    GateBias,
    Up,
    UpBias,
    Down,
    DownBias,
    Router,
    ExpertGate(usize),
    ExpertUp(usize),
    ExpertDown(usize),
}

/// Where a checkpoint has a tensor of the model.
pub(super) struct Stored {
    pub(super) name: String,
    /// Slowest dimension first.
    pub(super) shape: Vec<usize>,
    /// Which of the equal parts along the slowest dimension it is, where several tensors of the model are one of the checkpoint.
    pub(super) part: Option<usize>,
}

impl ModelTensor {
    /// Every tensor of a model.
    pub(super) fn all(config: &ModelConfig) -> Vec<Self> {
        let mut tensors = vec![Self::Embedding, Self::FinalNorm];
        if !config.tied_embeddings {
            tensors.push(Self::Head);
        }
        if config.rope.scaling == RopeScaling::Stored {
            tensors.push(Self::RopeDivisors);
        }
        for layer in 0..config.layers {
            tensors.extend(LayerTensor::all(config, layer).into_iter().map(|tensor| Self::Layer(layer, tensor)));
        }
        tensors
    }

    /// Where checkpoints that name tensors in this way have it.
    pub(super) fn stored(self, config: &ModelConfig, naming: Naming) -> Stored {
        let mut shape = self.shape(config);
        let part = match (naming, self) {
            (Naming::Gguf, Self::Layer(layer, tensor)) => {
                let expert = tensor.expert();
                if let (Some(_), Some(experts)) = (expert, config.experts_of(layer)) {
                    shape.insert(0, experts.count);
                }
                expert
            }
            _ => None,
        };
        let name = match (naming, self) {
            (Naming::Hub, Self::Embedding) => "model.embed_tokens.weight".into(),
            (Naming::Hub, Self::FinalNorm) => "model.norm.weight".into(),
            (Naming::Hub, Self::Head) => "lm_head.weight".into(),
            (Naming::Hub, Self::Layer(layer, tensor)) => {
                format!("model.layers.{layer}.{}.{}", tensor.hub_name(config), tensor.kind())
            }
            (Naming::Gguf, Self::Embedding) => "token_embd.weight".into(),
            (Naming::Gguf, Self::FinalNorm) => "output_norm.weight".into(),
            (Naming::Gguf, Self::Head) => "output.weight".into(),
            (_, Self::RopeDivisors) => "rope_freqs.weight".into(),
            (Naming::Gguf, Self::Layer(layer, tensor)) => {
                format!("blk.{layer}.{}.{}", tensor.gguf_name(), tensor.kind())
            }
        };
        Stored { name, shape, part }
    }

    /// The shape, slowest dimension first.
    pub(super) fn shape(self, config: &ModelConfig) -> Vec<usize> {
        match self {
            Self::Embedding | Self::Head => vec![config.vocab_size, config.hidden_size],
            Self::FinalNorm => vec![config.hidden_size],
            Self::RopeDivisors => vec![config.head_dim / 2],
            Self::Layer(_, tensor) => tensor.shape(config),
        }
    }
}

impl LayerTensor {
    fn all(config: &ModelConfig, layer: usize) -> Vec<Self> {
        let mut tensors = vec![Self::AttentionNorm, Self::Query, Self::Key, Self::Value, Self::Output, Self::MlpNorm];
        if config.attention_bias != AttentionBias::None {
            tensors.extend([Self::QueryBias, Self::KeyBias, Self::ValueBias]);
        }
        if config.attention_bias == AttentionBias::All {
            tensors.push(Self::OutputBias);
        }
        if config.query_key_norm != QueryKeyNorm::None {
            tensors.extend([Self::QueryNorm, Self::KeyNorm]);
        }
        match config.experts_of(layer) {
            Some(experts) => {
                tensors.push(Self::Router);
                for expert in 0..experts.count {
                    tensors.extend([Self::ExpertGate(expert), Self::ExpertUp(expert), Self::ExpertDown(expert)]);
                }
            }
            None => {
                tensors.extend([Self::Gate, Self::Up, Self::Down]);
                if config.mlp_bias {
                    tensors.extend([Self::GateBias, Self::UpBias, Self::DownBias]);
                }
            }
        }
        tensors
    }

    fn expert(self) -> Option<usize> {
        match self {
            Self::ExpertGate(expert) | Self::ExpertUp(expert) | Self::ExpertDown(expert) => Some(expert),
            _ => None,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::QueryBias
            | Self::KeyBias
            | Self::ValueBias
            | Self::OutputBias
            | Self::GateBias
            | Self::UpBias
            | Self::DownBias => "bias",
            _ => "weight",
        }
    }

    fn hub_name(self, config: &ModelConfig) -> String {
        let names = config.architecture.family().experts.map_or(ExpertNames::Mlp, |rule| rule.names);
        let expert = |expert: usize, mlp: &str, block_sparse: &str| match names {
            ExpertNames::Mlp => format!("mlp.experts.{expert}.{mlp}"),
            ExpertNames::BlockSparse => format!("block_sparse_moe.experts.{expert}.{block_sparse}"),
        };
        let name = match self {
            Self::AttentionNorm => "input_layernorm",
            Self::Query | Self::QueryBias => "self_attn.q_proj",
            Self::Key | Self::KeyBias => "self_attn.k_proj",
            Self::Value | Self::ValueBias => "self_attn.v_proj",
            Self::QueryNorm => "self_attn.q_norm",
            Self::KeyNorm => "self_attn.k_norm",
            Self::Output | Self::OutputBias => "self_attn.o_proj",
            Self::MlpNorm => "post_attention_layernorm",
            Self::Gate | Self::GateBias => "mlp.gate_proj",
            Self::Up | Self::UpBias => "mlp.up_proj",
            Self::Down | Self::DownBias => "mlp.down_proj",
            Self::Router if names == ExpertNames::BlockSparse => "block_sparse_moe.gate",
            Self::Router => "mlp.gate",
            Self::ExpertGate(number) => return expert(number, "gate_proj", "w1"),
            Self::ExpertUp(number) => return expert(number, "up_proj", "w3"),
            Self::ExpertDown(number) => return expert(number, "down_proj", "w2"),
        };
        name.to_owned()
    }

    fn gguf_name(self) -> &'static str {
        match self {
            Self::AttentionNorm => "attn_norm",
            Self::Query | Self::QueryBias => "attn_q",
            Self::Key | Self::KeyBias => "attn_k",
            Self::Value | Self::ValueBias => "attn_v",
            Self::QueryNorm => "attn_q_norm",
            Self::KeyNorm => "attn_k_norm",
            Self::Output | Self::OutputBias => "attn_output",
            Self::MlpNorm => "ffn_norm",
            Self::Gate | Self::GateBias => "ffn_gate",
            Self::Up | Self::UpBias => "ffn_up",
            Self::Down | Self::DownBias => "ffn_down",
            Self::Router => "ffn_gate_inp",
            Self::ExpertGate(_) => "ffn_gate_exps",
            Self::ExpertUp(_) => "ffn_up_exps",
            Self::ExpertDown(_) => "ffn_down_exps",
        }
    }

    fn shape(self, config: &ModelConfig) -> Vec<usize> {
        let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
        let (experts, expert_size) = match &config.experts {
            Some(Experts { count, intermediate_size, .. }) => (*count, *intermediate_size),
            None => (0, 0),
        };
        match self {
            Self::AttentionNorm | Self::MlpNorm | Self::OutputBias | Self::DownBias => vec![hidden],
            Self::Query => vec![config.query_size(), hidden],
            Self::Key | Self::Value => vec![config.kv_size(), hidden],
            Self::QueryNorm | Self::KeyNorm if config.query_key_norm == QueryKeyNorm::Head => vec![config.head_dim],
            Self::QueryBias | Self::QueryNorm => vec![config.query_size()],
            Self::KeyBias | Self::ValueBias | Self::KeyNorm => vec![config.kv_size()],
            Self::Output => vec![hidden, config.query_size()],
            Self::Gate | Self::Up => vec![intermediate, hidden],
            Self::GateBias | Self::UpBias => vec![intermediate],
            Self::Down => vec![hidden, intermediate],
            Self::Router => vec![experts, hidden],
            Self::ExpertGate(_) | Self::ExpertUp(_) => vec![expert_size, hidden],
            Self::ExpertDown(_) => vec![hidden, expert_size],
        }
    }
}
