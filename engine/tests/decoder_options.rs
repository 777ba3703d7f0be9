//! Options of models that the small ones with references do not have, against a decoder in double precision.
//!
//! That decoder is first held against the references of another implementation, so that what it says of the options counts.

mod support;

use std::path::Path;

use engine::runner::Logits;
use serde_json::{Value, json};
use support::oracle::Oracle;
use support::{floats, gguf, ids, json, models, open, runner};
use tempfile::TempDir;

const TOLERANCE: f64 = 2e-4;
/// A change of configuration that moves no logit by this much would not be noticed.
const NOTICED: f64 = 20.0 * TOLERANCE;
const PROMPT: usize = 40;

#[test]
fn the_oracle_agrees_with_the_references_of_another_implementation() {
    for model in support::MODELS {
        let path = models().join(model);
        let prompt = ids(&json(&path.join("reference.json"))["prompt_ids"]);
        let want = floats(&path.join("reference.safetensors"), "prompt_logits");
        let got = Oracle::open(&path).logits(&prompt);
        assert_eq!(got.len(), want.len(), "{model}");
        let worst = got.iter().zip(&want).map(|(got, want)| (got - f64::from(*want)).abs()).fold(0.0, f64::max);
        assert!(worst <= TOLERANCE, "{model}: off by {worst}");
    }
}

