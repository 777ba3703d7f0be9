//! JSON as Python's `json.dumps` writes it.

use std::io::{Result, Write};

use serde_json::ser::Formatter;

/// How it is written.
pub(super) struct PythonJson {
    /// Spaces for each level, each entry on a line of its own; nothing: all on one line.
    indent: Option<usize>,
    /// Between entries; on lines of their own, before the line ends.
    item_separator: String,
    /// Between a key and its value.
    key_separator: String,
    /// Whether characters beyond ASCII are written as escapes.
    ensure_ascii: bool,
    depth: usize,
    has_entries: bool,
}

impl PythonJson {
    /// With Python's separators where none are given.
    pub(super) fn new(indent: Option<usize>, separators: Option<(String, String)>, ensure_ascii: bool) -> Self {
        let usual = || (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
        let (item_separator, key_separator) = separators.unwrap_or_else(usual);
        Self { indent, item_separator, key_separator, ensure_ascii, depth: 0, has_entries: false }
    }

    fn open<W: ?Sized + Write>(&mut self, w: &mut W, bracket: &[u8]) -> Result<()> {
        self.depth += 1;
        self.has_entries = false;
        w.write_all(bracket)
    }

    fn entry<W: ?Sized + Write>(&mut self, w: &mut W, is_first: bool) -> Result<()> {
        if !is_first {
            w.write_all(self.item_separator.as_bytes())?;
        }
        self.line(w)
    }

    fn close<W: ?Sized + Write>(&mut self, w: &mut W, bracket: &[u8]) -> Result<()> {
        self.depth -= 1;
        if self.has_entries {
            self.line(w)?;
        }
        self.has_entries = true;
        w.write_all(bracket)
    }

    fn line<W: ?Sized + Write>(&self, w: &mut W) -> Result<()> {
        match self.indent {
            Some(indent) => write!(w, "\n{:width$}", "", width = indent * self.depth),
            None => Ok(()),
        }
    }
}

impl Formatter for PythonJson {
    fn begin_array<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        self.open(w, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        self.close(w, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> Result<()> {
        self.entry(w, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> Result<()> {
        self.has_entries = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        self.open(w, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        self.close(w, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> Result<()> {
        self.entry(w, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        w.write_all(self.key_separator.as_bytes())
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> Result<()> {
        self.has_entries = true;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, w: &mut W, fragment: &str) -> Result<()> {
        if !self.ensure_ascii {
            return w.write_all(fragment.as_bytes());
        }
        let mut units = [0; 2];
        for c in fragment.chars() {
            // Python counts DEL among what is not ASCII.
            if c.is_ascii() && c != '\x7f' {
                w.write_all(&[c as u8])?;
            } else {
                for unit in c.encode_utf16(&mut units) {
                    write!(w, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}
