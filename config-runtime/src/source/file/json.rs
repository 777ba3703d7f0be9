//! JSON as RFC 8259 has it: no comments, no trailing commas.

use hifijson::num::LexWrite as _;
use hifijson::str::LexAlloc as _;
use hifijson::token::Lex as _;
use hifijson::{Expect, SliceLexer};

use super::document::{Builder, Content, Document, Fault, Node, Position, Positions, float, integer};
use crate::value::Value;

/// Everything before a fault is in the document.
pub(super) fn parse(text: &str) -> Document {
    match read(text, "the end of the file") {
        (builder, Ok(())) => builder.finish(),
        (builder, Err(fault)) => builder.cut_off(fault),
    }
}

/// A value alone, of any kind, such as a flag has it; or what is wrong with the text, and where.
pub(crate) fn value(text: &str) -> Result<Value, String> {
    let (builder, read) = read(text, "the end of the text");
    read.and_then(|()| builder.single()).map_err(|Fault { at, problem }| match at.line {
        1 => format!("column {}: {problem}", at.column),
        line => format!("line {line}, column {}: {problem}", at.column),
    })
}

/// `end`: what the text ends with, in words.
fn read(text: &str, end: &str) -> (Builder, Result<(), Fault>) {
    let mut lexer = SliceLexer::new(text.as_bytes());
    let mut reader = Reader { positions: Positions::of(text), length: text.len(), builder: Builder::default() };
    let read = match lexer.exactly_one(SliceLexer::ws_peek, |next, lexer| reader.value(next, lexer)) {
        Ok(()) => Ok(()),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Expected(what)) => {
            let found = match lexer.as_slice() {
                [] => end.to_owned(),
                // The text is UTF-8, and tokens end between characters.
                rest => rest
                    .utf8_chunks()
                    .next()
                    .and_then(|chunk| chunk.valid().chars().next())
                    .map_or_else(|| "something else".to_owned(), shown),
            };
            let problem = format!("expected {}, found {found}{}", expected(&what), habit(text, &lexer));
            Err(Fault::new(reader.here(&lexer), problem))
        }
    };
    (reader.builder, read)
}

fn shown(character: char) -> String {
    match character {
        '\'' | '"' => format!("`{character}`"),
        other => format!("`{}`", other.escape_debug()),
    }
}

/// Advice for what other languages have and JSON has not.
fn habit(text: &str, lexer: &SliceLexer<'_>) -> &'static str {
    let rest = lexer.as_slice();
    let before = text[..text.floor_char_boundary(text.len() - rest.len())].trim_end();
    match rest.first() {
        Some(b'}' | b']') if before.ends_with(',') => "; JSON has no comma after the last entry",
        Some(b'/' | b'#') => "; JSON has no comments",
        Some(b'\'') => "; JSON has double quotes only",
        _ => "",
    }
}

/// Why the text cannot be read on.
enum Stop {
    Fault(Fault),
    /// At the lexer's place something else was due.
    Expected(Expect),
}

impl From<Expect> for Stop {
    fn from(what: Expect) -> Self {
        Self::Expected(what)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn expected(what: &Expect) -> &'static str {
    match what {
        Expect::Value => "a value",
        Expect::ValueOrEnd => "a value or the end of the list or table",
        Expect::CommaOrEnd => "a comma or the end of the list or table",
        Expect::String => "a key in double quotes",
        Expect::Colon => "a colon",
        Expect::Eof => "the end of the file",
    }
}

struct Reader<'a> {
    positions: Positions<'a>,
    length: usize,
    builder: Builder,
}

impl Reader<'_> {
    fn here(&self, lexer: &SliceLexer<'_>) -> Position {
        self.positions.at(self.length - lexer.as_slice().len())
    }

    /// As deep as the builder allows.
    fn value(&mut self, next: u8, lexer: &mut SliceLexer<'_>) -> Result<(), Stop> {
        let at = self.here(lexer);
        let content = match next {
            b'[' => {
                self.builder.open_list(at)?;
                lexer.discarded().seq(b']', SliceLexer::ws_peek, |next, lexer| self.value(next, lexer))?;
                self.close();
                return Ok(());
            }
            b'{' => {
                self.builder.open_table(at)?;
                lexer.discarded().seq(b'}', SliceLexer::ws_peek, |next, lexer| self.entry(next, lexer))?;
                self.close();
                return Ok(());
            }
            b'"' => Content::Scalar(Value::Text(self.text(lexer)?)),
            b'-' | b'0'..=b'9' => match lexer.num_string().validated() {
                Ok((digits, parts)) if parts.is_int() => integer(digits, 10),
                Ok((text, _)) => float(text),
                Err(_) => return Err(Fault::new(self.here(lexer), "expected a digit").into()),
            },
            b'a'..=b'z' => match lexer.null_or_bool() {
                Some(None) => Content::Scalar(Value::Unset),
                Some(Some(value)) => Content::Scalar(Value::Bool(value)),
                None => return Err(Fault::new(at, "a bare word is `true`, `false` or `null`; text is quoted").into()),
            },
            _ => return Err(Expect::Value.into()),
        };
        self.builder.add(Node { at, content });
        Ok(())
    }

    fn entry(&mut self, next: u8, lexer: &mut SliceLexer<'_>) -> Result<(), Stop> {
        if next != b'"' {
            return Err(Expect::String.into());
        }
        let at = self.here(lexer);
        let key = self.text(lexer)?;
        self.builder.key(&key, at);
        lexer.expect(SliceLexer::ws_peek, b':').ok_or(Expect::Colon)?;
        let next = lexer.ws_peek().ok_or(Expect::Value)?;
        self.value(next, lexer)
    }

    fn close(&mut self) {
        if let Some(node) = self.builder.close() {
            self.builder.add(node);
        }
    }

    fn text(&mut self, lexer: &mut SliceLexer<'_>) -> Result<String, Stop> {
        let start = self.here(lexer);
        let text = lexer.discarded().str_string().map_err(|error| {
            // The place that matters is where the text begins if its end is missing, and the character otherwise.
            let at = if lexer.as_slice().is_empty() { start } else { self.before(lexer) };
            Fault::new(at, error.to_string())
        })?;
        Ok(text.into_owned())
    }

    /// The character that the lexer took last.
    fn before(&self, lexer: &SliceLexer<'_>) -> Position {
        self.positions.at((self.length - lexer.as_slice().len()).saturating_sub(1))
    }
}
