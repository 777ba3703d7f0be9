//! Mutants that are right all the same.

use super::{Mutant, Place};

/// The list in `harmless.txt`: of each mutant its place, and why it does no harm.
#[derive(Debug)]
pub struct Harmless(Vec<(Place, String)>);

impl Harmless {
    /// Reads the list.
    ///
    /// # Panics
    ///
    /// If an entry is not whole.
    #[must_use]
    pub fn read() -> Self {
        Self::parse(include_str!("../../harmless.txt"))
    }

    /// Entries are between empty lines: file, function and number, if it is not 1; `-` the lines; `+` what they become;
    /// `=` the reason, on one line or several. Lines with `#` are comments.
    fn parse(text: &str) -> Self {
        let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
        let entries = text.split("\n\n").map(str::trim).filter(|entry| !entry.is_empty());
        Self(entries.map(|entry| Self::entry(entry).unwrap_or_else(|| panic!("not an entry:\n{entry}"))).collect())
    }

    fn entry(entry: &str) -> Option<(Place, String)> {
        let mut lines = entry.lines();
        let mut words = lines.next()?.split(' ');
        let (file, function) = (words.next()?.to_owned(), words.next()?.to_owned());
        let number = words.next().map_or(Ok(1), str::parse).ok()?;
        let before = lines.next()?.strip_prefix("- ")?.to_owned();
        let after = lines.next()?.strip_prefix("+ ")?.to_owned();
        let reason: Vec<&str> = lines.map(|line| line.strip_prefix("= ")).collect::<Option<_>>()?;
        let reason = reason.join(" ");
        (!reason.is_empty()).then_some((Place { file, function, number, before, after }, reason))
    }

    /// Why a mutant does no harm, if it is in the list.
    #[must_use]
    pub fn reason(&self, mutant: &Mutant) -> Option<&str> {
        self.0.iter().find(|(place, _)| mutant.is(place)).map(|(_, reason)| reason.as_str())
    }

    /// Entries of the list that none of these mutants is.
    #[must_use]
    pub fn stale(&self, mutants: &[Mutant]) -> Vec<String> {
        let stale = self.0.iter().filter(|(place, _)| !mutants.iter().any(|mutant| mutant.is(place)));
        stale.map(|(place, _)| format!("{} {}: {}", place.file, place.function, place.after)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_whole() {
        let list = Harmless::parse("# a comment\n\na.cu f 2\n- x < y\n+ x <= y\n= Because\n= of that.\n");
        let (place, reason) = &list.0[0];
        assert_eq!((place.file.as_str(), place.function.as_str(), place.number), ("a.cu", "f", 2));
        assert_eq!((place.before.as_str(), place.after.as_str()), ("x < y", "x <= y"));
        assert_eq!(reason, "Because of that.");
        assert_eq!(list.stale(&[]), ["a.cu f: x <= y"]);
    }

    #[test]
    #[should_panic(expected = "not an entry")]
    fn an_entry_without_a_reason_is_refused() {
        let _ = Harmless::parse("a.cu f\n- x < y\n+ x <= y\n");
    }
}
