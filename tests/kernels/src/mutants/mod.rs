//! Kernels that are broken in one place: every barrier, wait, guard, mask, offset and sum of every kernel, each on its
//! own.
//!
//! [`mutants`] finds them in the sources, [`Trial`] tries them out on the problems of [`subjects`](crate::subjects), and
//! [`Harmless`] lists those that are right all the same, with the reason.

mod harmless;
mod names;
mod reader;
mod sources;
mod tokens;
mod trial;

use std::fmt;

use names::Names;
use reader::{Change, changes};

pub use harmless::Harmless;
pub use sources::Sources;
pub use trial::{Trial, Verdict};

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A barrier is left out.
    Barrier,
    /// A wait for copies, or the end of a group of copies, is left out; or one group fewer is waited for.
    Wait,
    /// A comparison is off by one, or a condition does not hold anything up.
    Guard,
    /// What is masked is not, a part of the condition does not count, or bits are not taken away or added.
    Mask,
    /// A term of an offset is left out, or off by one.
    Offset,
    /// A term or a factor of a value is left out.
    Value,
}

kernels::named! {
    /// What it is called in lists and arguments.
    Kind {
        Barrier => "barrier",
        Wait => "wait",
        Guard => "guard",
        Mask => "mask",
        Offset => "offset",
        Value => "value",
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One broken place.
///
/// Its file, function and lines say which one it is, and stay the same when lines move. Where that leaves several, they
/// are numbered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The file in `kernels/cu`.
    pub file: String,
    /// The function in it.
    pub function: String,
    /// Which of several that look the same, from 1.
    pub number: usize,
    /// What is broken.
    pub kind: Kind,
    /// The lines as they are, with single spaces.
    pub before: String,
    /// The broken lines.
    pub after: String,
    /// The file's whole text, broken.
    pub text: String,
}

impl Mutant {
    /// Whether two are the same place.
    pub(crate) fn is(&self, place: &Place) -> bool {
        self.file == place.file
            && self.function == place.function
            && self.number == place.number
            && self.before == place.before
            && self.after == place.after
    }
}

/// As lines that a list can have.
impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file, self.function)?;
        if self.number > 1 {
            write!(f, " {}", self.number)?;
        }
        write!(f, "\n- {}\n+ {}", self.before, self.after)
    }
}

/// What tells a mutant from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) number: usize,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// All mutants of a file, which is a kernel or a header.
///
/// # Panics
///
/// If the file is not written in the part of C++ that the kernels have kept to so far; the message names the line.
#[must_use]
pub fn mutants(sources: &Sources, file: &str) -> Vec<Mutant> {
    let mut names = Names::default();
    let mut found = Vec::new();
    for part in sources.parts(file) {
        found = changes(sources.text(part), &mut names);
    }
    let text = sources.text(file);
    let mut mutants: Vec<Mutant> = Vec::with_capacity(found.len());
    for change in found {
        let mut mutant = apply(file, text, change);
        let same = |other: &&Mutant| {
            other.function == mutant.function && other.before == mutant.before && other.after == mutant.after
        };
        mutant.number += mutants.iter().filter(same).count();
        mutants.push(mutant);
    }
    mutants
}

fn apply(file: &str, text: &str, change: Change) -> Mutant {
    let Change { function, kind, place, with } = change;
    let start = text[..place.start].rfind('\n').map_or(0, |end| end + 1);
    let end = text[place.end..].find('\n').map_or(text.len(), |end| place.end + end);
    let (head, tail) = (&text[start..place.start], &text[place.end..end]);
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Mutant {
        file: file.to_owned(),
        function,
        number: 1,
        kind,
        before: one_line(&text[start..end]),
        after: one_line(&format!("{head}{with}{tail}")),
        text: format!("{}{with}{}", &text[..place.start], &text[place.end..]),
    }
}

