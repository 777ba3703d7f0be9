//! Writing small GGUF files.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{json, safetensors};

/// A metadata value to be written.
pub(crate) enum Meta<'a> {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'a str),
    Texts(Vec<&'a str>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
}

/// A tensor to be written: dimensions slowest first, the format's type number, and its bytes.
pub(crate) struct TensorData {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

pub(crate) fn write(metadata: &[(&str, Meta<'_>)], tensors: &[TensorData]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        text(&mut out, key);
        let kind = |out: &mut Vec<u8>, kind: u32| out.extend(kind.to_le_bytes());
        match value {
            Meta::U32(n) => {
                kind(&mut out, 4);
                out.extend(n.to_le_bytes());
            }
            Meta::F32(x) => {
                kind(&mut out, 6);
                out.extend(x.to_le_bytes());
            }
            Meta::Bool(b) => {
                kind(&mut out, 7);
                out.push(u8::from(*b));
            }
            Meta::Text(t) => {
                kind(&mut out, 8);
                text(&mut out, t);
            }
            Meta::Texts(list) => {
                kind(&mut out, 9);
                kind(&mut out, 8);
                out.extend((list.len() as u64).to_le_bytes());
                for t in list {
                    text(&mut out, t);
                }
            }
            Meta::F32s(list) => {
                kind(&mut out, 9);
                kind(&mut out, 6);
                out.extend((list.len() as u64).to_le_bytes());
                for x in list {
                    out.extend(x.to_le_bytes());
                }
            }
            Meta::I32s(list) => {
                kind(&mut out, 9);
                kind(&mut out, 5);
                out.extend((list.len() as u64).to_le_bytes());
                for n in list {
                    out.extend(n.to_le_bytes());
                }
            }
        }
    }
    let mut offset = 0_u64;
    for tensor in tensors {
        text(&mut out, &tensor.name);
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|size| out.extend(size.to_le_bytes()));
        out.extend(tensor.kind.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += (tensor.bytes.len() as u64).next_multiple_of(32);
    }
    for tensor in tensors {
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&tensor.bytes);
    }
    out
}

/// A folder's model as a GGUF file of float32 tensors, laid out as the format has its architecture.
pub(crate) fn from_folder(folder: &Path) -> Vec<u8> {
    let config = json(&folder.join("config.json"));
    with_tensors(&config, &json(&folder.join("tokenizer.json")), &tensors(folder, &config))
}

/// The same with those matrices in blocks whose rows can be: `kind` says of which type those of a name are, by the format's number, or leaves them as they
/// are. It knows `Q4_0`, `Q4_1` and `Q8_0`.
pub(crate) fn in_blocks(folder: &Path, kind: impl Fn(&str) -> Option<u32>) -> Vec<u8> {
    let config = json(&folder.join("config.json"));
    let mut all = tensors(folder, &config);
    // Rows are whole blocks.
    let is_matrix =
        |tensor: &&mut TensorData| tensor.shape.len() > 1 && tensor.shape.last().is_some_and(|n| n % 32 == 0);
    for tensor in all.iter_mut().filter(is_matrix) {
        if let Some(kind) = kind(&tensor.name) {
            let numbers: Vec<f32> =
                tensor.bytes.as_chunks().0.iter().map(|&number| f32::from_le_bytes(number)).collect();
            tensor.bytes = numbers.as_chunks().0.iter().flat_map(|block| quantised(block, kind)).collect();
            tensor.kind = kind;
        }
    }
    with_tensors(&config, &json(&folder.join("tokenizer.json")), &all)
}

/// A block of about these numbers. Its scale is a power of two, so that half precision has it exactly.
fn quantised(numbers: &[f32; 32], kind: u32) -> Vec<u8> {
    let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let most = if kind == 8 { 127.0 } else { 7.0 };
    let power = (largest / most).log2().ceil().max(-14.0);
    let half = |power: f32| ((power as i32 + 15) as u16) << 10;
    let codes = numbers.map(|number| (number / power.exp2()).round() as i8);
    let mut bytes = half(power).to_le_bytes().to_vec();
    if kind == 8 {
        bytes.extend(codes.map(i8::cast_unsigned));
        return bytes;
    }
    if kind == 3 {
        // The least number that there is a code for: eight times the scale below zero.
        bytes.extend((half(power + 3.0) | 0x8000).to_le_bytes());
    }
    let nibble = |code: i8| (code + 8) as u8;
    bytes.extend((0..16).map(|i| nibble(codes[i]) | nibble(codes[i + 16]) << 4));
    bytes
}

/// A model of tensors with the format's names, its configuration and vocabulary as folders have them.
pub(crate) fn with_tensors(config: &Value, tokenizer: &Value, tensors: &[TensorData]) -> Vec<u8> {
    let number = |key: &str| config[key].as_u64().map(|number| Meta::U32(number as u32));
    let mut tokens: Vec<(u64, &str)> = tokenizer["model"]["vocab"]
        .as_object()
        .expect("a vocabulary")
        .iter()
        .map(|(token, id)| (id.as_u64().expect("an id"), token.as_str()))
        .chain(added(tokenizer))
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    let special: Vec<u64> = added(tokenizer).map(|(id, _)| id).collect();
    let types = tokens.iter().map(|(id, _)| if special.contains(id) { 3 } else { 1 }).collect();
    let merges: Vec<String> = tokenizer["model"]["merges"]
        .as_array()
        .expect("merges")
        .iter()
        .map(|pair| format!("{} {}", pair[0].as_str().expect("text"), pair[1].as_str().expect("text")))
        .collect();
    let name = gguf_architecture(config);
    let own = model_metadata(config);
    let keys: Vec<String> = own.iter().map(|(key, _)| format!("{name}.{key}")).collect();
    let mut metadata = vec![("general.architecture", Meta::Text(name))];
    metadata.extend(keys.iter().map(String::as_str).zip(own.into_iter().map(|(_, value)| value)));
    metadata.extend([
        ("tokenizer.ggml.model", Meta::Text("gpt2")),
        ("tokenizer.ggml.pre", Meta::Text("smollm")),
        ("tokenizer.ggml.tokens", Meta::Texts(tokens.iter().map(|(_, token)| *token).collect())),
        ("tokenizer.ggml.token_type", Meta::I32s(types)),
        ("tokenizer.ggml.merges", Meta::Texts(merges.iter().map(String::as_str).collect())),
    ]);
    metadata.extend(number("eos_token_id").map(|id| ("tokenizer.ggml.eos_token_id", id)));
    if let Some(id) = number("bos_token_id") {
        metadata.extend([("tokenizer.ggml.bos_token_id", id), ("tokenizer.ggml.add_bos_token", Meta::Bool(true))]);
    }
    write(&metadata, tensors)
}

/// Whether the format has keys for all that a configuration says.
pub(crate) fn can_say(config: &Value) -> bool {
    let is_null = |key: &str| config[key].is_null();
    let rope_keys = [
        "type",
        "rope_type",
        "rope_theta",
        "factor",
        "beta_fast",
        "beta_slow",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ];
    let rope = rope(config);
    let can_say_rope = rope.as_object().is_none_or(|all| all.keys().all(|key| rope_keys.contains(&key.as_str())))
        && (rope["rope_type"] != "yarn" && rope["type"] != "yarn" || rope["original_max_position_embeddings"].is_u64())
        && is_null("original_max_position_embeddings")
        && (is_null("rope_parameters") || is_null("rope_scaling"))
        && (config["rope_theta"].is_number() || rope["rope_theta"].is_number());
    let is_qwen = config["architectures"][0].as_str().is_some_and(|name| name.starts_with("Qwen"));
    let has_one_window = is_null("layer_types") && (!is_qwen || is_null("sliding_window"));
    let has_experts_everywhere = (is_null("decoder_sparse_step") || config["decoder_sparse_step"] == 1)
        && config["mlp_only_layers"].as_array().is_none_or(Vec::is_empty)
        && config["num_experts"] != 0;
    let leaves_nothing_out = config["num_key_value_heads"].is_u64()
        && (config["architectures"][0] != "Qwen3ForCausalLM" || config["head_dim"].is_u64());
    can_say_rope && has_one_window && has_experts_everywhere && leaves_nothing_out
}

/// Mistral and Mixtral go under the name of Llama.
fn gguf_architecture(config: &Value) -> &'static str {
    match config["architectures"][0].as_str().expect("a name") {
        "Qwen2ForCausalLM" => "qwen2",
        "Qwen3ForCausalLM" => "qwen3",
        "Qwen3MoeForCausalLM" => "qwen3moe",
        "OlmoeForCausalLM" => "olmoe",
        _ => "llama",
    }
}

