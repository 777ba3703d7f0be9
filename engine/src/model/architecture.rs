//! The architectures of the family, each as a row of data: nothing else in the engine depends on the name of one.

/// An architecture by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama, and models of the same form such as `SmolLM2`.
    Llama,
    /// Llama with a sliding window.
    Mistral,
    /// Llama with biases of queries, keys and values.
    Qwen2,
    /// Llama with normalised queries and keys.
    Qwen3,
    /// Qwen3 with experts in some or all layers.
    Qwen3Moe,
    /// Mistral with experts.
    Mixtral,
    /// Llama with experts, and queries and keys normalised across heads.
    Olmoe,
}

/// Where queries and keys are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKeyNorm {
    /// Nowhere.
    None,
    /// Each head by itself, all with the same weights.
    Head,
    /// All heads together.
    Row,
}

/// Which projections of attention have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionBias {
    /// None.
    None,
    /// Those of queries, keys and values.
    QueryKeyValue,
    /// These and the output's.
    All,
}

/// Who says which projections of attention have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BiasRule {
    /// It is always this.
    Always(AttentionBias),
    /// The key `attention_bias`: all or none.
    Stated,
}

/// Which layers have a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowRule {
    /// None.
    Never,
    /// All, where a `sliding_window` is stated.
    Stated,
    /// The same, or those that `layer_types` names.
    StatedByLayer,
    /// All, where `use_sliding_window` is on.
    SwitchedOn,
    /// Those from `max_window_layers` on, or that `layer_types` names, where `use_sliding_window` is on.
    SwitchedOnByLayer,
}

/// How a model with experts spells and uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpertRule {
    pub(super) names: ExpertNames,
    /// The weights of the chosen experts always sum to one; otherwise `norm_topk_prob` says whether they do.
    pub(super) always_renormalised: bool,
    /// Whether they do in a GGUF file that does not say.
    pub(super) gguf_renormalised: bool,
    /// `moe_intermediate_size` is the width of an expert, and layers without experts have `intermediate_size`. Otherwise that is the
    /// width of an expert, and there are no such layers.
    pub(super) dense_layers: bool,
}

/// What the tensors of experts are called in safetensors files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpertNames {
    /// `mlp.experts.0.gate_proj`
    Mlp,
    /// `block_sparse_moe.experts.0.w1`
    BlockSparse,
}

/// What the models of an architecture have in common, and what is left to their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) architecture: Architecture,
    /// In `architectures` of a `config.json`.
    pub(super) hub_name: &'static str,
    /// What transformers 5 calls it there where layers differ in their windows.
    pub(super) hub_name_by_layer: Option<&'static str>,
    /// Numbers that a `config.json` means by leaving out their keys, where these are not the usual ones.
    pub(super) left_out: &'static [(&'static str, u64)],
    /// In `general.architecture` of a GGUF file.
    pub(super) gguf_name: &'static str,
    /// Whether the two halves of each query and key head alternate in a GGUF file.
    pub(super) gguf_interleaved: bool,
    pub(super) attention_bias: BiasRule,
    /// Whether `mlp_bias` may be on.
    pub(super) mlp_bias: bool,
    pub(super) query_key_norm: QueryKeyNorm,
    /// Whether there may be a `clip_qkv`.
    pub(super) clip: bool,
    pub(super) windows: WindowRule,
    pub(super) experts: Option<ExpertRule>,
}

const LLAMA: Family = Family {
    architecture: Architecture::Llama,
    hub_name: "LlamaForCausalLM",
    hub_name_by_layer: None,
    left_out: &[("bos_token_id", 1), ("eos_token_id", 2)],
    gguf_name: "llama",
    gguf_interleaved: true,
    attention_bias: BiasRule::Stated,
    mlp_bias: true,
    query_key_norm: QueryKeyNorm::None,
    clip: false,
    windows: WindowRule::Never,
    experts: None,
};

const MISTRAL: Family = Family {
    architecture: Architecture::Mistral,
    hub_name: "MistralForCausalLM",
    hub_name_by_layer: Some("MinistralForCausalLM"),
    left_out: &[("num_key_value_heads", 8), ("sliding_window", 4096), ("bos_token_id", 1), ("eos_token_id", 2)],
    attention_bias: BiasRule::Always(AttentionBias::None),
    mlp_bias: false,
    windows: WindowRule::StatedByLayer,
    ..LLAMA
};

