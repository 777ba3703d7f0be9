//! From the vocabulary in a GGUF file to the `tokenizer.json` it was made from.

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::weights::gguf::Metadata;

/// Token types of the format that stand for one whole token wherever they are spelled out.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// Keys that name special tokens; such a token is special whatever its type says.
const NAMED_TOKENS: [&str; 4] = [
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id",
];

/// Writes the vocabulary as a `tokenizer.json`.
pub(super) fn tokenizer_json(metadata: &Metadata) -> Result<String> {
    let path = metadata.path();
    let model = metadata.text("tokenizer.ggml.model")?;
    if model != "gpt2" {
        return Err(Error::unsupported(path, format!("tokenizer model {model} (known: gpt2)")));
    }
    let tokens = metadata.texts("tokenizer.ggml.tokens")?;
    let types = metadata.integers("tokenizer.ggml.token_type")?;
    if types.len() != tokens.len() {
        let problem = format!("{} token types for {} tokens", types.len(), tokens.len());
        return Err(Error::damaged(path, problem));
    }
    let mut named = Vec::new();
    for key in NAMED_TOKENS {
        if let Some(id) = metadata.optional_usize(key)? {
            if id >= tokens.len() {
                return Err(Error::damaged(path, format!("`{key}` is {id}, beyond the {} tokens", tokens.len())));
            }
            named.push(id);
        }
    }

    let mut vocabulary = Map::new();
    let mut added = Vec::new();
    for (id, (&token, &kind)) in tokens.iter().zip(&types).enumerate() {
        if vocabulary.insert(token.to_owned(), id.into()).is_some() {
            return Err(Error::damaged(path, format!("token {id} `{token}` is there twice")));
        }
        let special = matches!(kind, UNKNOWN | CONTROL) || named.contains(&id);
        if special || kind == USER_DEFINED {
            added.push(json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": special,
            }));
        }
    }
    let merges = metadata
        .texts("tokenizer.ggml.merges")?
        .into_iter()
        .enumerate()
        .map(|(index, merge)| match merge.split_once(' ') {
            Some((left, right)) => Ok(json!([left, right])),
            None => Err(Error::damaged(path, format!("merge {index} `{merge}` is not a pair"))),
        })
        .collect::<Result<Vec<_>>>()?;
    let document = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer(metadata)?,
        "post_processor": post_processor(metadata, &tokens)?,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges,
        },
    });
    Ok(document.to_string())
}

fn pre_tokenizer(metadata: &Metadata) -> Result<Value> {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    match metadata.text("tokenizer.ggml.pre")? {
        "smollm" => Ok(json!({
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": true}, byte_level],
        })),
        other => Err(Error::unsupported(metadata.path(), format!("pre-tokenizer {other} (known: smollm)"))),
    }
}

/// What is put around every text: a beginning-of-text token where the file asks for one.
fn post_processor(metadata: &Metadata, tokens: &[&str]) -> Result<Value> {
    if metadata.optional_bool("tokenizer.ggml.add_eos_token")? == Some(true) {
        return Err(Error::unsupported(metadata.path(), "tokenizer.ggml.add_eos_token"));
    }
    if metadata.optional_bool("tokenizer.ggml.add_space_prefix")? == Some(true) {
        return Err(Error::unsupported(metadata.path(), "tokenizer.ggml.add_space_prefix"));
    }
    if metadata.optional_bool("tokenizer.ggml.add_bos_token")? != Some(true) {
        return Ok(Value::Null);
    }
    let id = metadata.usize("tokenizer.ggml.bos_token_id")?;
    let token = tokens[id];
    let begin = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let mut special = Map::new();
    special.insert(token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]}));
    Ok(json!({
        "type": "TemplateProcessing",
        "single": [begin, sequence("A")],
        "pair": [begin, sequence("A"), sequence("B")],
        "special_tokens": special,
    }))
}
