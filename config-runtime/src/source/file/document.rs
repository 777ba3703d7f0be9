//! What a file says, whatever its format: a tree of keys and values, each with its place.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use crate::leaf::Step;
use crate::value::Value;

/// Tables and lists may be nested this deep. No schema needs it, and a stack ends somewhere.
pub(super) const MOST_DEPTH: usize = 64;
/// Of a file that is damaged all over, the first faults say enough.
const MOST_FAULTS: usize = 20;

/// Line and column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// What is wrong with the text itself, whatever the schema.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: Position,
    pub(super) problem: String,
}

impl Fault {
    pub(super) fn new(at: Position, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into() }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Table {
        entries: Vec<Entry>,
        /// The text ended or became unreadable before the table did.
        cut_off: bool,
    },
    /// Well-formed, but no value can be made of it, such as an integer of 50 digits.
    Refused(String),
    /// Lies within a fault, which is reported already.
    Damaged,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Node,
}

impl Node {
    /// The value, or what is wrong with it or in it: `None` if a fault of the document says so already.
    pub(super) fn value(&self) -> Result<Value, Option<Fault>> {
        Ok(match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(nodes) => Value::List(nodes.iter().map(Self::value).collect::<Result<_, _>>()?),
            Content::Table { entries, cut_off: false } => {
                let entries = entries.iter().map(|entry| Ok((entry.key.clone(), entry.value.value()?)));
                Value::Table(entries.collect::<Result<BTreeMap<_, _>, Option<Fault>>>()?)
            }
            Content::Refused(problem) => return Err(Some(Fault::new(self.at, problem.clone()))),
            Content::Table { cut_off: true, .. } | Content::Damaged => return Err(None),
        })
    }
}

impl Node {
    /// Where the value at the end of a way stands; as near to it as the way can be followed.
    pub(super) fn place<'a>(&self, steps: impl IntoIterator<Item = &'a Step>) -> Position {
        let mut node = self;
        for step in steps {
            let next = match (&node.content, step) {
                (Content::List(nodes), Step::Entry(index)) => nodes.get(*index),
                (Content::Table { entries, .. }, Step::Key(key)) => {
                    entries.iter().find(|entry| entry.key == *key).map(|entry| &entry.value)
                }
                _ => None,
            };
            let Some(next) = next else { break };
            node = next;
        }
        node.at
    }
}

/// One parsed file.
#[derive(Debug)]
pub(super) struct Document {
    /// The table at the top.
    pub(super) entries: Vec<Entry>,
    pub(super) faults: Vec<Fault>,
}

/// Finds lines and columns without reading the text from its start each time.
pub(super) struct Positions<'a> {
    text: &'a str,
    /// The position of every `STEP`th byte, or of the character that it belongs to.
    marks: Vec<(usize, Position)>,
    /// The position found last. Parsers mostly ask for the next one, so that a text is walked about once.
    last: Cell<(usize, Position)>,
}

impl<'a> Positions<'a> {
    const STEP: usize = 1024;

    pub(super) fn of(text: &'a str) -> Self {
        let mut marks = Vec::with_capacity(text.len() / Self::STEP + 1);
        let (mut offset, mut at) = (0, Position { line: 1, column: 1 });
        loop {
            marks.push((offset, at));
            let next = text.floor_char_boundary(marks.len() * Self::STEP);
            if next == offset || next >= text.len() {
                let last = Cell::new((0, Position { line: 1, column: 1 }));
                return Self { text, marks, last };
            }
            at = advance(at, &text[offset..next]);
            offset = next;
        }
    }

    /// The position of a byte.
    pub(super) fn at(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let (start, position) = self.nearest(offset);
        let at = advance(position, &self.text[start..offset]);
        self.last.set((offset, at));
        at
    }

    /// The known position from which an offset is reached soonest: the mark before it, or the one found last.
    fn nearest(&self, offset: usize) -> (usize, Position) {
        let mark = self.marks.partition_point(|(mark, _)| *mark <= offset).saturating_sub(1);
        let (mark, last) = (self.marks[mark], self.last.get());
        if (mark.0..=offset).contains(&last.0) { last } else { mark }
    }
}

