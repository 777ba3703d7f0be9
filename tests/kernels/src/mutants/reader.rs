//! Finds the places in a source that can be broken, by reading it as the C++ that it is.
//!
//! It reads the part of the language that the kernels are written in, and ends with the line where it reads no further.

mod expressions;

use std::ops::Range;

use super::Kind;
use super::names::{Class, Names, is_constant};
use super::tokens::{Token, tokens};

/// A place and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// The function that it is in.
    pub(super) function: String,
    pub(super) kind: Kind,
    /// Bytes of the text.
    pub(super) place: Range<usize>,
    pub(super) with: String,
}

/// All changes of a text, in its order. Names of files that it includes are in `names`, and its own are added.
pub(super) fn changes(text: &str, names: &mut Names) -> Vec<Change> {
    let mut changes = read(text, names).changes;
    changes.sort_by(|a, b| (a.place.start, a.place.end, &a.with).cmp(&(b.place.start, b.place.end, &b.with)));
    changes.dedup();
    changes
}

/// The functions of a text that have a word in them.
pub(super) fn users(text: &str, word: &str) -> Vec<String> {
    let mut names = Names::default();
    let reader = read(text, &mut names);
    let uses = |tokens: &Range<usize>| tokens.clone().any(|index| reader.token(index) == word);
    reader.bodies.iter().filter(|(_, tokens)| uses(tokens)).map(|(name, _)| name.clone()).collect()
}

fn read<'a>(text: &'a str, names: &'a mut Names) -> Reader<'a> {
    names.read_macros(text);
    let mut reader = Reader {
        text,
        tokens: tokens(text),
        at: 0,
        names,
        function: String::new(),
        bodies: Vec::new(),
        written_out: false,
        in_step: false,
        changes: Vec::new(),
    };
    while reader.at < reader.tokens.len() {
        reader.item();
    }
    reader
}

/// Part of an expression.
struct Operand {
    /// Bytes of the text.
    place: Range<usize>,
    class: Class,
    /// Whether the compiler knows its value.
    constant: bool,
    form: Form,
}

/// What part of an expression is, as far as that says how it can be broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Number,
    /// A sum without parentheses.
    Sum,
    /// A comparison, or several.
    Condition,
    /// It assigns nothing: zero, minus infinity, or another number.
    Clears,
    Other,
}

/// What a statement does to what it is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It leaves it.
    Leaves,
    /// It is a single assignment of nothing.
    Clears,
    Other,
}

struct Reader<'a> {
    text: &'a str,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    names: &'a mut Names,
    function: String,
    /// The functions read so far, and the tokens of their bodies.
    bodies: Vec<(String, Range<usize>)>,
    /// Whether the condition being read is that of a loop whose rounds are all written out.
    written_out: bool,
    /// Whether the step of a loop is being read.
    in_step: bool,
    changes: Vec<Change>,
}

const TYPES: [&str; 24] = [
    "bf16", "bool", "char", "double", "float", "float2", "float4", "half", "i16", "i32", "i64", "i8", "int", "long",
    "short", "signed", "u16", "u32", "u64", "u8", "uint2", "uint4", "unsigned", "void",
];

// ---- tokens ---------------------------------------------------------------------------------------------------------

impl Reader<'_> {
    fn token(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |(_, place)| &self.text[place.clone()])
    }

    fn next(&self) -> &str {
        self.token(self.at)
    }

    fn kind(&self, index: usize) -> Option<Token> {
        self.tokens.get(index).map(|(kind, _)| *kind)
    }

    fn start(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |(_, place)| place.start)
    }

    /// Where the token before the next one ends.
    fn end(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |last| self.tokens[last].1.end)
    }

    fn take(&mut self, sign: &str) -> bool {
        let there = self.next() == sign;
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, sign: &str) {
        if !self.take(sign) {
            self.fail(sign);
        }
    }

    fn fail(&self, wanted: &str) -> ! {
        let line = self.text[..self.start()].matches('\n').count() + 1;
        panic!("line {line}: `{wanted}` expected, `{}` found", self.next());
    }

    /// The token after the bracket that closes the one at `index`.
    fn after_brackets(&self, mut index: usize) -> usize {
        let mut depth = 0_usize;
        while index < self.tokens.len() {
            match self.token(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            index += 1;
            if depth == 0 {
                break;
            }
        }
        index
    }

    fn skip_brackets(&mut self) {
        self.at = self.after_brackets(self.at);
    }

    fn skip_past(&mut self, sign: &str) {
        while self.at < self.tokens.len() && self.next() != sign {
            if matches!(self.next(), "(" | "[" | "{") { self.skip_brackets() } else { self.at += 1 }
        }
        self.at += 1;
    }

    fn change(&mut self, kind: Kind, place: Range<usize>, with: impl Into<String>) {
        self.changes.push(Change { function: self.function.clone(), kind, place, with: with.into() });
    }
}

