//! The files of `kernels/cu`.

use std::collections::BTreeMap;
use std::path::Path;

/// The kernels' sources and headers, by file name.
#[derive(Debug)]
pub struct Sources(BTreeMap<String, String>);

impl Sources {
    /// Reads the folder.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/cu");
        let files = std::fs::read_dir(&folder).expect("kernels/cu is a folder").map(|entry| {
            let path = entry.expect("the folder is readable").path();
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a source is a text"))
        });
        Self(files.collect())
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The kernels: every file that is no header.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.files().filter(|name| Path::new(name).extension().is_some_and(|end| end == "cu"))
    }

    /// A file's text.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    #[must_use]
    pub fn text(&self, file: &str) -> &str {
        self.0.get(file).unwrap_or_else(|| panic!("kernels/cu has no {file}"))
    }

    /// What a kernel is made of, in the order in which the compiler sees it: its headers, each once, and the file itself.
    #[must_use]
    pub fn parts(&self, kernel: &str) -> Vec<&str> {
        let mut parts = Vec::new();
        self.add_parts(kernel, &mut parts);
        parts
    }

    fn add_parts<'a>(&'a self, file: &str, parts: &mut Vec<&'a str>) {
        let (name, text) = self.0.get_key_value(file).unwrap_or_else(|| panic!("kernels/cu has no {file}"));
        if parts.contains(&name.as_str()) {
            return;
        }
        for header in text.lines().filter_map(included) {
            self.add_parts(header, parts);
        }
        parts.push(name);
    }

    /// A kernel's text with its headers in place of their inclusion, where `changed` stands for the file of that name.
    /// Messages name files and lines as before.
    #[must_use]
    pub fn whole(&self, kernel: &str, (changed, text): (&str, &str)) -> String {
        let parts = self.parts(kernel).into_iter();
        let parts = parts.map(|part| {
            let text = if part == changed { text } else { self.text(part) };
            let lines = text.lines().map(|line| {
                let line = if included(line).is_some() || line == "#pragma once" { "" } else { line };
                format!("{line}\n")
            });
            format!("#line 1 \"/kernels/cu/{part}\"\n{}", lines.collect::<String>())
        });
        parts.collect()
    }
}

fn included(line: &str) -> Option<&str> {
    line.strip_prefix("#include \"")?.strip_suffix('"')
}
