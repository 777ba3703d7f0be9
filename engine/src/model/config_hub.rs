//! Reading `config.json`, in the form model hubs carry and in the form transformers 5 saves.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::architecture::{AttentionBias, BiasRule, FAMILIES, Family, WindowRule};
use super::config::{ModelConfig, check_head_count, check_layer_count};
use crate::error::{Error, Result};

mod layers;
mod rope;

/// The keys that are used; the two forms differ in how they spell rotary positions and the number of experts.
#[derive(Deserialize)]
struct HubConfig {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    rms_norm_eps: f32,
    rope_theta: Option<f64>,
    rope_scaling: Option<Map<String, Value>>,
    rope_parameters: Option<Map<String, Value>>,
    original_max_position_embeddings: Option<usize>,
    tie_word_embeddings: Option<bool>,
    max_position_embeddings: usize,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    clip_qkv: Option<f32>,
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    max_window_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
    num_experts: Option<usize>,
    num_local_experts: Option<usize>,
    num_experts_per_tok: Option<usize>,
    moe_intermediate_size: Option<usize>,
    norm_topk_prob: Option<bool>,
    decoder_sparse_step: Option<usize>,
    mlp_only_layers: Option<Vec<usize>>,
}

impl ModelConfig {
    /// Reads the text of a `config.json`; `path` is what messages call it.
    pub fn from_hub_json(path: &Path, text: &str) -> Result<Self> {
        Self::from_hub(path, hub_json(path, text)?)
    }

    /// Reads what [`hub_json`] gives.
    pub(crate) fn from_hub(path: &Path, value: Value) -> Result<Self> {
        let damaged = |e: serde_json::Error| Error::damaged(path, e.to_string());
        let family = family(path, &value)?;
        refuse_what_changes_the_result(path, family, &value)?;
        let hub: HubConfig = serde_json::from_value(value).map_err(damaged)?;
        check_layer_count(path, hub.num_hidden_layers)?;
        check_head_count(path, hub.num_attention_heads)?;
        let head_dim = match hub.head_dim {
            Some(head_dim) => head_dim,
            None if hub.hidden_size.is_multiple_of(hub.num_attention_heads) => {
                hub.hidden_size / hub.num_attention_heads
            }
            None => {
                return Err(Error::damaged(path, "hidden_size is no multiple of num_attention_heads"));
            }
        };
        let attention_bias = match family.attention_bias {
            BiasRule::Always(bias) => bias,
            BiasRule::Stated if hub.attention_bias == Some(true) => AttentionBias::All,
            BiasRule::Stated => AttentionBias::None,
        };
        let experts = family.experts.map(|rule| layers::experts(path, rule, &hub)).transpose()?;
        Self {
            architecture: family.architecture,
            vocab_size: hub.vocab_size,
            hidden_size: hub.hidden_size,
            intermediate_size: hub.intermediate_size,
            layers: hub.num_hidden_layers,
            heads: hub.num_attention_heads,
            kv_heads: hub.num_key_value_heads.unwrap_or(hub.num_attention_heads),
            head_dim,
            rms_norm_eps: hub.rms_norm_eps,
            rope: rope::rope(path, &hub)?,
            tied_embeddings: hub.tie_word_embeddings.unwrap_or(false),
            context_length: hub.max_position_embeddings,
            attention_bias,
            mlp_bias: hub.mlp_bias.unwrap_or(false),
            query_key_norm: family.query_key_norm,
            clip_qkv: hub.clip_qkv,
            windows: layers::windows(path, family, &hub)?,
            experts: experts.flatten(),
        }
        .checked(path)
    }
}

/// The text of a `config.json` as a value, with what its architecture means by leaving out keys.
pub(crate) fn hub_json(path: &Path, text: &str) -> Result<Value> {
    let mut value: Value = serde_json::from_str(text).map_err(|e| Error::damaged(path, e.to_string()))?;
    for &(key, number) in family(path, &value)?.left_out {
        if value.get(key).is_none() {
            value[key] = number.into();
        }
    }
    Ok(value)
}

fn family(path: &Path, value: &Value) -> Result<&'static Family> {
    let names: Vec<&str> = value["architectures"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() {
        return Err(Error::damaged(path, "names no architecture"));
    }
    let unknown = || {
        let known = FAMILIES.each_ref().map(|family| family.hub_name).join(", ");
        Error::unsupported(path, format!("architecture {} (known: {known})", names.join(", ")))
    };
    match names[..] {
        [name] => FAMILIES.iter().find(|family| family.is_called(name)).ok_or_else(unknown),
        _ => Err(unknown()),
    }
}