fn advance(from: Position, over: &str) -> Position {
    over.chars().fold(from, |at, character| match character {
        '\n' => Position { line: at.line + 1, column: 1 },
        _ => Position { column: at.column + 1, ..at },
    })
}

/// Puts a document together from what a parser meets, in order. Nesting and repeated keys are checked here, so that
/// they are the same in all formats.
#[derive(Default)]
pub(super) struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    faults: Vec<Fault>,
    /// The last step added a scalar: if the text is unreadable after it, it may be half a scalar.
    after_scalar: bool,
}

struct Open {
    at: Position,
    collection: Collection,
}

enum Collection {
    List(Vec<Node>),
    Table { entries: Vec<Entry>, seen: HashMap<String, Position>, key: Option<(String, Position)> },
}

impl Collection {
    fn close(self, cut_off: bool) -> Content {
        match self {
            Self::List(_) if cut_off => Content::Damaged,
            Self::List(nodes) => Content::List(nodes),
            Self::Table { mut entries, key, .. } => {
                // Only a text that is cut off ends between a key and its value.
                let damaged = key.map(|(key, at)| Entry { key, at, value: Node { at, content: Content::Damaged } });
                entries.extend(damaged);
                Content::Table { entries, cut_off }
            }
        }
    }
}

impl Builder {
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    fn nest(&mut self, at: Position, collection: Collection) -> Result<(), Fault> {
        check_depth(at, self.depth() + 1)?;
        self.after_scalar = false;
        self.open.push(Open { at, collection });
        Ok(())
    }

    pub(super) fn open_list(&mut self, at: Position) -> Result<(), Fault> {
        self.nest(at, Collection::List(Vec::new()))
    }

    pub(super) fn open_table(&mut self, at: Position) -> Result<(), Fault> {
        self.nest(at, Collection::Table { entries: Vec::new(), seen: HashMap::new(), key: None })
    }

    /// Ends the innermost list or table and returns it.
    pub(super) fn close(&mut self) -> Option<Node> {
        let open = self.open.pop()?;
        Some(Node { at: open.at, content: open.collection.close(false) })
    }

