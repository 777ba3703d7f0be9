//! Options of models in any mixture, against a decoder in double precision.
//!
//! That decoder is first held against the references of another implementation, one option at a time, so that what it says of
//! mixtures counts.

mod support;

use std::path::Path;

use engine::runner::Logits;
use engine::sampling;
use serde_json::{Value, json};
use support::oracle::Oracle;
use support::safetensors::floats;
use support::{families_and_options, folder_with, gguf, ids, json, models, open, runner, safetensors};
use tempfile::TempDir;

const TOLERANCE: f64 = 2e-4;
const PROMPT: usize = 40;
const VOCABULARY: usize = 48;
const MIXTURES: u64 = 28;
const SEED: u64 = 0x6f70_7431;

#[test]
fn the_oracle_agrees_with_the_references_of_another_implementation() {
    for model in families_and_options() {
        let path = models().join(&model);
        let prompt = ids(&json(&path.join("reference.json"))["prompt_ids"]);
        let want = floats(&path.join("reference.safetensors"), "prompt_logits");
        let got = Oracle::open(&path).logits(&prompt);
        assert_eq!(got.len(), want.len(), "{model}");
        let worst = got.iter().zip(&want).map(|(got, want)| (got - f64::from(*want)).abs()).fold(0.0, f64::max);
        assert!(worst <= TOLERANCE, "{model}: off by {worst}");
    }
}

/// Numbers from a seed.
struct Random(sampling::Random);

