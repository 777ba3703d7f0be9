//! Reading `config.json`, in the form model hubs carry and in the form transformers 5 saves.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::config::{Architecture, ModelConfig};
use super::rope::{Rope, RopeScaling};
use crate::error::{Error, Result};

/// The keys that are used; the two forms differ in how they spell rotary positions.
#[derive(Deserialize)]
struct HubConfig {
    architectures: Vec<String>,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    rms_norm_eps: f32,
    rope_theta: Option<f64>,
    rope_scaling: Option<RopeParameters>,
    rope_parameters: Option<RopeParameters>,
    tie_word_embeddings: Option<bool>,
    max_position_embeddings: usize,
}

#[derive(Deserialize)]
struct RopeParameters {
    rope_theta: Option<f64>,
    #[serde(alias = "type")]
    rope_type: Option<Value>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
}

impl ModelConfig {
    /// Reads the text of a `config.json`; `path` is what messages call it.
    pub fn from_hub_json(path: &Path, text: &str) -> Result<Self> {
        let damaged = |e: serde_json::Error| Error::damaged(path, e.to_string());
        let mut value: Value = serde_json::from_str(text).map_err(damaged)?;
        let architecture = architecture(path, &value)?;
        refuse_what_changes_the_result(path, &value)?;
        for key in ["rope_scaling", "rope_parameters"] {
            // Both spellings of the type at once are common; they would be a duplicate to serde.
            if let Some(Value::Object(rope)) = value.get_mut(key)
                && rope.contains_key("rope_type")
            {
                rope.remove("type");
            }
        }
        let hub: HubConfig = serde_json::from_value(value).map_err(damaged)?;
        debug_assert_eq!(hub.architectures.len(), 1);
        let head_dim = match hub.head_dim {
            Some(head_dim) => head_dim,
            None if hub.num_attention_heads > 0 && hub.hidden_size.is_multiple_of(hub.num_attention_heads) => {
                hub.hidden_size / hub.num_attention_heads
            }
            None => {
                return Err(Error::damaged(path, "hidden_size is no multiple of num_attention_heads"));
            }
        };
        Self {
            architecture,
            vocab_size: hub.vocab_size,
            hidden_size: hub.hidden_size,
            intermediate_size: hub.intermediate_size,
            layers: hub.num_hidden_layers,
            heads: hub.num_attention_heads,
            kv_heads: hub.num_key_value_heads.unwrap_or(hub.num_attention_heads),
            head_dim,
            rms_norm_eps: hub.rms_norm_eps,
            rope: rope(path, hub.rope_theta, hub.rope_parameters.or(hub.rope_scaling))?,
            tied_embeddings: hub.tie_word_embeddings.unwrap_or(false),
            context_length: hub.max_position_embeddings,
        }
        .checked(path)
    }
}

