//! The vocabulary of a model.

use std::path::Path;

use serde_json::Value;

use super::byte_atoms::InventedAtoms;
use super::gguf_vocabulary;
use crate::error::{Error, Result};
use crate::weights::gguf::Metadata;

/// Turns text into token ids and back.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    invented: InventedAtoms,
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
        Self::from_json(&json).map_err(|problem| Error::damaged(metadata.path(), problem))
    }

    fn from_json(json: &str) -> std::result::Result<Self, String> {
        let mut document: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let invented = InventedAtoms::complete(&mut document);
        let mut inner: tokenizers::Tokenizer = serde_json::from_value(document).map_err(|e| e.to_string())?;
        // A file may ask for both; here the length of a text is the caller's matter.
        inner.with_padding(None).with_truncation(None).map_err(|e| e.to_string())?;
        Ok(Self { inner, invented })
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
        self.inner.decode(ids, true).map_err(|e| Error::Tokenizer(e.to_string()))
    }

    /// The text of tokens with special tokens spelled out.
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, false).map_err(|e| Error::Tokenizer(e.to_string()))
    }
}
