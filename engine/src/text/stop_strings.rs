//! Ending a text where a given string begins.

/// Passes text on until one of some strings appears in it.
///
/// Text that may be the beginning of such a string is held back until more is known, so that no part of the string is ever passed on.
/// Where a text ends does not depend on the pieces it comes in.
///
/// ```
/// use engine::text::StopStrings;
///
/// let stops = ["END".to_owned()];
/// let mut stops = StopStrings::new(&stops);
/// assert_eq!(stops.push("the E"), "the ");
/// assert_eq!(stops.push("nd. The EN"), "End. The ");
/// assert_eq!(stops.push("D of it"), "");
/// assert!(stops.is_stopped());
/// ```
#[derive(Debug)]
pub struct StopStrings<'a> {
    stops: &'a [String],
    /// Text that is not passed on yet.
    held: String,
    is_stopped: bool,
}

impl<'a> StopStrings<'a> {
    /// Nothing has been passed on. An empty string among `stops` never appears.
    #[must_use]
    pub fn new(stops: &'a [String]) -> Self {
        Self { stops, held: String::new(), is_stopped: false }
    }

    /// Takes the next piece of the text and returns what is certain to be before any of the strings.
    pub fn push(&mut self, piece: &str) -> String {
        if self.is_stopped {
            return String::new();
        }
        self.held.push_str(piece);
        // Of several strings the one that is whole first counts, as if the text came letter by letter.
        let ends = self.stops().filter_map(|stop| self.held.find(stop).map(|start| (start + stop.len(), start)));
        if let Some((_, start)) = ends.min() {
            self.is_stopped = true;
            self.held.truncate(start);
            return std::mem::take(&mut self.held);
        }
        let kept = self.stops().map(|stop| self.begun(stop)).max().unwrap_or_default();
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }

    /// Whether one of the strings has appeared.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// What is held back, when no more text comes.
    #[must_use]
    pub fn take_rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn stops(&self) -> impl Iterator<Item = &'a str> {
        self.stops.iter().map(String::as_str).filter(|stop| !stop.is_empty())
    }

    /// The bytes at the end of the held text that `stop` may begin with.
    fn begun(&self, stop: &str) -> usize {
        let mut lengths = stop.char_indices().map(|(length, _)| length).rev();
        lengths.find(|&length| self.held.ends_with(&stop[..length])).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::StopStrings;

    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
        let mut matcher = StopStrings::new(&stops);
        let mut out: Vec<String> = pieces.iter().map(|piece| matcher.push(piece)).collect();
        let is_stopped = matcher.is_stopped();
        out.push(matcher.take_rest());
        (out, is_stopped)
    }

    #[test]
    fn text_that_only_looks_like_the_beginning_is_passed_on_in_full() {
        let (out, is_stopped) = run(&["abc"], &["xab", "abx", "ab"]);
        assert_eq!((out, is_stopped), (vec!["x".into(), "ababx".into(), String::new(), "ab".into()], false));
        assert_eq!(run(&[], &["a", "b"]), (vec!["a".into(), "b".into(), String::new()], false));
        assert_eq!(run(&[""], &["a"]), (vec!["a".into(), String::new()], false));
    }

    #[test]
    fn nothing_comes_after_the_string() {
        let (out, is_stopped) = run(&["\n\n"], &["one\n", "\ntwo", "three"]);
        assert_eq!((out.concat().as_str(), is_stopped), ("one", true));
        assert_eq!(out[0], "one");
    }

    #[test]
    fn the_string_that_is_whole_first_counts_also_where_another_began_before() {
        assert_eq!(run(&["abcd", "bc"], &["xabcd"]), (vec!["xa".into(), String::new()], true));
    }

    #[test]
    fn characters_of_several_bytes_are_kept_whole() {
        assert_eq!(run(&["é!"], &["caf", "é", "?"]).0, ["caf", "", "é?", ""]);
        let (out, is_stopped) = run(&["🦀🦀"], &["🦀", "a🦀", "🦀"]);
        assert_eq!((out.concat().as_str(), is_stopped, out[0].as_str()), ("🦀a", true, ""));
    }

    #[test]
    fn where_a_text_ends_does_not_depend_on_its_pieces() {
        let text = "abcabcabdabcdbcdab";
        for stops in [&["abcd", "bc"][..], &["bcd", "abd"], &["abcabd"], &["d", "abd"], &["dab", "x"], &["nowhere"]] {
            let letters: Vec<&str> = text.split("").collect();
            let (want, is_stopped) = run(stops, &letters);
            for first in 0..=text.len() {
                for second in first..=text.len() {
                    let pieces = [&text[..first], &text[first..second], &text[second..]];
                    let (out, stopped) = run(stops, &pieces);
                    assert_eq!((out.concat(), stopped), (want.concat(), is_stopped), "{stops:?} {pieces:?}");
                }
            }
        }
    }
}
