//! TOML 1.1.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{Builder, Content, Document, Fault, Node, Positions, float, integer};
use crate::value::Value;

/// Of a text that is no TOML at all, later faults are not looked at.
const MOST_LOOKED_AT: usize = 1000;

/// Dates are read as their text. The parser goes on after a fault, so what follows is in the document too.
pub(super) fn parse(text: &str) -> Document {
    let (table, errors) = DeTable::parse_recoverable(text);
    let positions = Positions::of(text);
    let mut faults: Vec<_> = errors.iter().take(MOST_LOOKED_AT).map(|error| error.span().unwrap_or_default()).collect();
    let mut builder = Builder::default();
    let mut last_line = 0;
    for (error, span) in errors.iter().zip(&faults) {
        let at = positions.at(span.start);
        // The first fault of a line says what is wrong; more of them follow from it.
        if at.line != last_line {
            builder.fault(Fault::new(at, error.message()));
        }
        last_line = at.line;
    }
    faults.sort_by_key(|span| span.start);
    let lost_header = faults.iter().map(|span| span.start).find(|offset| in_header(text, *offset));
    let mut reader = Reader { text, positions, faults, lost_header, builder };
    match reader.table(table.get_ref(), 0) {
        Ok(()) => reader.builder.finish(),
        Err(fault) => reader.builder.cut_off(fault),
    }
}

/// Whether a byte is in a line such as `[pool]`.
fn in_header(text: &str, offset: usize) -> bool {
    let line = text[..text.floor_char_boundary(offset)].rfind('\n').map_or(0, |newline| newline + 1);
    text[line..].trim_start().starts_with('[')
}

struct Reader<'a> {
    text: &'a str,
    positions: Positions<'a>,
    /// Where the text is damaged, sorted.
    faults: Vec<Range<usize>>,
    /// The first damaged header. Keys that belonged under it were taken to be at the top.
    lost_header: Option<usize>,
    builder: Builder,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, start: usize) -> Result<(), Fault> {
        self.builder.open_table(self.positions.at(start))?;
        // The parser sorts by key; errors read better in the order of the file.
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            self.builder.key(key.get_ref(), self.positions.at(key.span().start));
            let key_start = key.span().start;
            let is_table = matches!(value.get_ref(), DeValue::Table(_));
            let is_damaged = !is_table && self.is_damaged(key_start..value.span().end);
            let is_stray = self.builder.depth() == 1
                && self.lost_header.is_some_and(|lost| lost < key_start)
                && !in_header(self.text, key_start);
            if is_damaged || is_stray {
                let at = self.positions.at(value.span().start);
                self.builder.add(Node { at, content: Content::Damaged });
            } else {
                self.value(value)?;
            }
        }
        self.close();
        Ok(())
    }

    fn close(&mut self) {
        if let Some(node) = self.builder.close() {
            self.builder.add(node);
        }
    }

    fn is_damaged(&self, span: Range<usize>) -> bool {
        let first = self.faults.partition_point(|fault| fault.end < span.start);
        self.faults.get(first).is_some_and(|fault| fault.start <= span.end)
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), Fault> {
        let start = value.span().start;
        let at = self.positions.at(start);
        let content = match value.get_ref() {
            DeValue::String(text) => Content::Scalar(Value::Text(text.to_string())),
            DeValue::Boolean(value) => Content::Scalar(Value::Bool(*value)),
            DeValue::Integer(digits) => integer(digits.as_str(), digits.radix()),
            DeValue::Float(text) => float(text.as_str()),
            DeValue::Datetime(datetime) => Content::Scalar(Value::Text(datetime.to_string())),
            DeValue::Array(values) => {
                self.builder.open_list(at)?;
                for value in values {
                    self.value(value)?;
                }
                self.close();
                return Ok(());
            }
            DeValue::Table(table) => return self.table(table, start),
        };
        self.builder.add(Node { at, content });
        Ok(())
    }
}
