//! YAML 1.2 with the core schema: only `true` and `false` are booleans, `null`, `~` and nothing are no value.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::document::{Builder, Content, Document, Fault, Node, Position, check_depth, float, integer};
use crate::value::Value;

/// What aliases may add to a document, in nodes and bytes of text together: a few lines of aliases to aliases can
/// stand for more than any memory holds.
const MOST_ALIASED: usize = 1 << 20;

/// Everything before a fault is in the document.
pub(super) fn parse(text: &str) -> Document {
    let mut reader = Reader::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let read = match event {
            Ok((event, span)) => reader.event(event, position(&span.start)),
            Err(error) => Err(Fault::new(position(error.marker()), error.info())),
        };
        if let Err(fault) = read {
            return reader.builder.cut_off(fault);
        }
    }
    reader.builder.finish()
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// A value with an anchor, to be repeated by aliases.
struct Anchored {
    node: Node,
    weight: usize,
    depth: usize,
}

#[derive(Default)]
struct Reader {
    builder: Builder,
    anchored: HashMap<usize, Anchored>,
    /// Anchors of the open lists and tables; 0: none.
    open: Vec<usize>,
    aliased: usize,
    documents: usize,
}

impl Reader {
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), Fault> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Fault::new(at, "a second document begins; a configuration file holds one"));
                }
                Ok(())
            }
            Event::Scalar(text, style, _, tag) if self.builder.wants_key() => {
                let plain = style == ScalarStyle::Plain;
                match &*text {
                    _ if tag.is_some() => return Err(Fault::new(at, "a key has no tag")),
                    "" | "~" if plain => return Err(Fault::new(at, "a key is missing")),
                    "<<" if plain => {
                        let problem = "`<<` (merge) is not part of YAML 1.2; write the keys, or use `include`";
                        return Err(Fault::new(at, problem));
                    }
                    key => self.builder.key(key, at),
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let content = match (tag.as_deref(), style) {
                    (Some(tag), _) if is_text(tag) => Content::Scalar(Value::Text(text.into_owned())),
                    (Some(_), _) => return Err(unknown_tag(at)),
                    (None, ScalarStyle::Plain) => plain(&text),
                    (None, _) => Content::Scalar(Value::Text(text.into_owned())),
                };
                self.add(Node { at, content }, anchor);
                Ok(())
            }
            _ if self.builder.wants_key() && !matches!(event, Event::MappingEnd) => {
                Err(Fault::new(at, "a key is a text, not a list, a table or an alias"))
            }
            Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => Err(unknown_tag(at)),
            Event::SequenceStart(anchor, None) => {
                self.open.push(anchor);
                self.builder.open_list(at)
            }
            Event::MappingStart(anchor, None) => {
                self.open.push(anchor);
                self.builder.open_table(at)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let anchor = self.open.pop().unwrap_or_default();
                if let Some(node) = self.builder.close() {
                    self.add(node, anchor);
                }
                Ok(())
            }
            Event::Alias(anchor) => self.alias(anchor, at),
        }
    }

    fn add(&mut self, node: Node, anchor: usize) {
        if anchor != 0 {
            let (weight, depth) = measure(&node);
            self.anchored.insert(anchor, Anchored { node: node.clone(), weight, depth });
        }
        self.builder.add(node);
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<(), Fault> {
        let Some(Anchored { node, weight, depth }) = self.anchored.get(&anchor) else {
            return Err(Fault::new(at, "an alias stands inside the value that it repeats"));
        };
        self.aliased += weight;
        if self.aliased > MOST_ALIASED {
            return Err(Fault::new(at, "aliases repeat more than a configuration file can mean"));
        }
        check_depth(at, self.builder.depth() + depth)?;
        self.builder.add(Node { at, content: node.content.clone() });
        Ok(())
    }
}

/// How much memory a node stands for, roughly, and how deep it is.
fn measure(node: &Node) -> (usize, usize) {
    let inner = |nodes: &mut dyn Iterator<Item = (usize, &Node)>| {
        nodes.fold((1, 1), |(weight, depth), (own, node)| {
            let (below, deepest) = measure(node);
            (weight + own + below, depth.max(deepest + 1))
        })
    };
    match &node.content {
        Content::Scalar(Value::Text(text)) | Content::Refused(text) => (1 + text.len(), 0),
        Content::List(nodes) => inner(&mut nodes.iter().map(|node| (0, node))),
        Content::Table { entries, .. } => inner(&mut entries.iter().map(|entry| (entry.key.len(), &entry.value))),
        Content::Scalar(_) | Content::Damaged => (1, 0),
    }
}

fn is_text(tag: &Tag) -> bool {
    tag.is_yaml_core_schema() && tag.suffix == "str"
}

/// Does not say which: a password that begins with `!` and is not quoted is one.
fn unknown_tag(at: Position) -> Fault {
    Fault::new(at, "a tag (`!…`) means nothing here, except `!!str`; text that begins with `!` is written in quotes")
}

/// What the core schema reads a plain scalar as.
fn plain(text: &str) -> Content {
    let radix = |prefix, radix| {
        let digits = text.strip_prefix(prefix)?;
        (!digits.is_empty() && digits.chars().all(|c: char| c.is_digit(radix))).then(|| integer(digits, radix))
    };
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Unset,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        _ => {
            if let Some(integer) = radix("0x", 16).or_else(|| radix("0o", 8)) {
                return integer;
            }
            match number(text) {
                Some(Number::Integer) => return integer(text, 10),
                Some(Number::Float) => return float(text),
                None => Value::Text(text.to_owned()),
            }
        }
    };
    Content::Scalar(value)
}

enum Number {
    Integer,
    Float,
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`; without point and exponent an integer.
fn number(text: &str) -> Option<Number> {
    fn unsigned(text: &str) -> &str {
        text.strip_prefix(['-', '+']).unwrap_or(text)
    }
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let text = unsigned(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_number = are_digits(whole)
        && fraction.is_none_or(are_digits)
        && !(whole.is_empty() && fraction.is_none_or(str::is_empty))
        && exponent.is_none_or(|digits| !digits.is_empty() && are_digits(digits));
    let kind = if fraction.is_none() && exponent.is_none() { Number::Integer } else { Number::Float };
    is_number.then_some(kind)
}
