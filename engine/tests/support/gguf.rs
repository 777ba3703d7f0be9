//! Writing small GGUF files.

use std::path::Path;

use serde_json::Value;

use super::json;

/// A metadata value to be written.
pub(crate) enum Meta<'a> {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'a str),
    Texts(Vec<&'a str>),
    I32s(Vec<i32>),
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

/// A folder's llama model as a GGUF file of float32 tensors, its query and key rows interleaved as the format has them.
pub(crate) fn from_folder(folder: &Path) -> Vec<u8> {
    let config = json(&folder.join("config.json"));
    let number = |key: &str| config[key].as_u64().expect("a number") as u32;
    let tokenizer = json(&folder.join("tokenizer.json"));
    let mut tokens: Vec<(u64, &str)> = tokenizer["model"]["vocab"]
        .as_object()
        .expect("a vocabulary")
        .iter()
        .map(|(token, id)| (id.as_u64().expect("an id"), token.as_str()))
        .chain(added(&tokenizer))
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    let special: Vec<u64> = added(&tokenizer).map(|(id, _)| id).collect();
    let types = tokens.iter().map(|(id, _)| if special.contains(id) { 3 } else { 1 }).collect();
    let merges: Vec<String> = tokenizer["model"]["merges"]
        .as_array()
        .expect("merges")
        .iter()
        .map(|pair| format!("{} {}", pair[0].as_str().expect("text"), pair[1].as_str().expect("text")))
        .collect();
    let metadata = [
        ("general.architecture", Meta::Text("llama")),
        ("llama.block_count", Meta::U32(number("num_hidden_layers"))),
        ("llama.context_length", Meta::U32(number("max_position_embeddings"))),
        ("llama.embedding_length", Meta::U32(number("hidden_size"))),
        ("llama.feed_forward_length", Meta::U32(number("intermediate_size"))),
        ("llama.attention.head_count", Meta::U32(number("num_attention_heads"))),
        ("llama.attention.head_count_kv", Meta::U32(number("num_key_value_heads"))),
        ("llama.attention.layer_norm_rms_epsilon", Meta::F32(config["rms_norm_eps"].as_f64().expect("eps") as f32)),
        ("llama.rope.freq_base", Meta::F32(config["rope_theta"].as_f64().expect("theta") as f32)),
        ("tokenizer.ggml.model", Meta::Text("gpt2")),
        ("tokenizer.ggml.pre", Meta::Text("smollm")),
        ("tokenizer.ggml.tokens", Meta::Texts(tokens.iter().map(|(_, token)| *token).collect())),
        ("tokenizer.ggml.token_type", Meta::I32s(types)),
        ("tokenizer.ggml.merges", Meta::Texts(merges.iter().map(String::as_str).collect())),
        ("tokenizer.ggml.eos_token_id", Meta::U32(number("eos_token_id"))),
        ("tokenizer.ggml.bos_token_id", Meta::U32(number("bos_token_id"))),
        ("tokenizer.ggml.add_bos_token", Meta::Bool(true)),
    ];
    write(&metadata, &tensors(folder, number("head_dim") as usize))
}

fn added(tokenizer: &Value) -> impl Iterator<Item = (u64, &str)> {
    let tokens = tokenizer["added_tokens"].as_array().expect("added tokens");
    tokens.iter().map(|token| (token["id"].as_u64().expect("an id"), token["content"].as_str().expect("text")))
}

fn tensors(folder: &Path, head_dim: usize) -> Vec<TensorData> {
    let bytes = std::fs::read(folder.join("model.safetensors")).expect("readable");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    let mut tensors = Vec::new();
    for (name, entry) in header.as_object().expect("an object").iter().filter(|(name, _)| *name != "__metadata__") {
        assert_eq!(entry["dtype"], "BF16");
        let shape: Vec<u64> = serde_json::from_value(entry["shape"].clone()).expect("a shape");
        let (start, end): (usize, usize) = serde_json::from_value(entry["data_offsets"].clone()).expect("offsets");
        let (numbers, _) = bytes[8 + length + start..8 + length + end].as_chunks::<2>();
        // A bfloat16 number is the upper half of a float32 number.
        let mut values: Vec<[u8; 4]> = numbers.iter().map(|&[low, high]| [0, 0, low, high]).collect();
        if name.contains("q_proj") || name.contains("k_proj") {
            values = interleaved(&values, shape[1] as usize, head_dim);
        }
        tensors.push(TensorData { name: gguf_name(name), shape, kind: 0, bytes: values.concat() });
    }
    tensors
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

fn gguf_name(name: &str) -> String {
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
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    replacements.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}