fn architecture(path: &Path, value: &Value) -> Result<Architecture> {
    let names: Vec<&str> = value["architectures"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match names[..] {
        ["LlamaForCausalLM"] => Ok(Architecture::Llama),
        ["Qwen3ForCausalLM"] => Ok(Architecture::Qwen3),
        [] => Err(Error::damaged(path, "names no architecture")),
        _ => {
            let what = format!("architecture {} (known: LlamaForCausalLM, Qwen3ForCausalLM)", names.join(", "));
            Err(Error::unsupported(path, what))
        }
    }
}

/// Whether a value is what a model without the feature would say.
type Neutral = fn(&Value) -> bool;

/// Keys that change what a model computes, with the values that leave it as this engine computes it.
const NEUTRAL_VALUES: &[(&str, Neutral)] = &[
    ("hidden_act", |v| v == "silu"),
    ("attention_bias", |v| v == false),
    ("mlp_bias", |v| v == false),
    ("quantization_config", Value::is_null),
    ("compression_config", Value::is_null),
    ("rope_interleaved", |v| v == false),
    ("partial_rotary_factor", |v| v == 1 || v == 1.0),
    ("attn_logit_softcapping", Value::is_null),
    ("final_logit_softcapping", Value::is_null),
    ("attention_multiplier", Value::is_null),
    ("embedding_multiplier", Value::is_null),
    ("logits_scaling", Value::is_null),
    ("residual_multiplier", Value::is_null),
    ("num_experts", |v| v == 0),
    ("num_local_experts", |v| v == 0),
    ("no_rope_layers", |v| v.as_array().is_some_and(Vec::is_empty)),
    ("layer_types", |v| v.as_array().is_some_and(|layers| layers.iter().all(|layer| layer == "full_attention"))),
];

fn refuse_what_changes_the_result(path: &Path, value: &Value) -> Result<()> {
    let refuse = |key: &str, value: &Value| Err(Error::unsupported(path, format!("{key} = {value}")));
    for (key, neutral) in NEUTRAL_VALUES {
        match value.get(key) {
            Some(found) if !found.is_null() && !neutral(found) => return refuse(key, found),
            _ => {}
        }
    }
    // A window counts when nothing switches it off.
    let window = &value["sliding_window"];
    if !window.is_null() && value["use_sliding_window"] != false {
        return refuse("sliding_window", window);
    }
    if value["use_sliding_window"] == true {
        return refuse("use_sliding_window", &value["use_sliding_window"]);
    }
    Ok(())
}

fn rope(path: &Path, theta: Option<f64>, parameters: Option<RopeParameters>) -> Result<Rope> {
    /// What models that say nothing mean.
    const DEFAULT_THETA: f64 = 10_000.0;
    let Some(parameters) = parameters else {
        return Ok(Rope { theta: theta.unwrap_or(DEFAULT_THETA), scaling: RopeScaling::None });
    };
    let theta = parameters.rope_theta.or(theta).unwrap_or(DEFAULT_THETA);
    let kind = parameters.rope_type.unwrap_or(Value::from("default"));
    let scaling = match kind.as_str() {
        Some("default") => RopeScaling::None,
        Some("llama3") => {
            let need = |name: &str, value: Option<f64>| {
                value.ok_or_else(|| Error::damaged(path, format!("llama3 rope scaling without {name}")))
            };
            RopeScaling::Llama3 {
                factor: need("factor", parameters.factor)?,
                low_freq_factor: need("low_freq_factor", parameters.low_freq_factor)?,
                high_freq_factor: need("high_freq_factor", parameters.high_freq_factor)?,
                original_context: need(
                    "original_max_position_embeddings",
                    parameters.original_max_position_embeddings,
                )?,
            }
        }
        _ => {
            return Err(Error::unsupported(path, format!("rope type {kind} (known: default, llama3)")));
        }
    };
    Ok(Rope { theta, scaling })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::ModelConfig;

    fn small() -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"], "vocab_size": 10, "hidden_size": 8, "intermediate_size": 16,
            "num_hidden_layers": 1, "num_attention_heads": 2, "rms_norm_eps": 1e-5, "hidden_act": "silu",
            "max_position_embeddings": 64,
        })
    }

    fn read(config: &Value) -> Result<ModelConfig, String> {
        ModelConfig::from_hub_json(Path::new("config.json"), &config.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_left_out_has_the_usual_meaning() {
        let config = read(&small()).expect("complete");
        assert_eq!((config.kv_heads, config.head_dim, config.tied_embeddings), (2, 4, false));
    }

    #[test]
    fn whatever_would_change_the_result_is_refused_by_name() {
        let cases = [
            ("architectures", json!(["MistralForCausalLM"]), "MistralForCausalLM"),
            ("architectures", json!([]), "no architecture"),
            ("hidden_act", json!("gelu"), "hidden_act = \"gelu\""),
            ("attention_bias", json!(true), "attention_bias = true"),
            ("mlp_bias", json!(true), "mlp_bias = true"),
            ("quantization_config", json!({"quant_method": "awq"}), "quantization_config"),
            ("sliding_window", json!(4096), "sliding_window = 4096"),
            ("use_sliding_window", json!(true), "use_sliding_window = true"),
            ("layer_types", json!(["sliding_attention"]), "layer_types"),
            ("partial_rotary_factor", json!(0.5), "partial_rotary_factor = 0.5"),
            ("rope_scaling", json!({"type": "dynamic", "factor": 2.0}), "rope type \"dynamic\""),
            ("rope_scaling", json!({"rope_type": "yarn", "type": "yarn", "factor": 2.0}), "rope type \"yarn\""),
            ("rope_scaling", json!({"rope_type": "llama3", "factor": 2.0}), "without low_freq_factor"),
            ("rope_theta", json!(-1.0), "theta is -1"),
            ("num_key_value_heads", json!(0), "number of key-value heads 0"),
            ("num_attention_heads", json!(3), "no multiple"),
            ("head_dim", json!(3), "is odd"),
            ("vocab_size", json!(1_u64 << 40), "vocabulary size"),
            ("hidden_size", json!(null), "null"),
        ];
        for (key, value, message) in cases {
            let mut config = small();
            config[key] = value;
            let error = read(&config).expect_err(key);
            assert!(error.contains(message), "{key}: {error}");
        }
    }

    #[test]
    fn a_window_that_is_switched_off_is_no_window() {
        let mut config = small();
        config["sliding_window"] = json!(4096);
        config["use_sliding_window"] = json!(false);
        assert!(read(&config).is_ok());
    }
}
