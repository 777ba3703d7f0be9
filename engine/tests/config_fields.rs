//! Every key of a `config.json` that another implementation reads: it counts here too, or makes no difference, or is refused.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::ModelConfig;
use serde_json::{Value, json};
use support::models;

/// What a key does.
enum Effect {
    /// With this value the model is another.
    Counts(Value),
    /// With this value the model is the same: the key is about training, or what is written where.
    Nothing(Value),
    /// With this value the model would be another, which is not implemented, and the message names the key.
    Refused(Value),
}

use Effect::{Counts, Nothing, Refused};

const LLAMA: &str = "LlamaForCausalLM";
const MISTRAL: &str = "MistralForCausalLM";
const QWEN2: &str = "Qwen2ForCausalLM";
const QWEN3: &str = "Qwen3ForCausalLM";
const QWEN3_MOE: &str = "Qwen3MoeForCausalLM";
const MIXTRAL: &str = "MixtralForCausalLM";
const OLMOE: &str = "OlmoeForCausalLM";

/// What a key does in a configuration of [`model`]; nothing where that has not been decided.
fn effect(architecture: &str, key: &str) -> Option<Effect> {
    let is = |names: &[&str]| names.contains(&architecture);
    let counts_in = |names: &[&str], value: Value| if is(names) { Counts(value) } else { Refused(value) };
    let mixed = || json!(["sliding_attention", "full_attention"]);
    Some(match key {
        "vocab_size" => Counts(json!(97)),
        "hidden_size" => Counts(json!(96)),
        "intermediate_size" => Counts(json!(56)),
        "moe_intermediate_size" => Counts(json!(24)),
        "num_hidden_layers" => Counts(json!(3)),
        "num_attention_heads" => Counts(json!(64)),
        "num_key_value_heads" => Counts(json!(16)),
        "head_dim" => Counts(json!(18)),
        "max_position_embeddings" => Counts(json!(200)),
        "rms_norm_eps" => Counts(json!(1e-3)),
        "rope_theta" => Counts(json!(300.0)),
        "rope_parameters" | "rope_scaling" => Counts(json!({"rope_type": "linear", "factor": 2.0})),
        "tie_word_embeddings" => Counts(json!(true)),
        "attention_bias" if is(&[QWEN2]) => Nothing(json!(true)),
        "attention_bias" => counts_in(&[LLAMA, QWEN3, QWEN3_MOE, OLMOE], json!(true)),
        "mlp_bias" => counts_in(&[LLAMA], json!(true)),
        "clip_qkv" => counts_in(&[OLMOE], json!(0.5)),
        "sliding_window" => counts_in(&[MISTRAL, MIXTRAL, QWEN2, QWEN3, QWEN3_MOE], json!(5)),
        "use_sliding_window" if is(&[LLAMA, OLMOE]) => Refused(json!(true)),
        "use_sliding_window" => counts_in(&[QWEN2, QWEN3, QWEN3_MOE], json!(false)),
        "max_window_layers" if is(&[QWEN3_MOE]) => Refused(json!(1)),
        "max_window_layers" if is(&[QWEN2, QWEN3]) => Counts(json!(0)),
        "max_window_layers" => Nothing(json!(1)),
        "layer_types" => counts_in(&[MISTRAL, QWEN2, QWEN3], mixed()),
        "num_local_experts" if is(&[MIXTRAL]) => Counts(json!(6)),
        "num_experts" if is(&[QWEN3_MOE, OLMOE]) => Counts(json!(6)),
        // Elsewhere they are unknown, or contradict the one that counts.
        "num_experts" | "num_local_experts" => Refused(json!(6)),
        "num_experts_per_tok" if is(&[QWEN3_MOE, MIXTRAL, OLMOE]) => Counts(json!(1)),
        "norm_topk_prob" if is(&[QWEN3_MOE, OLMOE]) => Counts(json!(true)),
        "norm_topk_prob" if is(&[MIXTRAL]) => Refused(json!(false)),
        "decoder_sparse_step" => counts_in(&[QWEN3_MOE], json!(2)),
        "mlp_only_layers" => counts_in(&[QWEN3_MOE], json!([0])),

        "hidden_act" => Refused(json!("gelu")),
        "is_causal" => Refused(json!(false)),
        "is_encoder_decoder" => Refused(json!(true)),
        "partial_rotary_factor" => Refused(json!(0.5)),
        "per_layer_config" => Refused(json!({"0": {"num_key_value_heads": 2}})),
        "quantization_config" => Refused(json!({"quant_method": "gptq"})),
        "text_config" | "decoder" | "generator" => Refused(json!({"hidden_size": 96})),

        // Training.
        "attention_dropout" | "initializer_range" | "router_aux_loss_coef" | "router_jitter_noise" => {
            Nothing(json!(0.5))
        }
        "gradient_checkpointing" => Nothing(json!(true)),
        // How the other implementation computes and what it returns.
        "use_cache" | "return_dict" => Nothing(json!(false)),
        "output_hidden_states" | "output_router_logits" => Nothing(json!("yes")),
        "chunk_size_feed_forward" | "pretraining_tp" => Nothing(json!(4)),
        "dtype" | "torch_dtype" => Nothing(json!("float16")),
        "transformers_version" => Nothing(json!("4.57.0")),
        "auto_map" => Nothing(json!({"AutoModelForCausalLM": "modeling_other.OtherForCausalLM"})),
        // Other tasks.
        "id2label" | "label2id" => Nothing(json!({})),
        "problem_type" => Nothing(json!("regression")),
        "vision_aspect_ratio" | "vision_feature_layer" | "vision_feature_select_strategy" => Nothing(json!("default")),
        // The text before and after, which is no matter of the model's numbers.
        "bos_token_id" | "eos_token_id" | "pad_token_id" => Nothing(json!(7)),
        _ => return None,
    })
}

