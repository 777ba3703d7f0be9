//! Text from tokens as they come, in whole characters.

use super::Tokenizer;
use crate::error::Result;

/// The most replacement characters that may still turn into one character: a character has at most four bytes.
const UNFINISHED: usize = 3;

/// Turns a growing list of tokens into pieces of text.
///
/// A piece never ends inside a character. The pieces put together, with the last one from [`Detokenizer::finish`], are the text of
/// all tokens.
pub struct Detokenizer<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens whose text is not settled, after one settled token for tokenizers that look at the neighbour.
    window: Vec<u32>,
    /// Tokens at the start of the window whose text is out already.
    settled: usize,
    /// Bytes of the window's text that are out already.
    emitted: usize,
}

impl<'a> Detokenizer<'a> {
    /// A detokenizer at the start of a text.
    #[must_use]
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, window: Vec::new(), settled: 0, emitted: 0 }
    }

    /// Takes the next token and returns the text that has become certain, which may be empty.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.window.push(id);
        let text = self.tokenizer.decode(&self.window)?;
        let certain = without_unfinished(&text);
        let piece = text.get(self.emitted..certain).unwrap_or_default().to_owned();
        self.emitted = self.emitted.max(certain);
        if certain == text.len() {
            // All of the window is out; the newest token stays as the context of the next. One without a text, such as
            // a special token, is none: the next would be decoded like the first of a text. Then the context before it
            // stays, and at the start of a text all of it, since a first space may go.
            if !self.tokenizer.decode(&self.window[self.settled..])?.is_empty() {
                self.window.drain(..self.settled);
            } else if !text.is_empty() {
                self.window.truncate(self.settled);
            }
            self.settled = self.window.len();
            self.emitted = self.tokenizer.decode(&self.window)?.len();
        }
        Ok(piece)
    }

    /// The text still held back, with a replacement character for a character that never became whole.
    pub fn finish(self) -> Result<String> {
        let text = self.tokenizer.decode(&self.window)?;
        Ok(text.get(self.emitted..).unwrap_or_default().to_owned())
    }
}

/// The length of `text` without the replacement characters at its end that may be the start of one character.
fn without_unfinished(text: &str) -> usize {
    let held = text.chars().rev().take(UNFINISHED).take_while(|&c| c == char::REPLACEMENT_CHARACTER).count();
    text.len() - held * char::REPLACEMENT_CHARACTER.len_utf8()
}