/// Whether a value is what a model without the feature would say.
type Neutral = fn(&Value) -> bool;

/// Keys that change what a model computes, with the values that leave it as this engine computes it where the architecture does
/// not read the key.
const NEUTRAL_VALUES: &[(&str, Neutral)] = &[
    ("hidden_act", |v| v == "silu"),
    ("is_causal", |v| v == true),
    ("is_encoder_decoder", |v| v == false),
    ("per_layer_config", Value::is_null),
    // The configuration of a part of the model, which would count instead of the whole.
    ("text_config", Value::is_null),
    ("decoder", Value::is_null),
    ("generator", Value::is_null),
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
    ("clip_qkv", Value::is_null),
    ("num_experts", |v| v == 0),
    ("num_local_experts", |v| v == 0),
    ("n_routed_experts", |v| v == 0),
    ("n_shared_experts", |v| v == 0),
    ("shared_expert_intermediate_size", |v| v == 0),
    ("norm_topk_prob", |v| v == true),
    ("scoring_func", |v| v == "softmax"),
    ("routed_scaling_factor", |v| v == 1 || v == 1.0),
    ("decoder_sparse_step", |v| v == 1),
    ("mlp_only_layers", |v| v.as_array().is_some_and(Vec::is_empty)),
    ("no_rope_layers", |v| v.as_array().is_some_and(Vec::is_empty)),
    ("layer_types", |v| v.as_array().is_some_and(|layers| layers.iter().all(|layer| layer == "full_attention"))),
];

