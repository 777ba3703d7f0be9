//! The vocabulary of a model.

use std::path::Path;

use serde_json::Value;

use tokenizers::Decoder;

use super::byte_atoms::InventedAtoms;
use super::{byte_fallback, gguf_vocabulary, sentencepiece};
use crate::error::{Error, Result};
use crate::weights::gguf::Metadata;

/// Turns text into token ids and back.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    invented: InventedAtoms,
    falls_back_to_bytes: bool,
    /// Whether a vocabulary that falls back to bytes puts a space in front of a text that is no part of it. A `tokenizer.json`
    /// says with its steps what becomes of one.
    has_space_in_front: bool,
}

/// Whether text may stand for special tokens, and whether the tokenizer adds its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Add what the tokenizer puts around every text, such as a beginning-of-text token.
    Add,
    /// Add nothing, as for text from a chat template, which writes its own.
    AsWritten,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        Self::from_json(&text).map_err(|problem| Error::damaged(path, problem))
    }

    /// Builds the vocabulary kept inside a GGUF file.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self> {
        let json = gguf_vocabulary::tokenizer_json(metadata)?;
        let has_space_in_front = gguf_vocabulary::has_space_in_front(metadata)?;
        let tokenizer = Self::from_json(&json).map_err(|problem| Error::damaged(metadata.path(), problem))?;
        Ok(Self { has_space_in_front, ..tokenizer })
    }

    fn from_json(json: &str) -> std::result::Result<Self, String> {
        let mut document: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let invented = InventedAtoms::complete(&mut document);
        let falls_back_to_bytes = byte_fallback::is_in(&document["decoder"]);
        let mut inner: tokenizers::Tokenizer = serde_json::from_value(document).map_err(|e| e.to_string())?;
        // A file may ask for both; here the length of a text is the caller's matter.
        inner.with_padding(None).with_truncation(None).map_err(|e| e.to_string())?;
        Ok(Self { inner, invented, falls_back_to_bytes, has_space_in_front: false })
    }

    /// The tokens of `text`. Special tokens spelled out in it are recognised.
    pub fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>> {
        let add = special == SpecialTokens::Add;
        let ids = self.inner.encode_fast(text, add).map_err(|e| Error::Tokenizer(e.to_string()))?.get_ids().to_vec();
        match ids.iter().find_map(|&id| self.invented.byte(id)) {
            Some(byte) => {
                Err(Error::Tokenizer(format!("the vocabulary has no token for byte {byte:#04x} of the text")))
            }
            None => Ok(ids),
        }
    }

    /// The special token that is spelled `text`.
    #[must_use]
    pub fn special_token(&self, text: &str) -> Option<u32> {
        self.inner.get_added_vocabulary().is_special_token(text).then(|| self.inner.token_to_id(text)).flatten()
    }

    /// The text of tokens, without special tokens; bytes that are not text become replacement characters.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.decode_all(ids, true)
    }

    /// The text of tokens with special tokens spelled out.
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String> {
        self.decode_all(ids, false)
    }

    fn decode_all(&self, ids: &[u32], skips_special: bool) -> Result<String> {
        let decoder = self.inner.get_decoder().filter(|_| self.falls_back_to_bytes);
        let text = match decoder {
            None => self.inner.decode(ids, skips_special),
            Some(decoder) => {
                let added = self.inner.get_added_vocabulary();
                let tokens = ids.iter().filter_map(|&id| self.inner.id_to_token(id));
                let mut tokens: Vec<_> =
                    tokens.filter(|token| !skips_special || !added.is_special_token(token)).collect();
                if self.has_space_in_front {
                    sentencepiece::without_space_in_front(&mut tokens);
                }
                decoder.decode(byte_fallback::separated(tokens))
            }
        };
        text.map_err(|e| Error::Tokenizer(e.to_string()))
    }
}
