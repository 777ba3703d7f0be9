//! One read more, anywhere in a program, is found at its place, and the pin says so; one read less is noticed too.

use std::fs;
use std::path::Path;

use kitbag_census::{Census, Sources, pin, scan};
use proptest::prelude::*;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Ways to read a leaf from a place where nothing is in scope. `FIELD` is the leaf, `ARGS` an expression for the struct.
const FORMS: &[&str] = &[
    "let _ = &ARGS.FIELD;",
    "let a = ARGS; let b = &a; let _ = &b.FIELD;",
    "{ let inner = &ARGS; let again = inner.clone(); drop(again.FIELD.clone()); }",
    "println!(\"{:?}\", ARGS.FIELD);",
    "let _ = vec![ARGS.FIELD.clone()];",
    "let crate::args::Args { FIELD, .. } = ARGS;",
    "let crate::args::Args { FIELD: other, .. } = &ARGS;",
    "if let crate::args::Args { FIELD: _x, .. } = ARGS {}",
    "match ARGS { a => { let _ = &a.FIELD; } }",
    "let read = |a: &crate::args::Args| a.FIELD.clone(); let _ = read(&ARGS);",
    "fn with<R>(a: &crate::args::Args, f: impl Fn(&crate::args::Args) -> R) -> R { f(a) } with(&ARGS, |a| a.FIELD.clone());",
    "let _ = Some(ARGS).map(|a| a.FIELD.clone());",
    "for a in [ARGS] { let _ = &a.FIELD; }",
    "fn inner(a: &crate::args::Args) { let _ = &a.FIELD; } inner(&ARGS);",
    "struct Parked { a: crate::args::Args } let parked = Parked { a: ARGS }; let _ = &parked.a.FIELD;",
    "impl Own for crate::args::Args { fn own(&self) { let _ = &self.FIELD; } } trait Own { fn own(&self); }",
    "std::thread::spawn(move || { let a = ARGS; assert!(format!(\"{:?}\", a.FIELD).len() > 0); });",
    "custom!(one => ARGS.FIELD; two);",
    "let a; a = &ARGS; let _ = [a.FIELD.clone()];",
    "let tuple = (1, ARGS); let _ = &tuple.1.FIELD;",
    "let boxed = std::sync::Arc::new(std::sync::Mutex::new(ARGS)); let _ = boxed.lock().unwrap().FIELD.clone();",
];

const MAKERS: &[&str] = &["crate::args::Args::default()", "<crate::args::Args as Default>::default()"];

fn texts() -> Vec<(String, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/aliases/src");
    let mut texts: Vec<_> = fs::read_dir(source)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = format!("src/{}", path.file_name().unwrap().to_str().unwrap());
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    texts.sort();
    texts
}

/// Line and column of the start of every statement.
#[derive(Default)]
struct Statements(Vec<(usize, usize)>);

impl<'a> Visit<'a> for Statements {
    fn visit_stmt(&mut self, statement: &'a syn::Stmt) {
        let start = statement.span().start();
        self.0.push((start.line, start.column));
        visit::visit_stmt(self, statement);
    }
}

fn positions(text: &str) -> Vec<(usize, usize)> {
    let mut statements = Statements::default();
    statements.visit_file(&syn::parse_file(text).unwrap());
    statements.0
}

fn census(texts: &[(String, String)]) -> Census {
    scan(&Sources::from_texts(texts).unwrap(), "Args").unwrap()
}

/// The text with a statement in front of the one at a position; every line break in front keeps the lines after it.
fn with_statement(text: &str, (line, column): (usize, usize), statement: &str) -> String {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let byte = lines[line - 1].char_indices().nth(column).map_or(lines[line - 1].len(), |(byte, _)| byte);
    lines[line - 1].insert_str(byte, &format!("{statement}\n"));
    lines.join("\n")
}

fn leaves(census: &Census, field: &str) -> usize {
    census.leaf_reads().filter(|read| read.what.field() == field).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_added_read_is_found(
        file in any::<prop::sample::Index>(),
        position in any::<prop::sample::Index>(),
        form in any::<prop::sample::Index>(),
        maker in any::<prop::sample::Index>(),
        field in any::<prop::sample::Index>(),
    ) {
        let mut texts = texts();
        let before = census(&texts);
        let file = file.index(texts.len());
        let position = {
            let positions = positions(&texts[file].1);
            prop_assume!(!positions.is_empty());
            positions[position.index(positions.len())]
        };
        let field = &before.fields[field.index(before.fields.len())].path;
        let statement = FORMS[form.index(FORMS.len())]
            .replace("ARGS", MAKERS[maker.index(MAKERS.len())])
            .replace("FIELD", field);
        texts[file].1 = with_statement(&texts[file].1, position, &statement);
        let after = census(&texts);
        prop_assert_eq!(leaves(&after, field), leaves(&before, field) + 1, "{} in {}", statement, texts[file].0);

        let column = position.1 + statement.find(&format!(".{field}")).map_or_else(
            || statement.find(&format!("{{ {field}")).unwrap() + 2,
            |at| at + 1,
        );
        let found = after.leaf_reads().any(|read| {
            let place = &read.place;
            (place.file.as_str(), place.line, place.column) == (texts[file].0.as_str(), position.0, column + 1)
                && read.what.field() == field
        });
        prop_assert!(found, "{}:{}:{} {}", texts[file].0, position.0, column + 1, statement);

        let pinned = pin::text(&before);
        let faults = pin::check(&after, &pinned, "repin").unwrap_err().join("\n");
        prop_assert!(faults.contains(&format!("added: read of `{field}` in {}", texts[file].0)), "{faults}");
        let place = format!("{}:{}:{}", texts[file].0, position.0, column + 1);
        prop_assert!(faults.contains(&place), "{faults}");
        // The other way round it is gone.
        let faults = pin::check(&before, &pin::text(&after), "repin").unwrap_err().join("\n");
        prop_assert!(faults.contains(&format!("gone: read of `{field}` in {}", texts[file].0)), "{faults}");
        prop_assert!(faults.contains("`repin`"), "{faults}");
    }
}

#[test]
fn every_form_is_found_and_every_position() {
    let original = texts();
    let before = leaves(&census(&original), "mamba_slots");
    let mut forms = FORMS.iter().cycle();
    for (file, (name, text)) in original.iter().enumerate() {
        for position in positions(text) {
            let form = forms.next().unwrap();
            let statement = form.replace("ARGS", MAKERS[0]).replace("FIELD", "mamba_slots");
            let mut texts = original.clone();
            texts[file].1 = with_statement(text, position, &statement);
            assert_eq!(leaves(&census(&texts), "mamba_slots"), before + 1, "{statement} at {name}:{position:?}");
        }
    }
}

#[test]
fn a_pin_holds_for_what_it_was_made_of() {
    let census = census(&texts());
    let text = pin::text(&census);
    pin::check(&census, &text, "repin").unwrap();
    assert!(text.contains("read src/overlap.rs overlap_depth 1\n"), "{text}");
    let fault = pin::check(&census, "read src/a.rs\n", "repin").unwrap_err();
    assert_eq!(fault, ["line 1 of the pin: expected `kind file field count`, found `read src/a.rs`"]);
}