/// Whether a function of `file` is used by a kernel, as far as names tell.
fn uses(sources: &Sources, kernel: &str, file: &str, function: &str) -> bool {
    if kernel == file {
        return true;
    }
    let parts = sources.parts(kernel);
    if !parts.contains(&file) {
        return false;
    }
    let is_word = |text: &str, name: &str| tokens::tokens(text).iter().any(|(_, place)| &text[place.clone()] == name);
    let mut wanted = vec![function.to_owned()];
    let mut seen = 0;
    while let Some(name) = wanted.get(seen).cloned() {
        if is_word(sources.text(kernel), &name) {
            return true;
        }
        for part in &parts {
            for user in reader::users(sources.text(part), &name) {
                if !wanted.contains(&user) {
                    wanted.push(user);
                }
            }
        }
        seen += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a function's body.
    fn broken(body: &str) -> Vec<String> {
        let text = format!("DEVICE void f(const float *x, float y, i32 i, i32 n) {{ {body} }}");
        let mutants = changes(&text, &mut Names::default());
        let one = |Change { place, with, .. }: Change| format!("{}{with}{}", &text[..place.start], &text[place.end..]);
        let body_of = |text: String| text[text.find('{').unwrap() + 2..text.len() - 2].to_owned();
        mutants.into_iter().map(one).map(body_of).collect()
    }

    #[test]
    fn barriers_and_waits_go_one_at_a_time() {
        assert_eq!(broken("__syncthreads(); __syncwarp(m);"), ["(void)0; __syncwarp(m);", "__syncthreads(); (void)0;"]);
        assert_eq!(broken("wait_for_copies<N - 2>();"), ["(void)0;", "wait_for_copies<(N - 2) + 1>();"]);
        assert_eq!(broken("close_copy_group();"), ["(void)0;"]);
    }

    #[test]
    fn a_guard_is_dropped_and_moved_either_way() {
        assert_eq!(
            broken("if (i >= n) return;"),
            ["if (false) return;", "if (i > n) return;", "if (i >= -1 + (n)) return;"]
        );
        assert_eq!(broken("if (i == n) x[0];"), ["if (true) x[0];"]);
        assert_eq!(
            broken("for (i32 k = i; k < n && y; k++) {}"),
            [
                "for (i32 k = i; y; k++) {}",
                "for (i32 k = i; k < -1 + (n) && y; k++) {}",
                "for (i32 k = i; k <= n && y; k++) {}",
                "for (i32 k = i; k < n; k++) {}",
            ]
        );
        assert_eq!(broken("bool a = i < n;"), ["bool a = true;", "bool a = i < -1 + (n);", "bool a = i <= n;"]);
        assert_eq!(
            broken("copy(x, i == n); return i != n;"),
            ["copy(x, true); return i != n;", "copy(x, i == n); return true;"]
        );
        // What the compiler decides is no guard.
        assert_eq!(broken("if (NORM == 2) x[0]; bool a = NORM == 2;"), [""; 0]);
    }

    #[test]
    fn a_clamped_number_is_let_through() {
        assert_eq!(broken("i32 k = min(i, n); k = max(i, 0);").len(), 3);
        assert_eq!(broken("i32 k = min(i, n);"), ["i32 k = (i);", "i32 k = (n);"]);
    }

    /// It has the class of what it is held to, whatever else is called so.
    #[test]
    fn a_sum_of_a_clamped_value_is_a_value() {
        let kinds = |body: &str| -> Vec<Kind> {
            let text = format!("DEVICE float max(i32 x) {{ }} DEVICE void f(float y, i32 i, i32 n) {{ {body} }}");
            let mut kinds: Vec<Kind> = changes(&text, &mut Names::default()).into_iter().map(|it| it.kind).collect();
            kinds.sort();
            kinds.dedup();
            kinds
        };
        assert_eq!(kinds("float a = max(y, 0.5f) + y;"), [Kind::Guard, Kind::Value]);
        assert_eq!(kinds("i32 a = max(i, n) + n;"), [Kind::Guard, Kind::Offset]);
    }

    #[test]
    fn a_loop_that_is_written_out_is_only_shortened() {
        let text = "DEVICE void f() {\n#pragma unroll\n  for (int i = 0; i < 4; i++) {}\n}";
        let found = changes(text, &mut Names::default());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].with, " < -1 + (4)");
    }

    #[test]
    fn a_mask_lets_through_what_it_held_up() {
        assert_eq!(broken("i32 a = i == n ? n : -1;"), ["i32 a = true ? n : -1;"]);
        assert_eq!(broken("i32 a = i == n ? 0 : n;"), ["i32 a = false ? 0 : n;"]);
        assert_eq!(broken("i32 a = i & n;"), ["i32 a = i;"]);
        assert_eq!(broken("i |= n; n &= i;"), ["(void)0; n &= i;", "i |= n; (void)0;"]);
        // Either it masks nothing, or all.
        assert_eq!(broken("if (i == n) y = 0.0f;"), ["if (false) y = 0.0f;", "if (true) y = 0.0f;"]);
    }

    /// What a loop or a function within an expression does at its end is not what the statement does that it is in.
    #[test]
    fn only_a_single_assignment_of_nothing_is_a_mask_and_only_what_leaves_is_left_out() {
        for statement in [
            "for (i32 k = 0; k < 4; k++) y = 0.0f;",
            "while (y) y = 0.0f;",
            "do y = 0.0f; while (y);",
            "each([&](i32 k) { y = 0.0f; });",
            "set(y = 0.0f);",
            "{ y = 0.0f; }",
            "for (i32 k = 0; k < 4; k++) break;",
            "do { break; } while (y);",
            "each([&](i32 k) { return; });",
            "if (y) return;",
        ] {
            let broken = broken(&format!("if (i == n) {statement}"));
            assert!(broken.contains(&format!("if (true) {statement}")), "{broken:?}");
            assert!(!broken.contains(&format!("if (false) {statement}")), "{broken:?}");
        }
    }

    #[test]
    fn offsets_lose_a_term_or_are_one_off_and_values_lose_one() {
        assert_eq!(broken("float a = x[i + 4];"), ["float a = x[i];", "float a = x[i + 1 + 4];"]);
        assert_eq!(broken("f(x + i * n);"), ["f(x);", "f(x + 1 + i * n);", "f(x + i);", "f(x + i * (1 + n));"]);
        assert_eq!(broken("float a = 2.0f * y - x[i];"), ["float a = y - x[i];", "float a = 2.0f * y;"]);
        assert_eq!(broken("x += n; y += 1.0f;"), ["(void)0; y += 1.0f;", "x += n; (void)0;"]);
        assert_eq!(broken("auto g = [&](i32 k) { return k << 2; };").len(), 2);
        assert_eq!(broken("i32 a = (i64)i * 2;"), ["i32 a = (i64)i;", "i32 a = (i64)i * (1 + 2);"]);
    }

    #[test]
    fn a_mutant_is_known_by_its_lines_and_function() {
        let text = "DEVICE void f() {\n  __syncthreads();\n  g();\n  __syncthreads();\n}\n";
        let found = changes(text, &mut Names::default());
        assert_eq!(found.len(), 2);
        let mutant = apply("a.cu", text, found[1].clone());
        assert_eq!(mutant.to_string(), "a.cu f\n- __syncthreads();\n+ (void)0;");
        assert_eq!(mutant.text.matches("__syncthreads").count(), 1);
    }
}
