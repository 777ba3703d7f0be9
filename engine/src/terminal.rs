//! What is for terminals alone: colours, on one that takes them and for a user who has not refused them, and progress.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error that counts bytes, or nothing where that is no terminal.
pub(crate) fn progress_bar(doing: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:40} {bytes} of {total_bytes}");
    ProgressBar::new(0).with_style(style.expect("the template is a constant and correct")).with_message(doing)
}

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// For standard output.
    pub(crate) fn for_stdout() -> Self {
        // `NO_COLOR` counts unless it is empty, as https://no-color.org has it.
        let refuses = |name: &OsStr, value: &OsStr| {
            (name == "NO_COLOR" && !value.is_empty()) || (name == "TERM" && value == "dumb")
        };
        let refused = std::env::vars_os().any(|(name, value)| refuses(&name, &value));
        Self { is_on: std::io::stdout().is_terminal() && !refused }
    }

    /// What counts.
    pub(crate) fn bold(self, text: impl Display) -> String {
        self.painted(1, text)
    }

    /// What is said besides.
    pub(crate) fn dim(self, text: impl Display) -> String {
        self.painted(2, text)
    }

    /// What is gone.
    pub(crate) fn red(self, text: impl Display) -> String {
        self.painted(31, text)
    }

    /// What has come, or is well.
    pub(crate) fn green(self, text: impl Display) -> String {
        self.painted(32, text)
    }

    /// What asks for attention.
    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.painted(33, text)
    }

    fn painted(self, code: u8, text: impl Display) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}
