//! Words and signs of CUDA C++.

use std::ops::Range;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword.
    Word,
    Number,
    /// A string or a character.
    Text,
    Sign,
    /// `#pragma unroll` without a number other than the whole: every round of the loop that follows is written out.
    Unrolled,
}

/// Signs of more than one character, longer ones first.
const SIGNS: [&str; 24] = [
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=", "::", "##",
];

/// The tokens of a text and where they are. Comments and the preprocessor's lines are left out.
pub(super) fn tokens(text: &str) -> Vec<(Token, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let first = bytes[at];
        if first.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if first == b'#' {
            let length = directive_length(rest);
            if rest[..length].trim() == "#pragma unroll" {
                found.push((Token::Unrolled, at..at + length));
            }
            at += length;
        } else {
            let (token, length) = if first == b'"' || first == b'\'' {
                (Token::Text, text_length(rest.as_bytes()))
            } else if first.is_ascii_digit() || (first == b'.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
                (Token::Number, number_length(rest.as_bytes()))
            } else if first.is_ascii_alphabetic() || first == b'_' {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                (Token::Word, end.unwrap_or(rest.len()))
            } else {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                (Token::Sign, sign.map_or_else(|| rest.chars().next().map_or(1, char::len_utf8), |sign| sign.len()))
            };
            found.push((token, at..at + length));
            at += length;
        }
    }
    found
}

/// A line of the preprocessor, with those that continue it.
fn directive_length(rest: &str) -> usize {
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        length += line.len();
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    length
}

fn text_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != rest[0] {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn number_length(rest: &[u8]) -> usize {
    let hexadecimal = rest.starts_with(b"0x");
    let mut at = 0;
    while at < rest.len() {
        let exponent = !hexadecimal && at > 0 && matches!(rest[at - 1], b'e' | b'E') && matches!(rest[at], b'+' | b'-');
        if !rest[at].is_ascii_alphanumeric() && rest[at] != b'.' && !exponent {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_directives_are_no_tokens_and_signs_are_whole() {
        let text =
            "#define A \\\n  b\nfor (i32 i = 0; i <<= 0x1f; i++) // c\n#pragma unroll\n  x->y = 1.0e-3f + 'a' /* d */;";
        let found = tokens(text);
        let words: Vec<&str> = found.iter().map(|(_, range)| text[range.clone()].trim()).collect();
        let expected = [
            "for",
            "(",
            "i32",
            "i",
            "=",
            "0",
            ";",
            "i",
            "<<=",
            "0x1f",
            ";",
            "i",
            "++",
            ")",
            "#pragma unroll",
            "x",
            "->",
            "y",
            "=",
            "1.0e-3f",
            "+",
            "'a'",
            ";",
        ];
        assert_eq!(words, expected);
        assert_eq!(found[14].0, Token::Unrolled);
        assert_eq!(found[19].0, Token::Number);
    }
}
