//! Rust code of README and docs: each block is a test of this package, run by `cargo test --doc`.

#![allow(clippy::doc_markdown)] // These are pages to read, where not every name is code.

#[doc = include_str!("../../../README.md")]
pub mod readme {}

#[doc = include_str!("../../../ARCHITECTURE.md")]
pub mod architecture {}

#[doc = include_str!("../../../CONTRIBUTING.md")]
pub mod contributing {}

#[doc = include_str!("../../../docs/census.md")]
pub mod census {}

#[doc = include_str!("../../../docs/comparison.md")]
pub mod comparison {}

#[doc = include_str!("../../../docs/cuda.md")]
pub mod cuda {}

#[doc = include_str!("../../../docs/guide.md")]
pub mod guide {}

#[doc = include_str!("../../../docs/incidents.md")]
pub mod incidents {}

#[doc = include_str!("../../../docs/migration.md")]
pub mod migration {}

#[doc = include_str!("../../../docs/readers.md")]
pub mod readers {}

#[doc = include_str!("../../../docs/roofline.md")]
pub mod roofline {}

#[doc = include_str!("../../../docs/surface.md")]
pub mod surface {}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    fn read(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Folders in it hold what is generated.
    #[test]
    fn every_file_of_docs_is_included() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for entry in fs::read_dir(docs).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                continue;
            }
            let name = entry.file_name().into_string().unwrap();
            let included = include_str!("lib.rs").contains(&format!("../../../docs/{name}\""));
            assert!(included, "docs/{name} is not included in tests/docs/src/lib.rs");
        }
    }

    /// Attributes are the fields of the structs that they are parsed into.
    #[test]
    fn every_attribute_is_in_code_that_runs() {
        let page = read("docs/guide.md");
        let mut code = String::new();
        for block in page.split("\n```rust").skip(1) {
            code.push_str(block.split("\n```").next().unwrap_or_default());
        }
        let source = read("config-derive/src/attributes.rs");
        let structs = source.split("#[darling(attributes(config)").skip(1).map(|rest| rest.split("\n}").next());
        let fields = structs
            .flatten()
            .flat_map(str::lines)
            .filter_map(|line| line.trim_start().strip_prefix("pub(crate) ").and_then(|field| field.split_once(": ")));
        let names: Vec<_> =
            fields.map(|(name, _)| name).filter(|name| !["ident", "vis", "ty", "attrs"].contains(name)).collect();
        assert!(names.len() > 15 && names.contains(&"derived") && names.contains(&"alias"), "{names:?}");
        for name in names.into_iter().chain(["cases", "twin", "live", "at_publish", "at_launch", "name", "reads"]) {
            let is_used = code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .any(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name));
            // What holds if nothing is written is told in words.
            assert!(is_used || name == "live", "no example in docs/guide.md has the attribute `{name}`");
            assert!(page.contains(&format!("`{name}`")) || page.contains(&format!("`#[{name}]`")), "{name}");
        }
    }

    /// One text, so that what the README shows is what the example's own tests check. Line breaks may differ.
    #[test]
    fn the_readme_shows_the_example() {
        let dense = |text: &str| text.split_whitespace().collect::<String>();
        let example = read("config-runtime/examples/thumbnails.rs");
        let (_, code) = example.split_once("\n\n").expect("a comment, then code");
        assert!(dense(&read("README.md")).contains(&dense(code)), "README.md and thumbnails.rs differ:\n{code}");
    }
}
