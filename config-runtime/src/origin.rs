//! Where a value came from.

use std::fmt;
use std::panic::Location;
use std::path::PathBuf;

/// The source of one value of one leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// The default in the schema.
    Default,
    /// A rule: an `auto` leaf that nobody set, or a derived value.
    Rule {
        /// The function as written in the schema.
        function: &'static str,
    },
    /// A file.
    #[non_exhaustive]
    File {
        /// Its path as given.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// The profile within the file, unless the value stands at its top level.
        profile: Option<String>,
    },
    /// An environment variable.
    Env {
        /// Its name.
        variable: String,
    },
    /// A command-line flag.
    Flag {
        /// With its dashes.
        flag: String,
    },
    /// Received from a parent process.
    Snapshot {
        /// Where the parent had it from.
        origin: String,
        /// Whether somebody chose it there.
        is_chosen: bool,
    },
    /// Set by a test.
    Test,
    /// A decision taken while loading.
    LoadTime {
        /// Who decided, and why.
        why: String,
        /// The call in the program.
        location: &'static Location<'static>,
    },
    /// What makes a child context differ from its parent.
    Child {
        /// The child's name.
        name: String,
        /// The call in the program.
        location: &'static Location<'static>,
    },
    /// A permanent override.
    Permanent {
        /// Why, as the program said.
        why: String,
        /// The call in the program.
        location: &'static Location<'static>,
    },
    /// A permanent override that goes unless it is confirmed.
    Trial {
        /// Number of the layer within its context.
        id: u64,
        /// Why, as the program said.
        why: String,
        /// The call in the program.
        location: &'static Location<'static>,
    },
    /// An override that one thread or future sees.
    Scope {
        /// Why, as the program said.
        why: String,
        /// The call in the program.
        location: &'static Location<'static>,
    },
    /// An engine-wide override.
    Override {
        /// Number of the layer within its context.
        layer: u64,
        /// Why, as the program said.
        why: String,
        /// The call in the program.
        location: &'static Location<'static>,
    },
}

impl Origin {
    /// Stands before the origin that a value had in the process that sent it.
    pub(crate) const RECEIVED: &'static str = "parent process: ";

    /// Whether somebody chose the value, be it in a source or in a program: it is neither a default nor what a rule gives.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        match self {
            Self::Default | Self::Rule { .. } => false,
            Self::Snapshot { is_chosen, .. } => *is_chosen,
            Self::File { .. }
            | Self::Env { .. }
            | Self::Flag { .. }
            | Self::Test
            | Self::LoadTime { .. }
            | Self::Child { .. }
            | Self::Permanent { .. }
            | Self::Trial { .. }
            | Self::Scope { .. }
            | Self::Override { .. } => true,
        }
    }

    /// Whether both came from one source, where a leaf is given once.
    pub(crate) fn is_same_source(&self, other: &Self) -> bool {
        match (self, other) {
            // A profile is a source of its own, and a file read twice says the same twice.
            (Self::File { path: one, profile: of_one, .. }, Self::File { path: two, profile: of_two, .. }) => {
                one == two && of_one == of_two && self != other
            }
            (Self::Env { .. }, Self::Env { .. }) | (Self::Flag { .. }, Self::Flag { .. }) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Rule { function } => write!(f, "rule `{function}`"),
            Self::File { path, line, column, profile } => {
                write!(f, "{}:{line}:{column}", path.display())?;
                profile.iter().try_for_each(|profile| write!(f, " (profile {profile})"))
            }
            Self::Env { variable } => f.write_str(variable),
            Self::Flag { flag } => f.write_str(flag),
            Self::Snapshot { origin, .. } => write!(f, "{}{origin}", Self::RECEIVED),
            Self::Test => f.write_str("test"),
            Self::LoadTime { why, location } => write!(f, "load time {why:?} ({location})"),
            Self::Child { name, location } => write!(f, "child {name:?} ({location})"),
            Self::Permanent { why, location } => write!(f, "permanent override {why:?} ({location})"),
            Self::Trial { id, why, location } => write!(f, "trial {id} {why:?} ({location})"),
            Self::Scope { why, location } => write!(f, "scoped override {why:?} ({location})"),
            Self::Override { layer, why, location } => write!(f, "override {layer} {why:?} ({location})"),
        }
    }
}
