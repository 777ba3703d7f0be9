//! Byte-level vocabularies that lack a token for some byte.
//!
//! Vocabularies in use, that of `SmolLM2` among them, leave out bytes their training text did not have, and the tokenizer
//! library drops such bytes from a text without a word. Here they get ids beyond the vocabulary, by which text that
//! contains them is recognised.

use serde_json::Value;

/// The bytes a vocabulary has no token for, with the ids they were given.
#[derive(Debug, Default)]
pub(super) struct InventedAtoms {
    bytes: Vec<u8>,
    first_id: u32,
}

impl InventedAtoms {
    /// Completes the vocabulary of a `tokenizer.json`.
    pub(super) fn complete(document: &mut Value) -> Self {
        if document["model"]["type"] != "BPE" || !names_byte_level(&document["pre_tokenizer"]) {
            return Self::default();
        }
        let Some(vocabulary) = document["model"]["vocab"].as_object_mut() else { return Self::default() };
        let bytes: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| !vocabulary.contains_key(atom(byte).encode_utf8(&mut [0; 4]))).collect();
        let highest = vocabulary.values().filter_map(Value::as_u64).max().unwrap_or(0);
        // Ids of added tokens need not be in the vocabulary.
        let added = document["added_tokens"].as_array().into_iter().flatten();
        let highest = added.filter_map(|token| token["id"].as_u64()).max().unwrap_or(0).max(highest);
        let first_id = u32::try_from(highest).map_or(u32::MAX, |id| id.saturating_add(1));
        if let Some(vocabulary) = document["model"]["vocab"].as_object_mut() {
            for (id, &byte) in (u64::from(first_id)..).zip(&bytes) {
                vocabulary.insert(atom(byte).to_string(), id.into());
            }
        }
        Self { bytes, first_id }
    }

    /// The byte that `id` was invented for.
    pub(super) fn byte(&self, id: u32) -> Option<u8> {
        self.bytes.get(id.checked_sub(self.first_id)? as usize).copied()
    }
}

/// Whether a pre-tokenizer, or one of a sequence, turns bytes into characters.
fn names_byte_level(pre_tokenizer: &Value) -> bool {
    let parts = pre_tokenizer["pretokenizers"].as_array().into_iter().flatten();
    pre_tokenizer["type"] == "ByteLevel" || parts.into_iter().any(names_byte_level)
}

/// How byte-level vocabularies write a byte: printable Latin-1 as itself, the others in order from U+0100 on.
fn atom(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&byte| !is_printable(byte)).count();
    char::from_u32(0x100 + before as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{InventedAtoms, atom};

    #[test]
    fn atoms_are_those_of_byte_level_vocabularies() {
        let known = [(b'a', 'a'), (b' ', 'Ġ'), (b'\n', 'Ċ'), (b'\t', 'ĉ'), (0, 'Ā'), (0xad, 'Ń'), (0xff, 'ÿ')];
        for (byte, want) in known {
            assert_eq!(atom(byte), want, "{byte:#04x}");
        }
    }

    #[test]
    fn only_missing_bytes_get_ids_and_only_beyond_all_others() {
        let mut vocabulary = serde_json::Map::new();
        for byte in (0..=u8::MAX).filter(|byte| ![0x04, 0xf1].contains(byte)) {
            vocabulary.insert(atom(byte).to_string(), byte.into());
        }
        let mut document = json!({
            "model": {"type": "BPE", "vocab": vocabulary}, "added_tokens": [{"id": 300}],
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "ByteLevel"}]},
        });
        // What is built of no pairs has no bytes for atoms.
        let mut other = document.clone();
        other["model"]["type"] = json!("Unigram");
        let unchanged = other.clone();
        assert_eq!(InventedAtoms::complete(&mut other).byte(301), None);
        assert_eq!(other, unchanged);
        let mut below = document.clone();
        below["added_tokens"] = json!([{"id": 3}]);
        assert_eq!(InventedAtoms::complete(&mut below).byte(256), Some(0x04), "ids follow those of the vocabulary");
        let invented = InventedAtoms::complete(&mut document);
        assert_eq!((invented.byte(301), invented.byte(302), invented.byte(303)), (Some(0x04), Some(0xf1), None));
        assert_eq!((invented.byte(300), invented.byte(0)), (None, None));
        assert_eq!(document["model"]["vocab"].as_object().map(serde_json::Map::len), Some(256));
    }
}