/// A configuration, and changes of it that have to be noticed.
struct Case {
    config: Value,
    /// Whether the metadata of GGUF files can say it.
    in_gguf: bool,
    noticed: Vec<(&'static str, Value)>,
}

/// What all cases share, with `changes` over it.
fn case(architecture: &str, changes: &Value, noticed: Vec<(&'static str, Value)>) -> Case {
    let mut config = json!({
        "vocab_size": 48, "hidden_size": 40, "intermediate_size": 28, "num_hidden_layers": 4,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "max_position_embeddings": 256, "tie_word_embeddings": false, "rope_theta": 100.0,
    });
    config["architectures"] = json!([architecture]);
    for (key, value) in changes.as_object().expect("an object") {
        config[key] = value.clone();
    }
    Case { config, in_gguf: false, noticed }
}

impl Case {
    fn also_in_gguf(self) -> Self {
        Self { in_gguf: true, ..self }
    }
}

fn cases() -> Vec<Case> {
    let default_rope = || json!({"rope_type": "default"});
    let full = || json!(vec!["full_attention"; 4]);
    let mixed = json!(["sliding_attention", "full_attention", "sliding_attention", "full_attention"]);
    vec![
        // Every projection with a bias, seven query heads for each key head, heads of 20.
        case(
            "LlamaForCausalLM",
            &json!({"attention_bias": true, "mlp_bias": true, "num_attention_heads": 7, "num_key_value_heads": 1,
                "head_dim": 20, "rope_scaling": {"type": "linear", "factor": 4.0}}),
            vec![("rope_scaling", default_rope())],
        )
        .also_in_gguf(),
        case(
            "LlamaForCausalLM",
            &json!({"head_dim": 6, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": true,
                "rope_parameters": {"rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
            vec![("rope_parameters", default_rope())],
        )
        .also_in_gguf(),
        case(
            "MistralForCausalLM",
            &json!({"sliding_window": 5, "rope_scaling": {"type": "yarn", "rope_type": "yarn", "factor": 4.0,
                "original_max_position_embeddings": 64, "beta_fast": 8.0}}),
            vec![("sliding_window", Value::Null), ("sliding_window", json!(6)), ("rope_scaling", default_rope())],
        )
        .also_in_gguf(),
        case("MistralForCausalLM", &json!({"sliding_window": 7, "layer_types": mixed}), vec![("layer_types", full())]),
        case(
            "Qwen2ForCausalLM",
            &json!({"sliding_window": 6, "use_sliding_window": true, "max_window_layers": 3, "head_dim": 10,
                "rope_parameters": {"rope_type": "yarn", "rope_theta": 300.0, "factor": 8.0, "truncate": false,
                    "beta_slow": 2.0, "original_max_position_embeddings": 96, "mscale": 2.0, "mscale_all_dim": 0.5}}),
            vec![("max_window_layers", json!(4)), ("max_window_layers", json!(2)), ("rope_parameters", default_rope())],
        ),
        case(
            "Qwen3ForCausalLM",
            &json!({"attention_bias": true, "sliding_window": 4, "use_sliding_window": true, "layer_types": mixed,
                "rope_parameters": {"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.4}}),
            vec![("layer_types", full()), ("rope_parameters", default_rope())],
        ),
        // Dense layers among sparse ones, weights that are not renormalised.
        case(
            "Qwen3MoeForCausalLM",
            &json!({"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 14, "norm_topk_prob": false,
                "decoder_sparse_step": 2, "mlp_only_layers": [3], "attention_bias": true}),
            vec![("norm_topk_prob", json!(true)), ("num_experts_per_tok", json!(2))],
        ),
        case(
            "Qwen3MoeForCausalLM",
            &json!({"num_local_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 10, "norm_topk_prob": true,
                "decoder_sparse_step": 1, "mlp_only_layers": [0, 2], "sliding_window": 8, "use_sliding_window": true}),
            vec![("norm_topk_prob", json!(false)), ("use_sliding_window", json!(false))],
        ),
        case(
            "MixtralForCausalLM",
            &json!({"num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 9, "tie_word_embeddings": true}),
            vec![("sliding_window", Value::Null), ("num_experts_per_tok", json!(1))],
        )
        .also_in_gguf(),
        // Clipped, renormalised, and fewer key heads than query heads under norms across heads.
        case(
            "OlmoeForCausalLM",
            &json!({"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": true, "clip_qkv": 0.7, "head_dim": null,
                "num_attention_heads": 4, "num_key_value_heads": 2, "attention_bias": true}),
            vec![("clip_qkv", Value::Null), ("norm_topk_prob", json!(false))],
        )
        .also_in_gguf(),
    ]
}

/// Numbers in `-1..1`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// The tensors of a model, by the layout of hubs, and their shapes.
fn tensors(config: &Value) -> Vec<(String, Vec<usize>)> {
    let size = |key: &str| config[key].as_u64().map(|size| size as usize);
    let need = |key: &str| size(key).unwrap_or_else(|| panic!("no {key}"));
    let architecture = config["architectures"][0].as_str().expect("a name");
    let (hidden, heads) = (need("hidden_size"), need("num_attention_heads"));
    let head_dim = size("head_dim").unwrap_or(hidden / heads);
    let (query, key) = (heads * head_dim, need("num_key_value_heads") * head_dim);
    let mut all = vec![
        ("model.embed_tokens.weight".to_owned(), vec![need("vocab_size"), hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    if config["tie_word_embeddings"] != true {
        all.push(("lm_head.weight".to_owned(), vec![need("vocab_size"), hidden]));
    }
    for layer in 0..need("num_hidden_layers") {
        let mut add =
            |name: String, shape: &[usize]| all.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
        add("input_layernorm.weight".into(), &[hidden]);
        add("post_attention_layernorm.weight".into(), &[hidden]);
        let biased =
            |kind: &str| config["attention_bias"] == true || (architecture == "Qwen2ForCausalLM" && kind != "o");
        for (kind, rows, columns) in
            [("q", query, hidden), ("k", key, hidden), ("v", key, hidden), ("o", hidden, query)]
        {
            add(format!("self_attn.{kind}_proj.weight"), &[rows, columns]);
            if biased(kind) {
                add(format!("self_attn.{kind}_proj.bias"), &[rows]);
            }
        }
        let norms = match architecture {
            "OlmoeForCausalLM" => Some((query, key)),
            name if name.starts_with("Qwen3") => Some((head_dim, head_dim)),
            _ => None,
        };
        if let Some((query, key)) = norms {
            add("self_attn.q_norm.weight".into(), &[query]);
            add("self_attn.k_norm.weight".into(), &[key]);
        }
        let experts = size("num_experts").or(size("num_local_experts")).unwrap_or(0);
        let is_qwen = architecture == "Qwen3MoeForCausalLM";
        let step = size("decoder_sparse_step").unwrap_or(1);
        let dense = config["mlp_only_layers"].as_array().is_some_and(|layers| layers.contains(&layer.into()));
        if experts > 0 && (layer + 1).is_multiple_of(step) && !dense {
            let inner = if is_qwen { need("moe_intermediate_size") } else { need("intermediate_size") };
            let (block, names) = match architecture {
                "MixtralForCausalLM" => ("block_sparse_moe", ["w1", "w3", "w2"]),
                _ => ("mlp", ["gate_proj", "up_proj", "down_proj"]),
            };
            add(format!("{block}.gate.weight"), &[experts, hidden]);
            for expert in 0..experts {
                for (name, shape) in names.iter().zip([[inner, hidden], [inner, hidden], [hidden, inner]]) {
                    add(format!("{block}.experts.{expert}.{name}.weight"), &shape);
                }
            }
        } else {
            let inner = need("intermediate_size");
            for (name, shape) in [("gate", [inner, hidden]), ("up", [inner, hidden]), ("down", [hidden, inner])] {
                add(format!("mlp.{name}_proj.weight"), &shape);
                if config["mlp_bias"] == true {
                    add(format!("mlp.{name}_proj.bias"), &shape[..1]);
                }
            }
        }
    }
    all
}

/// A folder with the configuration, weights of about the size that trained ones have, and some vocabulary.
fn write_model(config: &Value, seed: u64) -> TempDir {
    eprintln!("weights from seed {seed:#x}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random(seed);
    let mut header = json!({});
    let mut data = Vec::new();
    for (name, shape) in tensors(config) {
        let (middle, spread) = match name.as_str() {
            name if name.contains("norm") => (1.0, 0.3),
            name if name.ends_with("bias") => (0.0, 0.4),
            "model.embed_tokens.weight" => (0.0, 1.0),
            _ => (0.0, 2.5 / (shape[1] as f64).sqrt()),
        };
        let start = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            data.extend(((middle + spread * random.next()) as f32).to_le_bytes());
        }
        header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
    }
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    let vocabulary = models().join("llama/tokenizer.json");
    std::fs::copy(vocabulary, folder.path().join("tokenizer.json")).expect("copied");
    folder
}

fn engine_logits(folder: &Path, prompt: &[u32], page_size: usize, chunk: usize) -> Vec<f32> {
    let mut runner = runner(&open(folder), page_size, chunk);
    let mut sequence = runner.start();
    let logits = runner.extend(&mut sequence, prompt, Logits::All).expect("there is room");
    runner.release(sequence).expect("it held its pages");
    logits
}

fn worst(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(got, want)| (got - want).abs()).fold(0.0, f64::max)
}

#[test]
fn every_option_gives_the_logits_of_a_decoder_in_double_precision() {
    for (index, Case { config, in_gguf, noticed }) in cases().into_iter().enumerate() {
        let folder = write_model(&config, 0x6f70_7431 + index as u64);
        let oracle = Oracle::open(folder.path());
        let mut random = Random(index as u64);
        let prompt: Vec<u32> = (0..PROMPT).map(|_| (random.next().abs() * 47.0) as u32).collect();
        let want = oracle.logits(&prompt);
        for (page_size, chunk) in [(16, 512), (3, 7), (1, 1)] {
            let got: Vec<f64> =
                engine_logits(folder.path(), &prompt, page_size, chunk).into_iter().map(f64::from).collect();
            let off = worst(&got, &want);
            assert!(off <= TOLERANCE, "pages of {page_size}, chunks of {chunk}: off by {off} with {config:#}");
        }
        if in_gguf {
            let path = folder.path().join("model.gguf");
            std::fs::write(&path, gguf::from_folder(folder.path())).expect("written");
            let got: Vec<f64> = engine_logits(&path, &prompt, 16, 512).into_iter().map(f64::from).collect();
            let off = worst(&got, &want);
            assert!(off <= TOLERANCE, "as a GGUF file: off by {off} with {config:#}");
        }
        for (key, value) in noticed {
            let moved = worst(&oracle.with(key, value.clone()).logits(&prompt), &want);
            assert!(moved > NOTICED, "{key} = {value} moves logits by {moved} only, from {config:#}");
        }
    }
}