    /// Whether a key is due: the innermost collection is a table, and its last key has its value.
    pub(super) fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { collection: Collection::Table { key: None, .. }, .. }))
    }

    pub(super) fn key(&mut self, text: &str, at: Position) {
        self.after_scalar = false;
        let Some(Open { collection: Collection::Table { seen, key, .. }, .. }) = self.open.last_mut() else { return };
        *key = Some((text.to_owned(), at));
        let first = *seen.entry(text.to_owned()).or_insert(at);
        if first != at {
            let problem = format!("`{text}` is set twice in this table, first on line {}", first.line);
            self.fault(Fault::new(at, problem));
        }
    }

    /// Adds a value to the innermost collection.
    pub(super) fn add(&mut self, node: Node) {
        self.after_scalar = matches!(node.content, Content::Scalar(_));
        match self.open.last_mut().map(|open| &mut open.collection) {
            None => self.root = Some(node),
            Some(Collection::List(nodes)) => nodes.push(node),
            Some(Collection::Table { entries, seen, key }) => {
                // The value of a repeated key goes nowhere.
                if let Some((key, at)) = key.take().filter(|(key, at)| seen.get(key) == Some(at)) {
                    entries.push(Entry { key, at, value: node });
                }
            }
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    /// The document up to a place where the text cannot be read on.
    pub(super) fn cut_off(mut self, fault: Fault) -> Document {
        if self.after_scalar {
            let last = match self.open.last_mut().map(|open| &mut open.collection) {
                None => self.root.as_mut(),
                Some(Collection::List(nodes)) => nodes.last_mut(),
                Some(Collection::Table { entries, .. }) => entries.last_mut().map(|entry| &mut entry.value),
            };
            if let Some(last) = last {
                last.content = Content::Damaged;
            }
        }
        self.fault(fault);
        while let Some(open) = self.open.pop() {
            let node = Node { at: open.at, content: open.collection.close(true) };
            self.add(node);
        }
        self.finish()
    }

    /// The only value of a text that holds one value.
    pub(super) fn single(self) -> Result<Value, Fault> {
        if let Some(fault) = self.faults.into_iter().next() {
            return Err(fault);
        }
        // Only what is cut off has no value and no reason.
        let start = Position { line: 1, column: 1 };
        let node = self.root.ok_or_else(|| Fault::new(start, "expected a value"))?;
        node.value().map_err(|fault| fault.unwrap_or_else(|| Fault::new(node.at, String::new())))
    }

    pub(super) fn finish(mut self) -> Document {
        let entries = match self.root.take() {
            Some(Node { content: Content::Table { entries, .. }, .. }) => entries,
            None | Some(Node { content: Content::Damaged, .. }) => Vec::new(),
            Some(node) => {
                let found = match node.value() {
                    Ok(value) => value.kind(),
                    Err(_) => "no value",
                };
                self.fault(Fault::new(node.at, format!("a file holds a table of settings, found {found}")));
                Vec::new()
            }
        };
        Document { entries, faults: self.faults }
    }
}

pub(super) fn check_depth(at: Position, depth: usize) -> Result<(), Fault> {
    if depth <= MOST_DEPTH {
        return Ok(());
    }
    Err(Fault::new(at, format!("tables and lists are nested more than {MOST_DEPTH} deep")))
}

/// An integer of a file, digits in `radix`.
pub(super) fn integer(digits: &str, radix: u32) -> Content {
    match i128::from_str_radix(digits, radix) {
        Ok(value) => Content::Scalar(Value::Integer(value)),
        Err(_) => Content::Refused(format!("the integer `{digits}` is too large")),
    }
}

/// A float of a file.
pub(super) fn float(text: &str) -> Content {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Content::Scalar(Value::Float(value)),
        Ok(_) if text.contains(|c: char| c.is_ascii_digit()) => {
            Content::Refused(format!("the float `{text}` is too large"))
        }
        Ok(value) => Content::Scalar(Value::Float(value)),
        Err(_) => Content::Refused(format!("the float `{text}` cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Position, Positions};

    /// How many bytes lie between where a search starts and the byte asked for, over all searches.
    fn walked(positions: &Positions<'_>, offsets: impl Iterator<Item = usize>) -> usize {
        let mut walked = 0;
        for offset in offsets {
            walked += offset - positions.nearest(offset).0;
            positions.at(offset);
        }
        walked
    }

    #[test]
    fn a_text_read_forwards_is_walked_once() {
        let text = "1, ".repeat(100_000);
        let positions = Positions::of(&text);
        let walked = walked(&positions, (0..text.len()).step_by(3));
        assert!(walked <= text.len(), "{walked} bytes of {}", text.len());
    }

    #[test]
    fn a_leap_is_no_longer_than_the_way_from_a_mark() {
        let text = "1, ".repeat(100_000);
        let positions = Positions::of(&text);
        let backwards = (0..text.len()).rev().step_by(1000);
        let (leaps, walked) = (backwards.len(), walked(&positions, backwards));
        assert!(walked <= leaps * Positions::STEP, "{walked} bytes for {leaps} positions");
    }

    #[test]
    fn any_order_finds_the_same() {
        let text = "ä\n\nbc, ö\n".repeat(500);
        let plain = |offset: usize| {
            let before = &text[..offset];
            let line = before.rsplit('\n').next().unwrap_or_default();
            Position { line: 1 + before.matches('\n').count(), column: 1 + line.chars().count() }
        };
        let positions = Positions::of(&text);
        let offsets: Vec<_> = text.char_indices().map(|(offset, _)| offset).collect();
        let there_and_back = offsets.iter().chain(offsets.iter().rev());
        let leaps = (0..offsets.len()).map(|step| &offsets[step * 619 % offsets.len()]);
        for offset in there_and_back.chain(leaps) {
            assert_eq!(positions.at(*offset), plain(*offset), "at byte {offset}");
        }
    }
}
