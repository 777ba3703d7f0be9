//! The shape of a PTX module as written, before names are resolved.

use crate::ty::{Space, Ty};

/// A parsed module.
#[derive(Debug, Default)]
pub(crate) struct Source<'a> {
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) entries: Vec<Entry<'a>>,
    pub(crate) files: Vec<(u32, &'a str)>,
}

/// A `.global`, `.const`, `.shared` or `.local` declaration.
#[derive(Debug, Clone)]
pub(crate) struct Variable<'a> {
    pub(crate) space: Space,
    pub(crate) name: &'a str,
    pub(crate) align: u32,
    /// Bytes; `None` for an `.extern` array without length (dynamic shared memory).
    pub(crate) bytes: Option<u32>,
    /// Initial contents; shorter than `bytes` means zeros follow.
    pub(crate) initial: Vec<u8>,
    pub(crate) line: u32,
}

/// A kernel.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) params: Vec<Param<'a>>,
    pub(crate) limits: Limits,
    pub(crate) body: Vec<Item<'a>>,
    pub(crate) line: u32,
}

/// What the kernel's directives say about its block size.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_threads: Option<u32>,
    pub(crate) required: Option<[u32; 3]>,
}

/// A kernel parameter.
#[derive(Debug)]
pub(crate) struct Param<'a> {
    pub(crate) name: &'a str,
    pub(crate) align: u32,
    pub(crate) bytes: u32,
}

/// One thing in a kernel body.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Open,
    Close,
    Label(&'a str, u32),
    /// `.reg .f32 %f<4>, %x;` with the count of a numbered family.
    Registers(Ty, Vec<(&'a str, Option<u32>)>, u32),
    Variable(Variable<'a>),
    Instruction(Instruction<'a>),
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    pub(crate) guard: Option<Guard<'a>>,
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
    pub(crate) line: u32,
    pub(crate) position: Option<Position>,
}

/// `@%p` or `@!%p`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub(crate) register: &'a str,
    pub(crate) negated: bool,
}

/// A source position from `.loc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) at: Place,
    pub(crate) inlined_at: Option<Place>,
}

/// File number, line, column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Literal {
    /// An integer; a negative one wraps.
    Int { bits: u64, negative: bool },
    /// `0f` and the bits of an `f32`.
    Single(u32),
    /// `0d` and the bits of an `f64`.
    Double(u64),
}

/// An operand as written.
#[derive(Debug, Clone)]
pub(crate) enum Operand<'a> {
    /// A register, special register, label or variable.
    Name(&'a str),
    /// `!%p`.
    Not(&'a str),
    Literal(Literal),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `[base + offset]`.
    Address {
        base: &'a str,
        offset: i64,
    },
    /// `%d|%p`.
    Pair(&'a str, &'a str),
}

impl Literal {
    /// Reads `word` as a literal; `None` if it is not one.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        if let Some(hex) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
            return (hex.len() == 8).then(|| u32::from_str_radix(hex, 16).ok().map(Self::Single))?;
        }
        if let Some(hex) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
            return (hex.len() == 16).then(|| u64::from_str_radix(hex, 16).ok().map(Self::Double))?;
        }
        let digits = word.strip_suffix('U').unwrap_or(word);
        let bits = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16)
        } else if let Some(binary) = digits.strip_prefix("0b") {
            u64::from_str_radix(binary, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        bits.ok().map(|bits| Self::Int { bits, negative: false })
    }
}
