//! Text of vocabularies that write what is in no piece byte by byte.
//!
//! The tokenizer library takes all bytes between two pieces for one text, and if they are none, makes a replacement
//! character of each, of those of whole characters too. Then a text that grows would lose characters it had. Here only
//! bytes that are no character become replacement characters, as in `SentencePiece`.

use serde_json::Value;

/// Whether the decoder of a `tokenizer.json`, or one of a sequence, turns such bytes into characters.
pub(super) fn is_in(decoder: &Value) -> bool {
    let parts = decoder["decoders"].as_array().into_iter().flatten();
    decoder["type"] == "ByteFallback" || parts.into_iter().any(is_in)
}

/// Puts an empty token between characters and other bytes, so that the library takes them one by one.
pub(super) fn separated(tokens: Vec<String>) -> Vec<String> {
    let mut separated = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let Some(first) = byte(&token) else {
            separated.push(token);
            continue;
        };
        let mut run = vec![first];
        while let Some(next) = tokens.peek().and_then(|token| byte(token)) {
            run.push(next);
            tokens.next();
        }
        for chunk in run.utf8_chunks() {
            let of_token = |byte: &u8| format!("<0x{byte:02X}>");
            separated.extend(chunk.valid().as_bytes().iter().map(of_token));
            separated.push(String::new());
            separated.extend(chunk.invalid().iter().map(of_token));
            separated.push(String::new());
        }
    }
    separated
}

/// The byte that a token such as `<0x0A>` stands for.
fn byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::separated;

    #[test]
    fn characters_stay_together_and_other_bytes_apart() {
        let joined = |tokens: &[&str]| separated(tokens.iter().map(|token| (*token).to_owned()).collect()).join("|");
        assert_eq!(joined(&["a", "b"]), "a|b");
        assert_eq!(joined(&["<0xC3>", "<0xA9>", "<0xC3>"]), "<0xC3>|<0xA9>||<0xC3>|");
        assert_eq!(joined(&["a", "<0xA9>", "b"]), "a||<0xA9>||b");
        assert_eq!(joined(&["<0x4>", "<0xgg>", "<0x041>", "<0x41"]), "<0x4>|<0xgg>|<0x041>|<0x41");
    }
}
