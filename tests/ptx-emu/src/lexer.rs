//! Splits PTX text into tokens that remember their line.

use crate::error::LoadError;

/// One token. Words keep their dots: `add.s32`, `%tid.x`, `.reg` and `shared::cta` are single words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Word(&'a str),
    Text(&'a str),
    Mark(char),
}

/// A token and the line it starts on, from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) line: u32,
}

/// Builds the error for `line` of `source`.
pub(crate) fn error_at(source: &str, line: u32, message: impl Into<String>) -> LoadError {
    let text = source.lines().nth(line.saturating_sub(1) as usize).unwrap_or_default();
    LoadError { line, message: message.into(), text: text.trim().to_owned() }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// End of the word that starts at `start`; a double colon between word characters belongs to it.
fn word_end(bytes: &[u8], start: usize) -> usize {
    let mut end = start;
    loop {
        match bytes.get(end) {
            Some(&byte) if is_word(byte) => end += 1,
            Some(b':') if bytes.get(end + 1) == Some(&b':') && bytes.get(end + 2).is_some_and(|&b| is_word(b)) => {
                end += 2;
            }
            _ => return end,
        }
    }
}

/// All tokens of `source`.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token<'_>>, LoadError> {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(source.len() / 4);
    let (mut at, mut line) = (0, 1);
    while let Some(&byte) = bytes.get(at) {
        let rest = &source[at..];
        if byte == b'\n' {
            line += 1;
            at += 1;
        } else if byte.is_ascii_whitespace() || byte == 0 {
            at += 1;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let length = rest.find("*/").ok_or_else(|| error_at(source, line, "comment without end"))? + 2;
            line += rest[..length].matches('\n').count() as u32;
            at += length;
        } else if byte == b'"' {
            let length = rest[1..].find('"').ok_or_else(|| error_at(source, line, "string without end"))?;
            out.push(Token { kind: Kind::Text(&rest[1..=length]), line });
            at += length + 2;
        } else if is_word(byte) {
            let end = word_end(bytes, at);
            out.push(Token { kind: Kind::Word(&source[at..end]), line });
            at = end;
        } else if b"{}()[],;:+-@!|<>=".contains(&byte) {
            out.push(Token { kind: Kind::Mark(char::from(byte)), line });
            at += 1;
        } else {
            let what = rest.chars().next().unwrap_or_default();
            return Err(error_at(source, line, format!("unexpected character {what:?}")));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<Kind<'_>> {
        tokens(source).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn words_keep_dots_and_double_colons_but_not_a_label_colon() {
        assert_eq!(
            kinds("$L1: mbar.shared::cta.b64 %tid.x;"),
            [
                Kind::Word("$L1"),
                Kind::Mark(':'),
                Kind::Word("mbar.shared::cta.b64"),
                Kind::Word("%tid.x"),
                Kind::Mark(';')
            ]
        );
    }

    #[test]
    fn comments_and_strings_are_skipped_and_lines_counted() {
        let found = tokens("a // b\n/* c\nd */ e \"f g\"").unwrap();
        assert_eq!(found.iter().map(|token| token.line).collect::<Vec<_>>(), [1, 3, 3]);
        assert_eq!(found[2].kind, Kind::Text("f g"));
    }

    #[test]
    fn stray_characters_and_open_strings_are_errors() {
        assert!(tokens("a ? b").unwrap_err().message.contains("'?'"));
        assert!(tokens("\"abc").unwrap_err().message.contains("string without end"));
    }
}