fn head_dim(config: &Value) -> u64 {
    let size = |key: &str| config[key].as_u64();
    size("head_dim")
        .unwrap_or_else(|| size("hidden_size").expect("a size") / size("num_attention_heads").expect("a number"))
}

/// The parameters of rotary positions, in either form.
fn rope(config: &Value) -> &Value {
    let forms = [&config["rope_parameters"], &config["rope_scaling"]];
    forms.into_iter().find(|form| form.is_object()).unwrap_or(&Value::Null)
}

fn rope_theta(config: &Value) -> f64 {
    rope(config)["rope_theta"].as_f64().or(config["rope_theta"].as_f64()).expect("a number")
}

/// The keys that describe the model, without the name of the architecture before them.
fn model_metadata(config: &Value) -> Vec<(&'static str, Meta<'static>)> {
    let mut all = Vec::new();
    for (key, hub_key) in [
        ("block_count", "num_hidden_layers"),
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.sliding_window", "sliding_window"),
        ("vocab_size", "vocab_size"),
        ("expert_count", "num_experts"),
        ("expert_count", "num_local_experts"),
        ("expert_used_count", "num_experts_per_tok"),
        ("expert_feed_forward_length", "moe_intermediate_size"),
    ] {
        all.extend(config[hub_key].as_u64().map(|number| (key, Meta::U32(number as u32))));
    }
    let head_dim = head_dim(config) as u32;
    all.push(("attention.key_length", Meta::U32(head_dim)));
    all.push(("attention.value_length", Meta::U32(head_dim)));
    all.push(("rope.freq_base", Meta::F32(rope_theta(config) as f32)));
    let float = |value: &Value| value.as_f64().map(|number| Meta::F32(number as f32));
    all.extend(float(&config["rms_norm_eps"]).map(|eps| ("attention.layer_norm_rms_epsilon", eps)));
    all.extend(float(&config["clip_qkv"]).map(|limit| ("attention.clamp_kqv", limit)));
    all.extend(
        config["norm_topk_prob"].as_bool().map(|renormalised| ("expert_weights_norm", Meta::Bool(renormalised))),
    );
    let rope = rope(config);
    let kind = match rope["type"].as_str().or(rope["rope_type"].as_str()) {
        Some("linear") => "linear",
        Some("yarn") => "yarn",
        _ => return all,
    };
    all.push(("rope.scaling.type", Meta::Text(kind)));
    all.extend(float(&rope["factor"]).map(|factor| ("rope.scaling.factor", factor)));
    all.extend(float(&rope["beta_fast"]).map(|beta| ("rope.scaling.yarn_beta_fast", beta)));
    all.extend(float(&rope["beta_slow"]).map(|beta| ("rope.scaling.yarn_beta_slow", beta)));
    let context = rope["original_max_position_embeddings"].as_u64();
    all.extend(context.map(|context| ("rope.scaling.original_context_length", Meta::U32(context as u32))));
    all
}