/// Keys that the other implementation understands beside the fields of its classes.
const BESIDE_THE_FIELDS: [&str; 13] = [
    "attention_bias",
    "clip_qkv",
    "decoder_sparse_step",
    "head_dim",
    "layer_types",
    "max_window_layers",
    "mlp_bias",
    "partial_rotary_factor",
    "per_layer_config",
    "rope_scaling",
    "sliding_window",
    "torch_dtype",
    "use_sliding_window",
];

/// A model in which every option of its architecture can be seen to be on or off.
fn model(architecture: &str) -> Value {
    let mut config = json!({
        "architectures": [architecture], "vocab_size": 96, "hidden_size": 64, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 16, "hidden_act": "silu", "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "rope_theta": 100.0,
    });
    let own = match architecture {
        MISTRAL => json!({"sliding_window": 9}),
        QWEN2 | QWEN3 => {
            json!({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 1})
        }
        QWEN3_MOE => json!({"use_sliding_window": true, "sliding_window": 9, "num_experts": 4,
            "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
        MIXTRAL => json!({"sliding_window": 9, "num_local_experts": 4, "num_experts_per_tok": 2}),
        OLMOE => json!({"num_experts": 4, "num_experts_per_tok": 2}),
        _ => json!({}),
    };
    for (key, value) in own.as_object().expect("an object") {
        config[key] = value.clone();
    }
    config
}

fn read(config: &Value) -> Result<ModelConfig, String> {
    ModelConfig::from_hub_json(Path::new("config.json"), &config.to_string()).map_err(|e| e.to_string())
}

/// By architecture: what each field is where it is left out, and the names that models ask for.
fn fields() -> Vec<(String, Value)> {
    let fields = support::json(&models().join("options/fields.json"));
    let all: Vec<_> = fields.as_object().expect("an object").clone().into_iter().collect();
    assert_eq!(all.len(), 7);
    all
}

#[test]
fn every_key_counts_or_makes_no_difference_or_is_refused_by_name() {
    let mut faults = Vec::new();
    for (architecture, known) in fields() {
        let config = model(&architecture);
        let usual = read(&config).unwrap_or_else(|e| panic!("{architecture}: {e}"));
        let mut keys: BTreeSet<&str> = BESIDE_THE_FIELDS.into();
        keys.extend(known["left_out"].as_object().expect("an object").keys().map(String::as_str));
        keys.extend(known["read"].as_array().expect("a list").iter().filter_map(Value::as_str));
        keys.remove("architectures");
        for key in keys {
            let Some(effect) = effect(&architecture, key) else {
                faults.push(format!("{architecture}: {key} is in no list"));
                continue;
            };
            let (Counts(value) | Nothing(value) | Refused(value)) = &effect;
            let mut changed = config.clone();
            changed[key] = value.clone();
            let got = read(&changed);
            let is_right = match (&effect, &got) {
                (Counts(_), Ok(got)) => *got != usual,
                (Nothing(_), Ok(got)) => *got == usual,
                (Refused(_), Err(error)) => error.contains(key),
                _ => false,
            };
            if !is_right {
                let wanted = match effect {
                    Counts(_) => "counts",
                    Nothing(_) => "makes no difference",
                    Refused(_) => "is refused by name",
                };
                faults.push(format!("{architecture}: {key} = {value} {wanted}, but: {got:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_key_that_is_left_out_means_what_the_other_implementation_means_or_is_missed() {
    let mut faults = Vec::new();
    for (architecture, known) in fields() {
        for (key, usual) in known["left_out"].as_object().expect("an object") {
            if key == "architectures" {
                continue;
            }
            let mut without = model(&architecture);
            without.as_object_mut().expect("an object").remove(key);
            let mut with = without.clone();
            with[key] = usual.clone();
            match (read(&without), read(&with)) {
                (Ok(without), Ok(with)) if without == with => {}
                (Err(error), _) if error.contains("missing field") && error.contains(key.as_str()) => {}
                (without, with) => faults.push(format!(
                    "{architecture} without {key}: {without:?}\n{architecture} with {key} = {usual}: {with:?}"
                )),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn tokens_that_begin_and_end_a_text_are_those_of_the_other_implementation_where_they_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = |config: &Value| {
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
        let checkpoint = Checkpoint::open(folder.path(), LoadFormat::Dummy).unwrap_or_else(|error| panic!("{error}"));
        (checkpoint.begin_token_id(), checkpoint.stop_token_ids().to_vec())
    };
    for (architecture, known) in fields() {
        let id = |key: &str| known["left_out"][key].as_u64().map(|id| u32::try_from(id).expect("an id"));
        let mut config = model(&architecture);
        assert_eq!(opened(&config), (id("bos_token_id"), id("eos_token_id").into_iter().collect()), "{architecture}");
        // What is written counts, and it may be that there is none.
        (config["bos_token_id"], config["eos_token_id"]) = (json!(7), json!([8, 9]));
        assert_eq!(opened(&config), (Some(7), vec![8, 9]), "{architecture}");
        (config["bos_token_id"], config["eos_token_id"]) = (json!(null), json!(null));
        assert_eq!(opened(&config), (None, vec![]), "{architecture}");
    }
}