fn refuse_what_changes_the_result(path: &Path, family: &Family, value: &Value) -> Result<()> {
    let refuse =
        |key: &str, value: &Value| Err(Error::unsupported(path, format!("{key} = {value} in a {}", family.hub_name)));
    for (key, neutral) in NEUTRAL_VALUES {
        match value.get(key) {
            // Some configurations of models that always have these biases say so.
            Some(Value::Bool(true))
                if *key == "attention_bias"
                    && family.attention_bias == BiasRule::Always(AttentionBias::QueryKeyValue) => {}
            Some(found) if !found.is_null() && !family.reads(key) && !neutral(found) => return refuse(key, found),
            _ => {}
        }
    }
    let (window, switch) = (&value["sliding_window"], &value["use_sliding_window"]);
    match family.windows {
        // A window counts when nothing switches it off.
        WindowRule::Never if !window.is_null() && switch != false => refuse("sliding_window", window),
        WindowRule::Never if switch == true => refuse("use_sliding_window", switch),
        // The reference looks at the window only, other implementations at the switch too.
        WindowRule::Stated | WindowRule::StatedByLayer if !window.is_null() && switch == false => {
            let what = format!("use_sliding_window = false with sliding_window = {window} in a {}", family.hub_name);
            Err(Error::unsupported(path, what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::{AttentionBias, ModelConfig};
    use crate::model::RopeScaling;

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
            (
                "architectures",
                json!(["GemmaForCausalLM"]),
                "GemmaForCausalLM (known: LlamaForCausalLM, MistralForCausalLM",
            ),
            (
                "architectures",
                json!(["LlamaForCausalLM", "Qwen2ForCausalLM"]),
                "LlamaForCausalLM, Qwen2ForCausalLM (known",
            ),
            ("architectures", json!([]), "no architecture"),
            ("hidden_act", json!("gelu"), "hidden_act = \"gelu\""),
            ("clip_qkv", json!(8.0), "clip_qkv = 8.0 in a LlamaForCausalLM"),
            ("num_experts", json!(8), "num_experts = 8"),
            ("decoder_sparse_step", json!(2), "decoder_sparse_step = 2"),
            ("quantization_config", json!({"quant_method": "awq"}), "quantization_config"),
            ("sliding_window", json!(4096), "sliding_window = 4096"),
            ("use_sliding_window", json!(true), "use_sliding_window = true in a LlamaForCausalLM"),
            (
                "layer_types",
                json!(["sliding_attention"]),
                "layer_types = [\"sliding_attention\"] in a LlamaForCausalLM",
            ),
            ("partial_rotary_factor", json!(0.5), "partial_rotary_factor = 0.5"),
            ("rope_scaling", json!({"type": "dynamic", "factor": 2.0}), "rope type \"dynamic\" (known: "),
            ("rope_scaling", json!({"rope_type": "longrope", "type": "yarn", "factor": 2.0}), "rope type \"longrope\""),
            (
                "rope_scaling",
                json!({"rope_type": "linear", "factor": 2.0, "mscale": 1}),
                "mscale = 1 of rope type \"linear\"",
            ),
            ("rope_scaling", json!({"rope_type": "yarn", "factor": "2"}), "factor is \"2\", not a number"),
            ("rope_parameters", json!({"full_attention": {"rope_type": "default"}}), "full_attention = "),
            ("rope_parameters", json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor = 0.5"),
            ("rope_parameters", json!({"rope_type": "yarn", "factor": 4, "rope_theta": 1}), "theta - 1 is 0"),
            ("num_hidden_layers", json!(1_u64 << 40), "number of layers"),
            ("rope_scaling", json!({"rope_type": "llama3", "factor": 2.0}), "without low_freq_factor"),
            ("rope_theta", json!(-1.0), "theta is -1"),
            ("num_key_value_heads", json!(0), "number of key-value heads 0 is not within 1..="),
            ("num_attention_heads", json!(0), "number of attention heads 0 is not within 1..="),
            ("num_hidden_layers", json!(0), "number of layers 0 is not within 1..="),
            ("vocab_size", json!(0), "vocabulary size 0 is not within 1..="),
            ("hidden_size", json!(0), "hidden size 0 is not within 1..="),
            ("intermediate_size", json!(0), "intermediate size 0 is not within 1..="),
            ("max_position_embeddings", json!(0), "context length 0 is not within 1..="),
            ("head_dim", json!(0), "head dimension 0 is not within 1..="),
            ("rope_theta", json!(0.0), "theta is 0"),
            ("num_attention_heads", json!(3), "no multiple"),
            ("head_dim", json!(3), "is odd"),
            ("vocab_size", json!(1_u64 << 40), "vocabulary size"),
            ("hidden_size", json!(null), "null"),
            ("rms_norm_eps", json!(-1e-5), "normalisation epsilon -0.00001 is not a small number"),
        ];
        for (key, value, message) in cases {
            let mut config = small();
            config[key] = value;
            let error = read(&config).expect_err(key);
            assert!(error.contains(message), "{key}: {error}");
        }
    }

    /// Each size is one that a model may have, and there is no memory for all of them together, nor for a list of their tensors.
    #[test]
    fn sizes_that_no_model_has_together_are_refused() {
        let large = json!({"hidden_size": 1 << 20, "num_attention_heads": 1 << 14, "head_dim": 1 << 14,
            "num_hidden_layers": 1 << 12, "intermediate_size": 1 << 22});
        let many = json!({"num_hidden_layers": 1 << 12, "num_experts": 1 << 14, "num_experts_per_tok": 1,
            "moe_intermediate_size": 8});
        let wide = json!({"num_experts": 1 << 14, "num_experts_per_tok": 1, "moe_intermediate_size": 1 << 22,
            "hidden_size": 1 << 20, "num_hidden_layers": 64});
        for (architecture, changes, message) in [
            ("LlamaForCausalLM", large, " elements of all weights are more than "),
            ("Qwen3MoeForCausalLM", many, "67108864 experts in all layers are more than "),
            ("Qwen3MoeForCausalLM", wide, " elements of all weights are more than "),
        ] {
            let error = read(&of(architecture, &changes)).expect_err(message);
            assert!(error.contains(message), "{architecture}: {error}");
        }
    }

    #[test]
    fn what_is_no_json_is_said_of_the_file() {
        let error = ModelConfig::from_hub_json(Path::new("config.json"), "{").expect_err("it is cut").to_string();
        assert!(error.starts_with("config.json: ") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn an_epsilon_of_nothing_is_one() {
        let mut config = small();
        config["rms_norm_eps"] = json!(0.0);
        assert!(read(&config).expect("a small number").rms_norm_eps.abs() < f32::MIN_POSITIVE);
    }

    #[test]
    fn parameters_of_positions_that_are_missing_or_wrong_are_named() {
        let llama3 = json!({"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 16});
        let yarn = json!({"factor": 4, "attention_factor": 1, "mscale": 1, "mscale_all_dim": 1, "beta_fast": 32,
            "beta_slow": 1, "truncate": true, "original_max_position_embeddings": 16, "rope_theta": 100});
        let read_with = |kind: &str, parameters: &Value, key: &str, value: Value| {
            let mut config = small();
            config["rope_parameters"] = parameters.clone();
            config["rope_parameters"]["rope_type"] = json!(kind);
            config["rope_parameters"][key] = value;
            read(&config)
        };
        for (kind, parameters) in [("linear", &json!({"factor": 2})), ("llama3", &llama3), ("yarn", &yarn)] {
            for (key, value) in parameters.as_object().expect("an object") {
                assert!(read_with(kind, parameters, key, value.clone()).is_ok(), "{kind}: as it stands");
                let wanted = if value.is_boolean() { "not true or false" } else { "not a number" };
                let error = read_with(kind, parameters, key, json!("x")).expect_err(key);
                assert!(error.contains(&format!("rope: {key} is \"x\", {wanted}")), "{kind}: {error}");
            }
        }
        let cases = [
            ("linear", &json!({}), "factor", json!(null), "linear rope scaling without factor"),
            ("llama3", &llama3, "factor", json!(null), "llama3 rope scaling without factor"),
            ("llama3", &llama3, "high_freq_factor", json!(null), "llama3 rope scaling without high_freq_factor"),
            ("yarn", &yarn, "factor", json!(null), "yarn rope scaling without factor"),
            ("linear", &json!({}), "factor", json!(0), "factor is 0, not a positive number"),
            ("llama3", &llama3, "factor", json!(0), "factor is 0, not"),
            ("llama3", &llama3, "low_freq_factor", json!(0), "low_freq_factor is 0, not"),
            ("llama3", &llama3, "high_freq_factor", json!(1), "high_freq_factor - low_freq_factor is 0, not"),
            ("llama3", &llama3, "original_max_position_embeddings", json!(0), "original_max_position_embeddings is 0"),
            ("yarn", &yarn, "factor", json!(0), "factor is 0, not"),
            ("yarn", &yarn, "beta_slow", json!(-1), "beta_slow is -1, not"),
            ("yarn", &yarn, "beta_fast", json!(-1), "beta_fast is -1, not"),
            ("yarn", &yarn, "original_max_position_embeddings", json!(0), "original_max_position_embeddings is 0"),
            ("yarn", &yarn, "attention_factor", json!(0), "attention_factor is 0, not"),
        ];
        for (kind, parameters, key, value, message) in cases {
            let error = read_with(kind, parameters, key, value).expect_err(message);
            assert!(error.contains(message), "{kind} {key}: {error}");
        }
    }

    #[test]
    fn keys_that_are_null_are_left_out() {
        for key in ["hidden_act", "attention_bias", "num_experts", "partial_rotary_factor", "layer_types", "clip_qkv"] {
            let mut config = small();
            config[key] = json!(null);
            assert_eq!(read(&config), read(&small()), "{key}");
        }
    }

    #[test]
    fn parameters_of_positions_that_say_nothing_are_passed_over() {
        let linear = json!({"rope_type": "linear", "factor": 2, "partial_rotary_factor": 1.0, "mscale": null});
        let mut config = small();
        config["rope_scaling"] = json!({});
        config["rope_parameters"] = linear;
        assert_eq!(read(&config).expect("understood").rope.scaling, RopeScaling::Linear { factor: 2.0 });
    }

    fn of(architecture: &str, changes: &Value) -> Value {
        let mut config = small();
        config["architectures"] = json!([architecture]);
        config["num_hidden_layers"] = json!(4);
        config["num_key_value_heads"] = json!(2);
        config["head_dim"] = json!(4);
        for (key, value) in changes.as_object().expect("an object") {
            config[key] = value.clone();
        }
        config
    }

    #[test]
    fn windows_go_to_the_layers_that_the_configuration_names() {
        let off = json!({"sliding_window": 9, "use_sliding_window": false});
        let above = json!({"sliding_window": 9, "use_sliding_window": true, "max_window_layers": 3});
        let typed = json!({"sliding_window": 9, "use_sliding_window": true, "max_window_layers": 0,
            "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]});
        let mixtral = json!({"sliding_window": 9, "layer_types": vec!["sliding_attention"; 4], "num_local_experts": 4,
            "num_experts_per_tok": 1});
        let unused = json!({"sliding_window": 9, "use_sliding_window": false, "max_window_layers": 2,
            "num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 8});
        let (no, yes) = (None, Some(9));
        let cases = [
            ("LlamaForCausalLM", &off, [no; 4]),
            ("MistralForCausalLM", &json!({"sliding_window": null}), [no; 4]),
            ("MistralForCausalLM", &json!({"sliding_window": null, "use_sliding_window": false}), [no; 4]),
            ("MistralForCausalLM", &json!({"sliding_window": 9}), [yes; 4]),
            ("MistralForCausalLM", &json!({}), [Some(4096); 4]),
            ("MinistralForCausalLM", &typed, [no, yes, no, yes]),
            ("MixtralForCausalLM", &mixtral, [yes; 4]),
            ("Qwen2ForCausalLM", &json!({"sliding_window": 9}), [no; 4]),
            ("Qwen2ForCausalLM", &json!({"sliding_window": 9, "use_sliding_window": true}), [no; 4]),
            ("Qwen2ForCausalLM", &json!({"sliding_window": 9, "max_window_layers": null}), [no; 4]),
            ("Qwen2ForCausalLM", &above, [no, no, no, yes]),
            ("Qwen3MoeForCausalLM", &unused, [no; 4]),
            ("Qwen3ForCausalLM", &above, [no, no, no, yes]),
            ("Qwen3ForCausalLM", &typed, [no, yes, no, yes]),
        ];
        for (architecture, changes, want) in cases {
            let config = read(&of(architecture, changes)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(config.windows, want, "{architecture} {changes}");
        }
    }

    #[test]
    fn windows_that_contradict_themselves_are_refused() {
        let moe = json!({"num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 8,
            "sliding_window": 9, "use_sliding_window": true, "max_window_layers": 2});
        let mixed = json!({"num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 8,
            "sliding_window": 9, "use_sliding_window": true,
            "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]});
        let unsure = json!({"sliding_window": 9, "use_sliding_window": true, "max_window_layers": null});
        let cases = [
            (
                "Qwen2ForCausalLM",
                json!({"use_sliding_window": true, "sliding_window": null}),
                "without a sliding_window",
            ),
            ("Qwen2ForCausalLM", unsure, "max_window_layers"),
            (
                "MistralForCausalLM",
                json!({"sliding_window": 9, "use_sliding_window": false}),
                "use_sliding_window = false with sliding_window = 9",
            ),
            ("Qwen3MoeForCausalLM", mixed, "layer_types with full_attention"),
            ("MistralForCausalLM", json!({"sliding_window": 0}), "a sliding window of 0 tokens"),
            ("MistralForCausalLM", json!({"layer_types": ["full_attention"]}), "1 entries for 4 layers"),
            (
                "MistralForCausalLM",
                json!({"layer_types": vec!["sliding_attention"; 4], "sliding_window": null}),
                "sliding_window is null",
            ),
            ("MistralForCausalLM", json!({"layer_types": vec!["chunked"; 4]}), "layer_types[0] = \"chunked\""),
            ("Qwen3MoeForCausalLM", moe, "max_window_layers = 2"),
        ];
        for (architecture, changes, message) in cases {
            let error = read(&of(architecture, &changes)).expect_err(message);
            assert!(error.contains(message), "{architecture} {changes}: {error}");
        }
    }

    #[test]
    fn experts_are_in_the_layers_that_the_configuration_names() {
        let sparse = |changes: Value| {
            let mut all = json!({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8});
            for (key, value) in changes.as_object().expect("an object") {
                all[key] = value.clone();
            }
            let config = read(&of("Qwen3MoeForCausalLM", &all)).unwrap_or_else(|e| panic!("{e}"));
            config.experts.map(|experts| experts.sparse_layers)
        };
        let (dense, with) = (false, true);
        assert_eq!(sparse(json!({})), Some(vec![with; 4]));
        assert_eq!(sparse(json!({"decoder_sparse_step": 2})), Some(vec![dense, with, dense, with]));
        assert_eq!(sparse(json!({"mlp_only_layers": [0, 2]})), Some(vec![dense, with, dense, with]));
        assert_eq!(
            sparse(json!({"decoder_sparse_step": 2, "mlp_only_layers": [3]})),
            Some(vec![dense, with, dense, dense])
        );
        assert_eq!(sparse(json!({"num_experts": 0})), None);
        let twice = json!({"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2});
        let experts = read(&of("MixtralForCausalLM", &twice)).unwrap_or_else(|e| panic!("{e}")).experts;
        let experts = experts.map(|experts| (experts.count, experts.renormalised, experts.sparse_layers));
        assert_eq!(experts, Some((4, true, vec![with; 4])), "one number under both names");
    }

    #[test]
    fn experts_that_cannot_be_are_refused() {
        let cases = [
            ("MixtralForCausalLM", json!({}), "num_experts or num_local_experts"),
            ("MixtralForCausalLM", json!({"num_local_experts": 4}), "num_experts_per_tok"),
            ("MixtralForCausalLM", json!({"num_local_experts": 4, "num_experts_per_tok": 5}), "5 is not within 1..=4"),
            ("MixtralForCausalLM", json!({"num_local_experts": 4, "num_experts_per_tok": 0}), "0 is not within 1..=4"),
            ("MixtralForCausalLM", json!({"num_local_experts": 0, "num_experts_per_tok": 1}), "number of experts 0"),
            (
                "Qwen3MoeForCausalLM",
                json!({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 0}),
                "intermediate size of an expert 0",
            ),
            ("MixtralForCausalLM", json!({"num_local_experts": 4, "norm_topk_prob": false}), "norm_topk_prob = false"),
            ("OlmoeForCausalLM", json!({"num_experts": 4, "num_local_experts": 8}), "num_local_experts = 8"),
            (
                "OlmoeForCausalLM",
                json!({"num_experts": 4, "num_experts_per_tok": 2, "clip_qkv": -1.0}),
                "clip_qkv is -1",
            ),
            ("OlmoeForCausalLM", json!({"num_experts": 4, "shared_expert_intermediate_size": 8}), "shared_expert"),
            ("Qwen3MoeForCausalLM", json!({"num_experts": 4}), "moe_intermediate_size"),
            (
                "Qwen3MoeForCausalLM",
                json!({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
                "decoder_sparse_step": 0}),
                "decoder_sparse_step is 0",
            ),
        ];
        for (architecture, changes, message) in cases {
            let error = read(&of(architecture, &changes)).expect_err(message);
            assert!(error.contains(message), "{architecture} {changes}: {error}");
        }
    }

    #[test]
    fn biases_are_those_of_the_architecture_or_stated() {
        let bias = |architecture: &str, changes: &Value| {
            read(&of(architecture, changes)).map(|config| (config.attention_bias, config.mlp_bias))
        };
        let all = json!({"attention_bias": true, "mlp_bias": true});
        assert_eq!(bias("LlamaForCausalLM", &all), Ok((AttentionBias::All, true)));
        assert_eq!(bias("LlamaForCausalLM", &json!({})), Ok((AttentionBias::None, false)));
        assert_eq!(
            bias("Qwen2ForCausalLM", &json!({"attention_bias": true})),
            Ok((AttentionBias::QueryKeyValue, false))
        );
        for (architecture, changes) in [("Qwen3ForCausalLM", &all), ("MistralForCausalLM", &all)] {
            let error = bias(architecture, changes).expect_err(architecture);
            assert!(error.contains("_bias = true"), "{error}");
        }
    }

    #[test]
    fn yarn_takes_what_is_stated_and_the_usual_for_the_rest() {
        let scaling = |parameters: Value| {
            let mut config = small();
            config["rope_parameters"] = parameters;
            read(&config).unwrap_or_else(|e| panic!("{e}")).rope.scaling
        };
        let usual = RopeScaling::Yarn {
            factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            original_context: 64.0,
            attention_factor: 0.1 * 4.0_f64.ln() + 1.0,
        };
        assert_eq!(scaling(json!({"type": "yarn", "factor": 4.0, "beta_slow": null})), usual);
        assert_eq!(
            scaling(json!({"type": "yarn", "factor": 4.0, "mscale": 0, "mscale_all_dim": 2, "beta_fast": 0})),
            usual
        );
        let stated =
            scaling(json!({"rope_type": "yarn", "factor": 4, "beta_fast": 8, "beta_slow": 2, "truncate": false,
            "original_max_position_embeddings": 16, "attention_factor": 1.5, "mscale": 1.0, "mscale_all_dim": 1.0}));
        let want = RopeScaling::Yarn {
            factor: 4.0,
            beta_fast: 8.0,
            beta_slow: 2.0,
            truncate: false,
            original_context: 16.0,
            attention_factor: 1.5,
        };
        assert_eq!(stated, want);
    }
}