// ---- declarations ---------------------------------------------------------------------------------------------------

impl Reader<'_> {
    /// Something outside functions.
    fn item(&mut self) {
        match self.next() {
            "typedef" | "static_assert" | "using" | "enum" => self.skip_past(";"),
            "template" => {
                self.at += 1;
                self.skip_angles();
            }
            "struct" | "union" => {
                while !matches!(self.next(), "{" | ";" | "") {
                    self.at += 1;
                }
                if self.take("{") {
                    while self.next() != "}" && self.at < self.tokens.len() {
                        self.item();
                    }
                    self.at += 1;
                }
                self.skip_past(";");
            }
            ";" => self.at += 1,
            _ => self.function_or_member(),
        }
    }

    fn skip_angles(&mut self) {
        self.expect("<");
        let mut depth = 1;
        while depth > 0 && self.at < self.tokens.len() {
            match self.next() {
                "<" => depth += 1,
                ">" => depth -= 1,
                ">>" => depth -= 2,
                _ => {}
            }
            self.at += 1;
        }
    }

    fn function_or_member(&mut self) {
        let first = self.at;
        let (mut end, mut parameters) = (first, None);
        while end < self.tokens.len() && !matches!(self.token(end), "{" | ";" | "=" | "}") {
            if self.token(end) == "(" {
                parameters = Some(end);
                end = self.after_brackets(end);
            } else {
                end += 1;
            }
        }
        match (self.token(end), parameters) {
            ("{", Some(parameters)) => {
                let before = first..parameters - 1;
                let pointer = self.token(parameters - 2) == "*";
                let float = before.clone().any(|index| self.token(index) == "float");
                let class = if float && !pointer { Class::Float } else { Class::Index };
                self.function = self.token(parameters - 1).to_owned();
                self.names.add_function(&self.function, class);
                self.at = parameters;
                self.parameters();
                self.at = end;
                self.block();
                self.bodies.push((std::mem::take(&mut self.function), end..self.at));
            }
            (";", None) => {
                let float = self.token(first) == "float" || self.token(first + 1) == "float";
                for index in first + 1..end {
                    if self.kind(index) == Some(Token::Word) && matches!(self.token(index + 1), "[" | ";" | ",") {
                        let array = self.token(index + 1) == "[" || self.token(index - 1) == "*";
                        let class = class(float, array);
                        let name = self.token(index).to_owned();
                        self.names.add_member(&name, class);
                    }
                }
                self.at = end + 1;
            }
            ("=", _) => self.skip_past(";"),
            _ => self.at = end + 1,
        }
    }

    /// Learns the names of a list of parameters, from its parenthesis to the one that closes it.
    fn parameters(&mut self) {
        let end = self.after_brackets(self.at);
        let (mut float, mut array, mut last) = (false, false, None);
        for index in self.at + 1..end {
            match self.token(index) {
                "float" => float = true,
                "*" | "[" => array = true,
                "," | ")" if !(self.token(index) == ")" && self.token(index + 1) == "[") => {
                    if let Some(name) = last.take() {
                        let name = self.token(name).to_owned();
                        self.names.add_variable(&name, class(float, array));
                    }
                    (float, array) = (false, false);
                }
                _ if self.kind(index) == Some(Token::Word) && !is_constant(self.token(index)) => last = Some(index),
                _ => {}
            }
        }
        self.at = end;
    }

    fn is_declaration(&self) -> bool {
        let (first, second, third) = (self.next(), self.token(self.at + 1), self.token(self.at + 2));
        if first == "const" || first == "auto" || first == "constexpr" {
            return true;
        }
        if self.kind(self.at) != Some(Token::Word) {
            return false;
        }
        if TYPES.contains(&first) {
            return second != "(" || third == "&" || third == "*";
        }
        let word = |index| self.kind(index) == Some(Token::Word);
        word(self.at + 1)
            || (matches!(second, "*" | "&") && word(self.at + 2) && matches!(self.token(self.at + 3), "=" | ";" | "["))
    }

    /// A declaration, with its semicolon.
    fn declaration(&mut self) {
        let mut float = false;
        while matches!(self.next(), "const" | "static" | "constexpr" | "unsigned" | "volatile") {
            self.at += 1;
        }
        float |= self.next() == "float";
        let deduced = self.next() == "auto";
        self.at += 1;
        if self.next() == "<" {
            self.skip_angles();
        }
        loop {
            let mut pointer = false;
            while matches!(self.next(), "*" | "&" | "&&" | "const" | "__restrict__" | "(") {
                pointer |= self.next() == "*";
                self.at += 1;
            }
            let name = self.next().to_owned();
            self.at += 1;
            self.take(")");
            while self.next() == "[" {
                pointer = true;
                self.skip_brackets();
            }
            let mut class = class(float, pointer);
            if self.take("=") {
                let value = self.expression(1);
                self.take_in(std::slice::from_ref(&value));
                if deduced {
                    class = value.class;
                }
            } else if matches!(self.next(), "{" | "(") {
                self.primary();
            }
            self.names.add_variable(&name, class);
            if !self.take(",") {
                break;
            }
        }
        self.expect(";");
    }
}

