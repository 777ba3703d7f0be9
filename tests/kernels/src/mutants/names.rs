//! What the names of a source stand for, as far as telling offsets from arithmetic on values needs it.

use std::collections::HashMap;

/// What a name or an expression is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Whole numbers and everything else that offsets are made of.
    Index,
    /// A value: sums and products of it are no offsets.
    Float,
    /// An address, or an array.
    Pointer {
        /// Whether floating-point numbers are there.
        to_float: bool,
    },
}

impl Class {
    /// What is at an address.
    pub(super) fn element(self) -> Self {
        match self {
            Self::Pointer { to_float: true } | Self::Float => Self::Float,
            Self::Pointer { to_float: false } | Self::Index => Self::Index,
        }
    }
}

/// Functions of the machine and of the compiler that give floating-point numbers.
const FLOAT_FUNCTIONS: [&str; 14] = [
    "__fdividef",
    "__fmaf_rn",
    "__int_as_float",
    "__uint_as_float",
    "expf",
    "fabsf",
    "float",
    "fmaf",
    "fmaxf",
    "fminf",
    "log2f",
    "rsqrtf",
    "sqrtf",
    "tanhf",
];

/// The names of the files read so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    variables: HashMap<String, Class>,
    members: HashMap<String, Class>,
    functions: HashMap<String, Class>,
}

impl Names {
    /// Learns which macros of a text are floating-point numbers.
    pub(super) fn read_macros(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some("#define"), Some(name), Some(value)) = (words.next(), words.next(), words.next())
                && is_float(value)
            {
                self.variables.insert(name.to_owned(), Class::Float);
            }
        }
    }

    pub(super) fn variable(&self, name: &str) -> Class {
        self.variables.get(name).copied().unwrap_or(Class::Index)
    }

    pub(super) fn member(&self, name: &str) -> Class {
        self.members.get(name).copied().unwrap_or(Class::Index)
    }

    pub(super) fn function(&self, name: &str) -> Class {
        let unknown = if FLOAT_FUNCTIONS.contains(&name) { Class::Float } else { Class::Index };
        self.functions.get(name).copied().unwrap_or(unknown)
    }

    pub(super) fn add_variable(&mut self, name: &str, class: Class) {
        self.variables.insert(name.to_owned(), class);
    }

    pub(super) fn add_member(&mut self, name: &str, class: Class) {
        self.members.insert(name.to_owned(), class);
    }

    pub(super) fn add_function(&mut self, name: &str, class: Class) {
        self.functions.insert(name.to_owned(), class);
    }
}

/// Whether a number is a floating-point one.
pub(super) fn is_float(number: &str) -> bool {
    number.starts_with(|c: char| c.is_ascii_digit())
        && !number.starts_with("0x")
        && (number.contains('.') || number.ends_with('f'))
}

/// Whether a name is one that the compiler knows the value of: a macro, an enumerator or a template's parameter.
pub(super) fn is_constant(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && !name.contains(|c: char| c.is_ascii_lowercase())
}
