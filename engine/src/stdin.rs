//! Text from standard input.

use std::io::{BufRead, Read};

use crate::cli::Failure;

/// All of it, without the line end that a shell puts behind the last line.
pub(crate) fn read_all() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
    text(bytes, 0)
}

/// The lines of standard input.
#[derive(Default)]
pub(crate) struct Lines {
    /// Bytes before the next line.
    read: usize,
}

impl Lines {
    /// The next line without its end; nothing when there are no more.
    pub(crate) fn next(&mut self) -> Result<Option<String>, Failure> {
        let mut bytes = Vec::new();
        let length = std::io::stdin().lock().read_until(b'\n', &mut bytes).map_err(|e| unreadable(&e))?;
        if length == 0 {
            return Ok(None);
        }
        let line = text(bytes, self.read)?;
        self.read += length;
        Ok(Some(line))
    }
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::Run(format!("cannot read standard input: {error}"))
}

/// `bytes` as text without one line end; `before` bytes of the input came before them.
fn text(bytes: Vec<u8>, before: usize) -> Result<String, Failure> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[at];
        Failure::Run(format!("standard input is not UTF-8 text: byte {} is {byte:#04x}", before + at + 1))
    })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}