fn class(float: bool, pointer: bool) -> Class {
    match (pointer, float) {
        (true, to_float) => Class::Pointer { to_float },
        (false, true) => Class::Float,
        (false, false) => Class::Index,
    }
}

// ---- statements -----------------------------------------------------------------------------------------------------

impl Reader<'_> {
    /// A block; whether it leaves what it is in.
    fn block(&mut self) -> Effect {
        self.expect("{");
        let mut last = Effect::Other;
        while self.next() != "}" {
            if self.at == self.tokens.len() {
                self.fail("}");
            }
            last = self.statement();
        }
        self.at += 1;
        // One assignment among others, or in braces, is not read as a mask.
        if last == Effect::Leaves { last } else { Effect::Other }
    }

    fn statement(&mut self) -> Effect {
        let written_out = self.kind(self.at) == Some(Token::Unrolled);
        self.at += usize::from(written_out);
        match self.next() {
            "{" => return self.block(),
            ";" => self.at += 1,
            "if" => self.branch(),
            "for" => self.loop_over(written_out),
            "while" => {
                self.at += 1;
                self.expect("(");
                self.list(")");
                self.statement();
            }
            "do" => {
                self.at += 1;
                self.statement();
                self.expect("while");
                self.expect("(");
                self.list(")");
                self.expect(";");
            }
            "return" => {
                self.at += 1;
                if self.next() != ";" {
                    let value = self.expression(1);
                    self.take_in(std::slice::from_ref(&value));
                }
                self.expect(";");
                return Effect::Leaves;
            }
            "break" | "continue" => {
                self.skip_past(";");
                return Effect::Leaves;
            }
            "asm" | "static_assert" | "typedef" | "using" | "struct" | "enum" => self.skip_past(";"),
            "__shared__" | "extern" => {
                while matches!(self.next(), "__shared__" | "extern" | "__align__" | "(") {
                    if self.next() == "(" { self.skip_brackets() } else { self.at += 1 }
                }
                self.declaration();
            }
            _ if self.is_declaration() => self.declaration(),
            _ => {
                if self.list(";").form == Form::Clears {
                    return Effect::Clears;
                }
            }
        }
        // What leaves the round of a loop does not leave what the loop is in.
        Effect::Other
    }

    fn branch(&mut self) {
        self.at += 1;
        if self.take("constexpr") {
            self.skip_brackets();
            self.statement();
        } else {
            self.expect("(");
            let condition = self.list(")");
            let effect = self.statement();
            if !condition.constant {
                // A single assignment of nothing is a mask, which then masks nothing.
                if effect == Effect::Clears {
                    self.change(Kind::Mask, condition.place.clone(), "false");
                }
                self.change(Kind::Guard, condition.place, if effect == Effect::Leaves { "false" } else { "true" });
            }
        }
        if self.take("else") {
            self.statement();
        }
    }

    fn loop_over(&mut self, written_out: bool) {
        self.at += 1;
        self.expect("(");
        if self.is_declaration() {
            self.declaration();
        } else if !self.take(";") {
            self.list(";");
        }
        if !self.take(";") {
            self.written_out = written_out;
            self.list(";");
            self.written_out = false;
        }
        self.in_step = true;
        if !self.take(")") {
            self.list(")");
        }
        self.in_step = false;
        self.statement();
    }
}
