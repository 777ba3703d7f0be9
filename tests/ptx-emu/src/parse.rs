//! Reads PTX text into [`Source`]. Every directive is known or an error.

use crate::error::LoadError;
use crate::lexer::{Kind, Token, error_at, tokens};
use crate::syntax::{
    Entry, Guard, Instruction, Item, Limits, Literal, Operand, Param, Place, Position, Source, Variable,
};
use crate::ty::{Space, Ty};

/// Parses a whole module.
pub(crate) fn parse(text: &str) -> Result<Source<'_>, LoadError> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, position: None };
    parser.module()
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    /// The last `.loc`.
    position: Option<Position>,
}

type Parsed<T> = Result<T, LoadError>;

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    fn line(&self) -> u32 {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |token| token.line)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(error_at(self.text, self.line(), message))
    }

    fn next_is(&self, mark: char) -> bool {
        self.peek() == Some(Kind::Mark(mark))
    }

    fn take(&mut self, mark: char) -> bool {
        let found = self.next_is(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: char) -> Parsed<()> {
        if self.take(mark) { Ok(()) } else { self.fail(format!("expected `{mark}`")) }
    }

    fn word(&mut self, what: &str) -> Parsed<&'a str> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.fail(format!("expected {what}")),
        }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Kind::Word(word));
        self.at += usize::from(found);
        found
    }

    fn string(&mut self) -> Parsed<&'a str> {
        match self.peek() {
            Some(Kind::Text(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => self.fail("expected a string"),
        }
    }

    fn number(&mut self) -> Parsed<u32> {
        let word = self.word("a number")?;
        match Literal::parse(word) {
            Some(Literal::Int { bits, .. }) if u32::try_from(bits).is_ok() => Ok(bits as u32),
            _ => {
                self.at -= 1;
                self.fail(format!("expected a number, found `{word}`"))
            }
        }
    }

    fn module(&mut self) -> Parsed<Source<'a>> {
        let mut source = Source::default();
        self.header()?;
        while let Some(kind) = self.peek() {
            let Kind::Word(word) = kind else {
                return self.fail("expected a directive");
            };
            match word {
                ".file" => source.files.push(self.file()?),
                ".section" => self.section()?,
                ".visible" | ".weak" | ".extern" | ".entry" | ".global" | ".const" | ".shared" => {
                    let external = word == ".extern";
                    if matches!(word, ".visible" | ".weak" | ".extern") {
                        self.at += 1;
                    }
                    if !external && self.take_word(".entry") {
                        source.entries.push(self.entry()?);
                    } else {
                        source.variables.push(self.variable(external)?);
                    }
                }
                _ => return self.fail(format!("unknown directive `{word}`")),
            }
        }
        Ok(source)
    }

    /// `.version`, `.target` and `.address_size`, in this order.
    fn header(&mut self) -> Parsed<()> {
        if !self.take_word(".version") {
            return self.fail("a module starts with `.version`");
        }
        self.word("a version")?;
        if !self.take_word(".target") {
            return self.fail("expected `.target`");
        }
        let target = self.word("a target")?;
        if !target.starts_with("sm_") {
            self.at -= 1;
            return self.fail(format!("unknown target `{target}`"));
        }
        while self.take(',') {
            match self.word("a target option")? {
                "debug" | "texmode_unified" => {}
                other => return self.fail(format!("unknown target option `{other}`")),
            }
        }
        if !self.take_word(".address_size") || self.number()? != 64 {
            return self.fail("expected `.address_size 64`");
        }
        Ok(())
    }

    fn file(&mut self) -> Parsed<(u32, &'a str)> {
        self.at += 1;
        let number = self.number()?;
        let path = self.string()?;
        while self.take(',') {
            self.number()?;
        }
        Ok((number, path))
    }

    /// Debug sections carry nothing that execution needs.
    fn section(&mut self) -> Parsed<()> {
        self.at += 1;
        self.word("a section name")?;
        self.expect('{')?;
        while !self.take('}') {
            if self.peek().is_none() {
                return self.fail("section without end");
            }
            self.at += 1;
        }
        Ok(())
    }

    fn ty(&mut self) -> Parsed<Ty> {
        let word = self.word("a type")?;
        match word.strip_prefix('.').and_then(Ty::parse) {
            Some(ty) => Ok(ty),
            None => {
                self.at -= 1;
                self.fail(format!("unknown type `{word}`"))
            }
        }
    }

    fn alignment(&mut self) -> Parsed<Option<u32>> {
        if !self.take_word(".align") {
            return Ok(None);
        }
        let align = self.number()?;
        if align.is_power_of_two() { Ok(Some(align)) } else { self.fail("alignment is no power of two") }
    }

    fn variable(&mut self, external: bool) -> Parsed<Variable<'a>> {
        let line = self.line();
        let space = match self.word("a state space")? {
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            other => {
                self.at -= 1;
                return self.fail(format!("unknown directive `{other}`"));
            }
        };
        let align = self.alignment()?;
        let ty = self.ty()?;
        let align = align.unwrap_or(1).max(ty.bytes());
        let name = self.word("a name")?;
        let mut bytes = Some(ty.bytes());
        while self.take('[') {
            if self.take(']') {
                bytes = None;
            } else {
                let length = self.number()?;
                bytes = bytes.and_then(|bytes| bytes.checked_mul(length));
                self.expect(']')?;
            }
        }
        if external != bytes.is_none() || (external && space != Space::Shared) {
            return self.fail("only `.extern .shared` arrays, and no others, have no length");
        }
        let mut initial = Vec::new();
        if self.take('=') {
            if !matches!(space, Space::Global | Space::Const) {
                return self.fail("only .global and .const variables have initial values");
            }
            self.initial(ty, &mut initial)?;
        }
        self.expect(';')?;
        if bytes.is_some_and(|bytes| initial.len() > bytes as usize) {
            return self.fail("more initial values than elements");
        }
        Ok(Variable { space, name, align, bytes, initial, line })
    }

    fn initial(&mut self, ty: Ty, out: &mut Vec<u8>) -> Parsed<()> {
        if self.take('{') {
            loop {
                self.initial(ty, out)?;
                if !self.take(',') {
                    return self.expect('}');
                }
            }
        }
        let bits = match self.literal()? {
            Literal::Int { bits, .. } | Literal::Double(bits) => bits,
            Literal::Single(bits) => u64::from(bits),
        };
        out.extend_from_slice(&bits.to_le_bytes()[..ty.bytes() as usize]);
        Ok(())
    }

    fn literal(&mut self) -> Parsed<Literal> {
        let minus = self.take('-');
        let word = self.word("a literal")?;
        match Literal::parse(word) {
            Some(Literal::Int { bits, .. }) if minus => Ok(Literal::Int { bits: bits.wrapping_neg(), negative: true }),
            Some(literal) if !minus => Ok(literal),
            _ => {
                self.at -= 1;
                self.fail(format!("expected a literal, found `{word}`"))
            }
        }
    }

    fn entry(&mut self) -> Parsed<Entry<'a>> {
        let line = self.line();
        let name = self.word("a kernel name")?;
        let mut params = Vec::new();
        if self.take('(') && !self.take(')') {
            loop {
                params.push(self.param()?);
                if !self.take(',') {
                    break;
                }
            }
            self.expect(')')?;
        }
        let limits = self.limits()?;
        self.position = None;
        let body = self.body()?;
        Ok(Entry { name, params, limits, body, line })
    }

    fn param(&mut self) -> Parsed<Param<'a>> {
        if !self.take_word(".param") {
            return self.fail("expected `.param`");
        }
        let before = self.alignment()?;
        let ty = self.ty()?;
        if self.take_word(".ptr") {
            for space in [".global", ".shared", ".local", ".const"] {
                self.take_word(space);
            }
            self.alignment()?;
        }
        let name = self.word("a parameter name")?;
        let mut bytes = ty.bytes();
        if self.take('[') {
            bytes *= self.number()?;
            self.expect(']')?;
        }
        Ok(Param { name, align: before.unwrap_or(1).max(ty.bytes()), bytes })
    }

    fn limits(&mut self) -> Parsed<Limits> {
        let mut limits = Limits::default();
        while let Some(Kind::Word(word)) = self.peek() {
            self.at += 1;
            match word {
                ".maxntid" => limits.max_threads = Some(self.extents()?.iter().product()),
                ".reqntid" => limits.required = Some(self.extents()?),
                ".minnctapersm" | ".maxnreg" => {
                    self.number()?;
                }
                _ => {
                    self.at -= 1;
                    return self.fail(format!("unknown directive `{word}`"));
                }
            }
        }
        Ok(limits)
    }

    fn extents(&mut self) -> Parsed<[u32; 3]> {
        let mut extents = [self.number()?, 1, 1];
        for extent in &mut extents[1..] {
            if !self.take(',') {
                break;
            }
            *extent = self.number()?;
        }
        Ok(extents)
    }

    fn body(&mut self) -> Parsed<Vec<Item<'a>>> {
        self.expect('{')?;
        let mut items = Vec::new();
        let mut depth = 1;
        loop {
            match self.peek() {
                None => return self.fail("kernel body without end"),
                Some(Kind::Mark('{')) => {
                    self.at += 1;
                    depth += 1;
                    items.push(Item::Open);
                }
                Some(Kind::Mark('}')) => {
                    self.at += 1;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(items);
                    }
                    items.push(Item::Close);
                }
                Some(Kind::Mark(';')) => self.at += 1,
                Some(Kind::Word(word)) if word.starts_with('.') => {
                    if let Some(item) = self.directive(word)? {
                        items.push(item);
                    }
                }
                Some(Kind::Word(word)) if self.tokens.get(self.at + 1).map(|t| t.kind) == Some(Kind::Mark(':')) => {
                    items.push(Item::Label(word, self.line()));
                    self.at += 2;
                }
                Some(_) => items.push(Item::Instruction(self.instruction()?)),
            }
        }
    }

    fn directive(&mut self, word: &str) -> Parsed<Option<Item<'a>>> {
        let line = self.line();
        match word {
            ".loc" => self.loc().map(|()| None),
            ".pragma" => {
                self.at += 1;
                let pragma = self.string()?;
                if pragma != "nounroll" && !pragma.starts_with("used_bytes_mask") {
                    self.at -= 1;
                    return self.fail(format!("unknown pragma {pragma:?}"));
                }
                self.expect(';').map(|()| None)
            }
            ".reg" => {
                self.at += 1;
                let ty = self.ty()?;
                if !ty.is_register() {
                    return self.fail(format!("no registers of type .{}", ty.name()));
                }
                let mut names = Vec::new();
                loop {
                    let name = self.word("a register name")?;
                    let mut count = None;
                    if self.take('<') {
                        count = Some(self.number()?);
                        self.expect('>')?;
                    }
                    names.push((name, count));
                    if !self.take(',') {
                        break;
                    }
                }
                self.expect(';')?;
                Ok(Some(Item::Registers(ty, names, line)))
            }
            ".shared" | ".local" => Ok(Some(Item::Variable(self.variable(false)?))),
            _ => self.fail(format!("unknown directive `{word}`")),
        }
    }

    fn place(&mut self) -> Parsed<Place> {
        Ok(Place { file: self.number()?, line: self.number()?, column: self.number()? })
    }

    fn loc(&mut self) -> Parsed<()> {
        self.at += 1;
        let at = self.place()?;
        let mut inlined_at = None;
        while self.take(',') {
            match self.word("a .loc attribute")? {
                "function_name" => {
                    self.word("a label")?;
                    if self.take('+') {
                        self.number()?;
                    }
                }
                "inlined_at" => inlined_at = Some(self.place()?),
                other => {
                    self.at -= 1;
                    return self.fail(format!("unknown .loc attribute `{other}`"));
                }
            }
        }
        // Line 0 marks compiler-made code: the last real position says more.
        if at.line != 0 {
            self.position = Some(Position { at, inlined_at });
        }
        Ok(())
    }

    fn instruction(&mut self) -> Parsed<Instruction<'a>> {
        let line = self.line();
        let mut guard = None;
        if self.take('@') {
            let negated = self.take('!');
            guard = Some(Guard { register: self.word("a predicate")?, negated });
        }
        let opcode = self.word("an instruction")?;
        let mut operands = Vec::new();
        if !self.next_is(';') {
            loop {
                operands.push(self.operand()?);
                if !self.take(',') {
                    break;
                }
            }
        }
        self.expect(';')?;
        Ok(Instruction { guard, opcode, operands, line, position: self.position })
    }

    fn operand(&mut self) -> Parsed<Operand<'a>> {
        if self.take('{') {
            let mut parts = vec![self.operand()?];
            while self.take(',') {
                parts.push(self.operand()?);
            }
            self.expect('}')?;
            return Ok(Operand::Vector(parts));
        }
        if self.take('[') {
            return self.address();
        }
        if self.take('!') {
            return Ok(Operand::Not(self.word("a predicate")?));
        }
        if self.next_is('-') {
            return self.literal().map(Operand::Literal);
        }
        let word = self.word("an operand")?;
        if self.take('|') {
            return Ok(Operand::Pair(word, self.word("a predicate")?));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            self.at -= 1;
            return self.literal().map(Operand::Literal);
        }
        Ok(Operand::Name(word))
    }

    fn address(&mut self) -> Parsed<Operand<'a>> {
        let base = self.word("a register or a variable")?;
        let mut offset = 0;
        if self.take('+') || self.next_is('-') {
            offset = match self.literal()? {
                Literal::Int { bits, .. } => bits as i64,
                _ => return self.fail("an address offset is an integer"),
            };
        }
        self.expect(']')?;
        Ok(Operand::Address { base, offset })
    }
}