fn added(tokenizer: &Value) -> impl Iterator<Item = (u64, &str)> {
    let tokens = tokenizer["added_tokens"].as_array().expect("added tokens");
    tokens.iter().map(|token| (token["id"].as_u64().expect("an id"), token["content"].as_str().expect("text")))
}

fn tensors(folder: &Path, config: &Value) -> Vec<TensorData> {
    let (header, data) = safetensors::read(&folder.join("model.safetensors"));
    let mut tensors: Vec<TensorData> = rope_divisors(config).into_iter().collect();
    // By name and number of the expert; together they are one tensor.
    let mut experts: BTreeMap<String, BTreeMap<usize, TensorData>> = BTreeMap::new();
    for (name, entry) in safetensors::tensors(&header) {
        let shape: Vec<u64> = serde_json::from_value(entry["shape"].clone()).expect("a shape");
        let data = safetensors::bytes(entry, &data);
        let mut values: Vec<[u8; 4]> = match entry["dtype"].as_str() {
            // A bfloat16 number is the upper half of a float32 number.
            Some("BF16") => data.as_chunks::<2>().0.iter().map(|&[low, high]| [0, 0, low, high]).collect(),
            Some("F32") => data.as_chunks::<4>().0.to_vec(),
            other => panic!("{other:?}"),
        };
        if gguf_architecture(config) == "llama" && (name.contains("q_proj") || name.contains("k_proj")) {
            let columns = shape.get(1).copied().unwrap_or(1) as usize;
            values = interleaved(&values, columns, head_dim(config) as usize);
        }
        let (name, expert) = gguf_name(name);
        let tensor = TensorData { name: name.clone(), shape, kind: 0, bytes: values.concat() };
        match expert {
            Some(expert) => assert!(experts.entry(name).or_default().insert(expert, tensor).is_none()),
            None => tensors.push(tensor),
        }
    }
    tensors.extend(experts.into_iter().map(|(name, each)| {
        let mut shape = vec![each.len() as u64];
        shape.extend(&each[&0].shape);
        TensorData { name, shape, kind: 0, bytes: each.into_values().flat_map(|tensor| tensor.bytes).collect() }
    }));
    tensors
}

