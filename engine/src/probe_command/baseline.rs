//! The folder of documents that shapes are compared with.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use super::document::Document;

/// What one shape comes to now.
pub(crate) struct Entry {
    /// What its files are called.
    pub(crate) id: String,
    pub(crate) document: Document,
    /// For review, not for comparison.
    pub(crate) provenance: Option<String>,
}

/// What a comparison came to.
pub(crate) struct Report {
    pub(crate) faults: Vec<Fault>,
    /// Shapes that come to something.
    pub(crate) accepted: usize,
    /// Shapes that are refused.
    pub(crate) refused: usize,
}

/// A shape or file that is not as it was.
pub(crate) struct Fault {
    what: String,
    changes: Vec<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        self.changes.iter().try_for_each(|change| writeln!(f, "  {change}"))
    }
}

/// Compares the documents with those of the folder, byte for byte.
pub(crate) fn check(entries: &[Entry], folder: &Path) -> Report {
    let mut report = Report { faults: Vec::new(), accepted: 0, refused: 0 };
    for entry in entries {
        match &entry.document {
            Document::Resolved(_) | Document::Built(_) => report.accepted += 1,
            Document::Refused(_) => report.refused += 1,
        }
        let changes = changes(&folder.join(entry.document_name()), &entry.document);
        if !changes.is_empty() {
            report.faults.push(Fault { what: entry.id.clone(), changes });
        }
    }
    match stale(entries, folder) {
        Ok(stale) => report.faults.extend(stale.into_iter().map(|name| {
            let changes = vec!["no shape has this file".to_owned()];
            Fault { what: name, changes }
        })),
        Err(error) => {
            let what = folder.display().to_string();
            report.faults.push(Fault { what, changes: vec![format!("cannot be listed: {error}")] });
        }
    }
    report
}

fn changes(file: &Path, now: &Document) -> Vec<String> {
    let old = match fs::read_to_string(file) {
        Ok(text) if text == now.json() => return Vec::new(),
        Ok(text) => text,
        Err(error) => return vec![format!("{}: {error}", file.display())],
    };
    match serde_json::from_str::<Document>(&old) {
        Ok(old) if old == *now => vec!["the same values, written in another form".to_owned()],
        Ok(old) => old.changes(now),
        Err(error) => vec![format!("{}: {error}", file.display())],
    }
}

/// Writes documents and provenance, removes the files of shapes that are gone, and says how many files are not what they
/// were.
pub(crate) fn bless(entries: &[Entry], folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let mut changed = 0;
    for entry in entries {
        changed += write(&folder.join(entry.document_name()), &entry.document.json())?;
        if let Some(text) = &entry.provenance {
            changed += write(&folder.join(entry.provenance_name()), text)?;
        }
    }
    for name in stale(entries, folder)? {
        fs::remove_file(folder.join(name))?;
        changed += 1;
    }
    Ok(changed)
}

/// Leaves a file alone that says this already.
fn write(file: &Path, text: &str) -> io::Result<usize> {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(0);
    }
    fs::write(file, text)?;
    Ok(1)
}

/// Documents and provenance that no shape has.
fn stale(entries: &[Entry], folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    for entry in entries {
        known.insert(entry.document_name());
        known.extend(entry.provenance.as_ref().map(|_| entry.provenance_name()));
    }
    let mut stale = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_ours = path.extension().is_some_and(|extension| extension == "json" || extension == "origins");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_ours && !known.contains(&name) {
            stale.insert(name);
        }
    }
    Ok(stale)
}

impl Entry {
    /// By number, name, or both as in a file's name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let (number, own) = self.id.split_once('-').unwrap_or((&self.id, ""));
        let is_number = name.parse::<usize>().is_ok_and(|name| number.parse() == Ok(name));
        is_number || own == name || self.id == name
    }

    fn document_name(&self) -> String {
        format!("{}.json", self.id)
    }

    fn provenance_name(&self) -> String {
        format!("{}.origins", self.id)
    }
}
