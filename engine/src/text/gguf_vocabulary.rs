//! From the vocabulary in a GGUF file to the `tokenizer.json` it was made from.

use serde_json::{Map, Value, json};

use super::{byte_level_styles, sentencepiece};
use crate::error::{Error, Result};
use crate::weights::gguf::Metadata;

/// Whether a space is put in front of a text; a vocabulary of scored pieces that does not say has one.
const SPACE_IN_FRONT: &str = "tokenizer.ggml.add_space_prefix";

/// The token type of a part of a text.
const NORMAL: i64 = 1;
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
    if !["gpt2", "llama"].contains(&model) {
        return Err(Error::unsupported(path, format!("tokenizer model {model} (known: gpt2, llama)")));
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
    let mut document = match model {
        "llama" => scored_pieces(metadata, &tokens, &types)?,
        _ => byte_level(metadata)?,
    };
    document["version"] = "1.0".into();
    document["added_tokens"] = added.into();
    document["post_processor"] = post_processor(metadata, &tokens)?;
    document["model"]["vocab"] = vocabulary.into();
    Ok(document.to_string())
}

/// What a vocabulary of bytes and merges has besides its tokens.
fn byte_level(metadata: &Metadata) -> Result<Value> {
    let path = metadata.path();
    let name = metadata.text("tokenizer.ggml.pre")?;
    let style = byte_level_styles::named(name)
        .map_err(|known| Error::unsupported(path, format!("pre-tokenizer {name} (known: {known})")))?;
    if metadata.optional_bool(SPACE_IN_FRONT)? == Some(true) {
        return Err(Error::unsupported(path, SPACE_IN_FRONT));
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
    Ok(json!({
        "normalizer": style.normalizer,
        "pre_tokenizer": style.pre_tokenizer,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "unk_token": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": style.keeps_whole_words, "merges": merges,
        },
    }))
}

/// What a vocabulary of scored pieces has besides its tokens.
fn scored_pieces(metadata: &Metadata, tokens: &[&str], types: &[i64]) -> Result<Value> {
    let path = metadata.path();
    let scores = metadata.floats("tokenizer.ggml.scores")?;
    if scores.len() != tokens.len() {
        return Err(Error::damaged(path, format!("{} scores for {} tokens", scores.len(), tokens.len())));
    }
    let unknown = metadata.optional_usize("tokenizer.ggml.unknown_token_id")?;
    let pieces = tokens.iter().zip(&scores).zip(types).filter(|(_, kind)| **kind == NORMAL);
    let pieces: Vec<_> = pieces.map(|((&token, &score), _)| (token, score)).collect();
    Ok(json!({
        "normalizer": sentencepiece::normalizer(has_space_in_front(metadata)?),
        "pre_tokenizer": null,
        "decoder": sentencepiece::decoder(),
        "model": {
            "type": "BPE", "unk_token": unknown.map(|id| tokens[id]), "fuse_unk": true, "byte_fallback": true,
            "ignore_merges": false, "merges": sentencepiece::merges(&pieces),
        },
    }))
}

/// Whether texts of a vocabulary of scored pieces have a space put in front, which goes when they are put together again.
pub(super) fn has_space_in_front(metadata: &Metadata) -> Result<bool> {
    Ok(metadata.optional_bool(SPACE_IN_FRONT)?.unwrap_or(true))
}

/// What is put around every text: a beginning-of-text token where the file asks for one.
///
/// Where a file says nothing, Llama's vocabularies have one and others do not.
fn post_processor(metadata: &Metadata, tokens: &[&str]) -> Result<Value> {
    let is_llama = metadata.text("tokenizer.ggml.model")? == "llama"
        || metadata.optional_text("tokenizer.ggml.pre")? == Some("llama-bpe");
    if metadata.optional_bool("tokenizer.ggml.add_eos_token")? == Some(true) {
        return Err(Error::unsupported(metadata.path(), "tokenizer.ggml.add_eos_token"));
    }
    if !metadata.optional_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(is_llama) {
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