impl Random {
    /// In `-1..1`.
    fn number(&mut self) -> f64 {
        (self.0.bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn size(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + self.0.bits() % (range.end() - range.start() + 1)
    }

    fn flag(&mut self) -> bool {
        self.0.bits() & 1 == 1
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.size(0..=all.len() as u64 - 1) as usize].clone()
    }
}

const ARCHITECTURES: [&str; 7] = [
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "MixtralForCausalLM",
    "OlmoeForCausalLM",
];

/// A configuration with any of the options that its architecture may have.
fn mixture(architecture: &str, random: &mut Random) -> Value {
    let layers = random.size(1..=4);
    let kv_heads = random.size(1..=3);
    let heads = kv_heads * random.size(1..=5);
    let head_dim = 2 * random.size(2..=11);
    let is_olmoe = architecture == "OlmoeForCausalLM";
    let hidden = if is_olmoe { heads * head_dim } else { random.size(9..=48) };
    let mut config = json!({
        "architectures": [architecture], "vocab_size": VOCABULARY, "hidden_size": hidden, "hidden_act": "silu",
        "intermediate_size": random.size(5..=40), "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 256,
        "rms_norm_eps": random.one_of(&[1e-6, 1e-5, 1e-2]), "tie_word_embeddings": random.flag(),
        "rope_theta": random.one_of(&[50.0, 1e4, 1e6]),
    });
    let spelling = random.one_of(&["rope_scaling", "rope_parameters"]);
    config[spelling] = rope(random);
    let own: &[&str] = match architecture {
        "LlamaForCausalLM" => &["attention_bias", "mlp_bias"],
        "Qwen3ForCausalLM" | "Qwen3MoeForCausalLM" | "OlmoeForCausalLM" => &["attention_bias"],
        _ => &[],
    };
    for key in own {
        config[key] = random.flag().into();
    }
    windows(architecture, random, layers, &mut config);
    let experts = random.size(2..=6);
    let chosen = random.size(1..=experts);
    match architecture {
        "Qwen3MoeForCausalLM" => {
            config["num_experts"] = experts.into();
            config["moe_intermediate_size"] = random.size(5..=20).into();
            config["decoder_sparse_step"] = random.size(1..=2).into();
            config["mlp_only_layers"] = random.one_of(&[json!([]), json!([0]), json!([1, 3])]);
        }
        "MixtralForCausalLM" => config["num_local_experts"] = experts.into(),
        "OlmoeForCausalLM" => {
            config["num_experts"] = experts.into();
            config["clip_qkv"] = random.one_of(&[Value::Null, json!(0.7)]);
        }
        _ => return config,
    }
    config["num_experts_per_tok"] = chosen.into();
    if architecture != "MixtralForCausalLM" {
        config["norm_topk_prob"] = random.flag().into();
    }
    config
}

fn windows(architecture: &str, random: &mut Random, layers: u64, config: &mut Value) {
    let window = random.size(1..=12);
    match architecture {
        "MistralForCausalLM" | "MixtralForCausalLM" => {
            config["sliding_window"] = random.one_of(&[Value::Null, window.into()]);
        }
        "Qwen2ForCausalLM" | "Qwen3ForCausalLM" | "Qwen3MoeForCausalLM" => {
            config["sliding_window"] = window.into();
            config["use_sliding_window"] = random.flag().into();
        }
        _ => {}
    }
    let is_on = match config.get("use_sliding_window") {
        Some(switch) => *switch == true,
        None => config["sliding_window"].is_u64(),
    };
    let is_by_layer = ["MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"].contains(&architecture);
    if is_by_layer && is_on && random.flag() {
        let types = (0..layers).map(|_| random.one_of(&["sliding_attention", "full_attention"]));
        config["layer_types"] = types.collect();
    } else if architecture.starts_with("Qwen") && architecture != "Qwen3MoeForCausalLM" {
        config["max_window_layers"] = random.size(0..=layers).into();
    }
}

fn rope(random: &mut Random) -> Value {
    let factor = random.one_of(&[2.0, 3.5, 8.0]);
    let original = random.one_of(&[8, 32, 200]);
    match random.size(0..=4) {
        0 => Value::Null,
        1 => json!({"type": "linear", "factor": factor}),
        2 => json!({"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": original}),
        _ => {
            let mut yarn = json!({"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original});
            for (key, value) in [
                ("beta_fast", json!(6.0)),
                ("beta_slow", json!(2.0)),
                ("truncate", json!(false)),
                ("mscale", json!(2.0)),
                ("mscale_all_dim", json!(0.5)),
                ("attention_factor", json!(1.25)),
            ] {
                if random.size(0..=3) == 0 {
                    yarn[key] = value;
                }
            }
            yarn
        }
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
fn write_model(config: &Value, random: &mut Random) -> TempDir {
    let folder = folder_with("llama", &["tokenizer.json"]);
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
            data.extend(((middle + spread * random.number()) as f32).to_le_bytes());
        }
        header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
    }
    safetensors::write(&folder.path().join("model.safetensors"), &header, &data);
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
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
fn any_mixture_of_options_gives_the_logits_of_a_decoder_in_double_precision() {
    let mut in_gguf = 0;
    for index in 0..MIXTURES {
        let seed = SEED + index;
        eprintln!("seed {seed:#x}");
        let mut random = Random(sampling::Random::new(seed));
        let architecture = ARCHITECTURES[index as usize % ARCHITECTURES.len()];
        let config = mixture(architecture, &mut random);
        let folder = write_model(&config, &mut random);
        let prompt: Vec<u32> = (0..PROMPT).map(|_| random.size(0..=VOCABULARY as u64 - 1) as u32).collect();
        let want = Oracle::open(folder.path()).logits(&prompt);
        for (page_size, chunk) in [(16, 512), (3, 7), (1, 1)] {
            let got: Vec<f64> =
                engine_logits(folder.path(), &prompt, page_size, chunk).into_iter().map(f64::from).collect();
            let off = worst(&got, &want);
            assert!(off <= TOLERANCE, "pages of {page_size}, chunks of {chunk}: off by {off} with {config:#}");
        }
        if gguf::can_say(&config) {
            in_gguf += 1;
            let path = folder.path().join("model.gguf");
            std::fs::write(&path, gguf::from_folder(folder.path())).expect("written");
            let got: Vec<f64> = engine_logits(&path, &prompt, 16, 512).into_iter().map(f64::from).collect();
            let off = worst(&got, &want);
            assert!(off <= TOLERANCE, "as a GGUF file: off by {off} with {config:#}");
        }
    }
    assert!(in_gguf > 5, "{in_gguf} mixtures as GGUF files");
}