/// What frequencies are divided by, where the model stretches them as Llama 3 does: the format has no keys for that.
fn rope_divisors(config: &Value) -> Option<TensorData> {
    let rope = Some(rope(config)).filter(|rope| rope["rope_type"] == "llama3")?;
    let number = |key: &str| rope[key].as_f64().expect("a number");
    let context = number("original_max_position_embeddings");
    let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
    let theta = rope_theta(config);
    let size = head_dim(config);
    let divisor = |pair: u64| {
        let wavelength = std::f64::consts::TAU * theta.powf(2.0 * pair as f64 / size as f64);
        let kept = ((context / wavelength - low) / (high - low)).clamp(0.0, 1.0);
        1.0 / (kept + (1.0 - kept) / number("factor"))
    };
    let bytes = (0..size / 2).flat_map(|pair| (divisor(pair) as f32).to_le_bytes()).collect();
    Some(TensorData { name: "rope_freqs.weight".into(), shape: vec![size / 2], kind: 0, bytes })
}

/// Within each head, row `j` of either half goes to row `2 j`, or `2 j + 1` for the second half.
fn interleaved(values: &[[u8; 4]], columns: usize, head_dim: usize) -> Vec<[u8; 4]> {
    let rows: Vec<&[[u8; 4]]> = values.chunks_exact(columns).collect();
    let heads = rows.chunks_exact(head_dim);
    heads
        .flat_map(|head| {
            let (first, second) = head.split_at(head_dim / 2);
            first.iter().zip(second).flat_map(|(first, second)| [*first, *second])
        })
        .flatten()
        .copied()
        .collect()
}

/// The name, and for the tensor of one expert its number.
fn gguf_name(name: &str) -> (String, Option<usize>) {
    let replacements = [
        ("model.embed_tokens", "token_embd"),
        ("model.layers.", "blk."),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("mlp.gate.", "ffn_gate_inp."),
        ("block_sparse_moe.gate.", "ffn_gate_inp."),
    ];
    if let Some((block, rest)) = name.split_once(".experts.") {
        let (expert, part) = rest.split_once('.').expect("a number");
        let layer = block.split('.').nth(2).expect("a layer");
        let stem = match part {
            "gate_proj.weight" | "w1.weight" => "gate",
            "up_proj.weight" | "w3.weight" => "up",
            "down_proj.weight" | "w2.weight" => "down",
            other => panic!("{other}"),
        };
        return (format!("blk.{layer}.ffn_{stem}_exps.weight"), Some(expert.parse().expect("a number")));
    }
    (replacements.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to)), None)
}
