//! Licence expressions, as `Cargo.toml` writes them.

/// Whether what `accepted` accepts is enough to use a crate under `expression`.
///
/// Reads SPDX expressions and the older `MIT/Apache-2.0`. What is not understood is not accepted.
pub(crate) fn permits(expression: &str, accepted: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, accepted };
    parser.any() == Some(true) && parser.words.is_empty()
}

/// Reads from the front of `words`; each method returns whether the part it read is satisfied.
struct Parser<'a> {
    words: &'a [&'a str],
    accepted: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn take_if(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn any(&mut self) -> Option<bool> {
        let mut satisfied = self.all()?;
        while self.take_if("OR") {
            satisfied |= self.all()?;
        }
        Some(satisfied)
    }

    fn all(&mut self) -> Option<bool> {
        let mut satisfied = self.one()?;
        while self.take_if("AND") {
            satisfied &= self.one()?;
        }
        Some(satisfied)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take_if("(") {
            let satisfied = self.any()?;
            return self.take_if(")").then_some(satisfied);
        }
        let name = self.take().filter(|word| !["OR", "AND", "WITH", ")"].contains(word))?;
        if self.take_if("WITH") {
            let exception = self.take()?;
            return Some((self.accepted)(&format!("{name} WITH {exception}")));
        }
        Some((self.accepted)(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged_by_what_is_accepted() {
        let accepted = |name: &str| ["MIT", "Apache-2.0", "Unicode-3.0", "X WITH exception"].contains(&name);
        for (expression, want) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(GPL-3.0 OR MPL-2.0) AND MIT", false),
            ("MIT OR GPL-3.0 AND MPL-2.0", true),
            ("X WITH exception", true),
            ("MIT WITH exception", false),
            ("", false),
            ("(MIT", false),
            ("MIT)", false),
            ("MIT OR", false),
            ("MIT Apache-2.0", false),
        ] {
            assert_eq!(permits(expression, &accepted), want, "{expression}");
        }
    }
}
