//! The Rust files of a package, parsed.

use std::fs;
use std::path::Path;

/// A package's Rust files. A file that cannot be read or parsed is an error: a census with a hole is none.
pub struct Sources {
    pub(crate) files: Vec<File>,
    /// The package's name as code writes it.
    pub(crate) package: Option<String>,
}

pub(crate) struct File {
    /// From the package's folder, with `/`.
    pub(crate) path: String,
    pub(crate) module: Vec<String>,
    pub(crate) syntax: syn::File,
}

impl Sources {
    /// Reads all `.rs` files in and below `folder`, except in `target`, hidden folders and packages of their own.
    ///
    /// # Errors
    /// A folder or file that cannot be read, or a file that is not Rust.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let mut texts = Vec::new();
        collect(folder, folder, &mut texts)?;
        if texts.is_empty() {
            return Err(format!("{}: there is no Rust file here", folder.display()));
        }
        texts.sort();
        let mut sources = Self::from_texts(&texts)?;
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        sources.package = package_name(&manifest);
        Ok(sources)
    }

    /// From pairs of path and text.
    ///
    /// # Errors
    /// The first text that is not Rust, with line and column.
    pub fn from_texts<P: AsRef<str>, T: AsRef<str>>(texts: &[(P, T)]) -> Result<Self, String> {
        let files = texts.iter().map(|(path, text)| {
            let path = path.as_ref().to_owned();
            let syntax = syn::parse_file(text.as_ref()).map_err(|error| {
                let start = error.span().start();
                format!("{path}:{}:{}: {error}", start.line, start.column + 1)
            })?;
            Ok(File { module: module_of(&path), path, syntax })
        });
        Ok(Self { files: files.collect::<Result<_, String>>()?, package: None })
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

fn collect(root: &Path, folder: &Path, texts: &mut Vec<(String, String)>) -> Result<(), String> {
    let fault = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| fault(folder, error))? {
        let path = entry.map_err(|error| fault(folder, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            let other = name == "target" || name.starts_with('.') || path.join("Cargo.toml").exists();
            if !other {
                collect(root, &path, texts)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(|error| fault(&path, error))?;
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            texts.push((parts.join("/"), text));
        }
    }
    Ok(())
}

/// The first `name = "…"` after `[package]`.
fn package_name(manifest: &str) -> Option<String> {
    let package = manifest.split("[package]").nth(1)?;
    let line = package.lines().find(|line| line.trim_start().starts_with("name"))?;
    Some(line.split('"').nth(1)?.replace('-', "_"))
}

/// `src/a/b.rs` → `a::b`; `src/main.rs` → the root; `tests/x.rs` → a root of its own.
fn module_of(path: &str) -> Vec<String> {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Vec<_> = stem.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("main" | "lib" | "mod")) {
        parts.pop();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_follow_from_paths() {
        assert_eq!(module_of("src/main.rs"), Vec::<String>::new());
        assert_eq!(module_of("src/a/mod.rs"), ["a"]);
        assert_eq!(module_of("src/a/b.rs"), ["a", "b"]);
        assert_eq!(module_of("tests/c.rs"), ["tests", "c"]);
    }

    #[test]
    fn a_file_that_is_not_rust_is_an_error() {
        let error = Sources::from_texts(&[("src/a.rs", "fn f() {}"), ("src/b.rs", "fn f( {}")]).err().unwrap();
        assert!(error.starts_with("src/b.rs:1:"), "{error}");
    }

    #[test]
    fn a_byte_order_mark_hides_nothing() {
        assert_eq!(Sources::from_texts(&[("a.rs", "\u{feff}fn f() {}")]).unwrap().files[0].syntax.items.len(), 1);
    }

    #[test]
    fn the_package_is_named_by_its_manifest() {
        assert_eq!(package_name("[package]\nname = \"a-b\"\n"), Some("a_b".to_owned()));
        assert_eq!(package_name("[workspace]\n"), None);
    }
}