const QWEN2: Family = Family {
    architecture: Architecture::Qwen2,
    hub_name: "Qwen2ForCausalLM",
    left_out: &[("num_key_value_heads", 32), ("sliding_window", 4096), ("max_window_layers", 28)],
    gguf_name: "qwen2",
    gguf_interleaved: false,
    attention_bias: BiasRule::Always(AttentionBias::QueryKeyValue),
    mlp_bias: false,
    windows: WindowRule::SwitchedOnByLayer,
    ..LLAMA
};

const QWEN3: Family = Family {
    architecture: Architecture::Qwen3,
    hub_name: "Qwen3ForCausalLM",
    left_out: &[("num_key_value_heads", 32), ("head_dim", 128), ("sliding_window", 4096), ("max_window_layers", 28)],
    gguf_name: "qwen3",
    attention_bias: BiasRule::Stated,
    query_key_norm: QueryKeyNorm::Head,
    ..QWEN2
};

const QWEN3_MOE: Family = Family {
    architecture: Architecture::Qwen3Moe,
    hub_name: "Qwen3MoeForCausalLM",
    left_out: &[("num_key_value_heads", 4), ("sliding_window", 4096)],
    gguf_name: "qwen3moe",
    windows: WindowRule::SwitchedOn,
    experts: Some(ExpertRule {
        names: ExpertNames::Mlp,
        always_renormalised: false,
        gguf_renormalised: true,
        dense_layers: true,
    }),
    ..QWEN3
};

const MIXTRAL: Family = Family {
    architecture: Architecture::Mixtral,
    hub_name: "MixtralForCausalLM",
    hub_name_by_layer: None,
    left_out: &[("num_key_value_heads", 8), ("rope_theta", 1_000_000), ("bos_token_id", 1), ("eos_token_id", 2)],
    windows: WindowRule::Stated,
    experts: Some(ExpertRule {
        names: ExpertNames::BlockSparse,
        always_renormalised: true,
        gguf_renormalised: true,
        dense_layers: false,
    }),
    ..MISTRAL
};

const OLMOE: Family = Family {
    architecture: Architecture::Olmoe,
    hub_name: "OlmoeForCausalLM",
    left_out: &[("eos_token_id", 50_279)],
    gguf_name: "olmoe",
    gguf_interleaved: false,
    mlp_bias: false,
    query_key_norm: QueryKeyNorm::Row,
    clip: true,
    experts: Some(ExpertRule {
        names: ExpertNames::Mlp,
        always_renormalised: false,
        gguf_renormalised: false,
        dense_layers: false,
    }),
    ..LLAMA
};

/// Every architecture. Where two share a GGUF name, the first is the one without experts.
pub(super) const FAMILIES: [Family; 7] = [LLAMA, MISTRAL, QWEN2, QWEN3, QWEN3_MOE, MIXTRAL, OLMOE];

impl Architecture {
    /// The name in messages and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3_moe",
            Self::Mixtral => "mixtral",
            Self::Olmoe => "olmoe",
        }
    }

    pub(super) fn family(self) -> &'static Family {
        match self {
            Self::Llama => &LLAMA,
            Self::Mistral => &MISTRAL,
            Self::Qwen2 => &QWEN2,
            Self::Qwen3 => &QWEN3,
            Self::Qwen3Moe => &QWEN3_MOE,
            Self::Mixtral => &MIXTRAL,
            Self::Olmoe => &OLMOE,
        }
    }
}

impl Family {
    /// Whether a `config.json` may call it this.
    pub(super) fn is_called(&self, hub_name: &str) -> bool {
        self.hub_name == hub_name || self.hub_name_by_layer == Some(hub_name)
    }

    /// Whether a key of `config.json` is read for this architecture, and so may have any value.
    pub(super) fn reads(&self, key: &str) -> bool {
        match key {
            "attention_bias" => self.attention_bias == BiasRule::Stated,
            "mlp_bias" => self.mlp_bias,
            "clip_qkv" => self.clip,
            "sliding_window" | "use_sliding_window" | "layer_types" => self.windows != WindowRule::Never,
            "num_experts" | "num_local_experts" => self.experts.is_some(),
            "norm_topk_prob" => self.experts.is_none_or(|experts| !experts.always_renormalised),
            "decoder_sparse_step" | "mlp_only_layers" => self.experts.is_some_and(|experts| experts.dense_layers),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FAMILIES;

    #[test]
    fn each_architecture_is_its_own_row() {
        for family in &FAMILIES {
            assert_eq!(family.architecture.family(), family);
            assert_eq!(FAMILIES.iter().filter(|other| other.hub_name == family.hub_name).count(), 1);
        }
    }
}
