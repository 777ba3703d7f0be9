//! The folder of documents that shapes are compared with.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use engine_config::Settings;
use kitbag::ConfigNamespaces;

use super::document::{Document, document, provenance};
use super::shapes::{Shape, Shapes};

/// What a comparison came to.
pub(crate) struct Report {
    pub(crate) faults: Vec<Fault>,
    /// Shapes that resolve.
    pub(crate) resolved: usize,
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

/// Compares the documents of all shapes by schema `S` with those of the folder, byte for byte.
pub(crate) fn check<S: ConfigNamespaces>(shapes: &Shapes, folder: &Path) -> Report {
    let mut report = Report { faults: Vec::new(), resolved: 0, refused: 0 };
    for shape in shapes.all() {
        let now = document::<S>(shape);
        match &now {
            Document::Resolved(_) => report.resolved += 1,
            Document::Refused(_) => report.refused += 1,
        }
        let changes = changes(&folder.join(document_name(shape)), &now);
        if !changes.is_empty() {
            report.faults.push(Fault { what: shape.id(), changes });
        }
    }
    match stale(shapes, folder) {
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
        Ok(old) if old == *now => vec!["the same settings, written in another form".to_owned()],
        Ok(old) => old.changes(now),
        Err(error) => vec![format!("{}: {error}", file.display())],
    }
}

/// Writes the documents and the provenance of all shapes, removes the files of shapes that are gone, and says how many
/// files are not what they were.
pub(crate) fn bless(shapes: &Shapes, folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let mut changed = 0;
    for shape in shapes.all() {
        changed += write(&folder.join(document_name(shape)), &document::<Settings>(shape).json())?;
        if let Some(text) = provenance(shape) {
            changed += write(&folder.join(provenance_name(shape)), &text)?;
        }
    }
    for name in stale(shapes, folder)? {
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
fn stale(shapes: &Shapes, folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    for shape in shapes.all() {
        known.insert(document_name(shape));
        if matches!(document::<Settings>(shape), Document::Resolved(_)) {
            known.insert(provenance_name(shape));
        }
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

fn document_name(shape: &Shape) -> String {
    format!("{}.json", shape.id())
}

fn provenance_name(shape: &Shape) -> String {
    format!("{}.origins", shape.id())
}
