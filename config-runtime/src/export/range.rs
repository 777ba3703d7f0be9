//! Ranges as written in a schema, read as numbers.

/// The ends of a range that is written with plain numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Bounds {
    /// Without underscores and suffix.
    least: Option<String>,
    most: Option<String>,
    /// Whether the upper end itself is excluded.
    excludes_most: bool,
}

impl Bounds {
    /// `None` if an end is more than a number: a constant, a function, a value with a unit.
    pub(super) fn parse(range: &str) -> Option<Self> {
        let (least, most, excludes_most) = match range.split_once("..=") {
            Some((least, most)) => (least, most, false),
            None => range.split_once("..").map(|(least, most)| (least, most, true))?,
        };
        // An end may be left out; one that is there has to be a number.
        let end = |text: &str| if text.trim().is_empty() { Some(None) } else { number(text).map(Some) };
        Some(Self { least: end(least)?, most: end(most)?, excludes_most })
    }

    /// The least and the greatest integer, within the limits of the type; `None` if an end is not an integer.
    pub(super) fn integers(&self, min: i128, max: i128) -> Option<(i128, i128)> {
        let read = |end: &Option<String>, limit: i128| match end {
            Some(text) => text.parse::<i128>().ok(),
            None => Some(limit),
        };
        let excluded = i128::from(self.excludes_most && self.most.is_some());
        Some((read(&self.least, min)?.max(min), (read(&self.most, max)? - excluded).min(max)))
    }

    /// JSON Schema's keyword for each end, with its number.
    pub(super) fn numbers(&self) -> Vec<(&'static str, f64)> {
        let read = |end: &Option<String>| end.as_ref().and_then(|text| text.parse().ok());
        let most = if self.excludes_most { "exclusiveMaximum" } else { "maximum" };
        let ends = [("minimum", read(&self.least)), (most, read(&self.most))];
        ends.into_iter().filter_map(|(keyword, end)| Some((keyword, end?))).collect()
    }
}

/// A number in Rust's spelling, without underscores and suffix.
fn number(text: &str) -> Option<String> {
    let text = text.trim();
    let suffixes =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64"];
    let bare = suffixes.iter().find_map(|suffix| text.strip_suffix(suffix)).unwrap_or(text).replace('_', "");
    let starts_as_number = bare.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    (starts_as_number && bare.parse::<f64>().is_ok()).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_read_and_nothing_else() {
        let integers = |range: &str| Bounds::parse(range)?.integers(0, 255);
        let cases = [
            ("1..=10", Some((1, 10))),
            ("1..10", Some((1, 9))),
            ("1..", Some((1, 255))),
            ("..=7", Some((0, 7))),
            ("..7", Some((0, 6))),
            ("-5..=1_0u8", Some((0, 10))),
            ("3usize..=65_536", Some((3, 255))),
            ("0.5..=2.0", None),
            ("MIN..=10", None),
            ("1..=MAX", None),
            ("ByteSize(1)..", None),
            ("nan..", None),
            ("0x10..", None),
            ("1", None),
        ];
        for (range, expected) in cases {
            assert_eq!(integers(range), expected, "{range}");
        }
        assert_eq!(Bounds::parse("0.0..2.5f32").unwrap().numbers(), [("minimum", 0.0), ("exclusiveMaximum", 2.5)]);
        assert_eq!(Bounds::parse("..=1e3").unwrap().numbers(), [("maximum", 1000.0)]);
        for not_plain in ["inf..=9", "..=nan", "1 << 3..9", "LEAST..9"] {
            assert_eq!(Bounds::parse(not_plain), None, "{not_plain}");
        }
    }
}
