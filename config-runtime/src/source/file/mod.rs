//! Configuration files: formats, includes and profiles.

mod document;
mod json;
mod settings;
mod toml;
mod yaml;

use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use self::document::{Content, Document, Entry, Fault, Node, Position};
pub(crate) use self::json::value as json_value;
use self::settings::Settings;
use super::Candidates;
use crate::error::ConfigError;
use crate::origin::Origin;
use crate::suggest::did_you_mean;
use crate::table::Table;
use crate::value::Value;

/// Top-level keys that are no settings. The derive refuses namespaces of these names.
pub(crate) const INCLUDE: &str = "include";
pub(crate) const PROFILE: &str = "profile";
/// The same, of a name that no namespace can have: editors look there for the schema.
pub(crate) const SCHEMA: &str = "$schema";

/// Key of an entry of `include` that need not be there.
pub(crate) const IF_PRESENT: &str = "if_present";

/// A larger file is not a configuration file.
const MOST_BYTES: u64 = 16 << 20;
/// Files may include one another this deep.
const MOST_INCLUDES: usize = 16;

/// Said of a folder where a file is due.
const FOLDER: &str = "this is a folder, not a file";

/// The profile asked for.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) name: String,
    /// Who asked: a flag, a variable or the program.
    pub(crate) by: String,
}

/// How the text of a file is to be read. Told by the file's name.
#[derive(Clone, Copy)]
enum Format {
    Toml,
    Yaml,
    Json,
}

impl Format {
    fn of(path: &Path) -> Result<Self, String> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("toml") => Ok(Self::Toml),
            Some("yaml" | "yml") => Ok(Self::Yaml),
            Some("json") => Ok(Self::Json),
            _ => Err("the format of a file is told by its name, which ends in `.toml`, `.yaml`, `.yml` or `.json`"
                .to_owned()),
        }
    }

    fn parse(self, text: &str) -> Document {
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Toml => toml::parse(text),
            Self::Yaml => yaml::parse(text),
            Self::Json => json::parse(text),
        }
    }
}

/// Reads files in order of precedence, lowest first.
pub(crate) struct Files<'a> {
    table: &'a Table,
    chosen: Option<&'a Chosen>,
    candidates: &'a mut Candidates,
    /// The files that led to the one being read, each as given and as the file system knows it.
    chain: Vec<(PathBuf, PathBuf)>,
    /// What was read for the file given last. A file that several others include is read once, below them all.
    seen: HashSet<PathBuf>,
    found: Found,
    profiles: Vec<String>,
}

/// Files met, lowest precedence first.
#[derive(Default)]
pub(crate) struct Found {
    /// Each after those it includes; those that cannot be read too.
    pub(crate) read: Vec<PathBuf>,
    /// Those that need not be there and are not.
    pub(crate) absent: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(table: &'a Table, chosen: Option<&'a Chosen>, candidates: &'a mut Candidates) -> Self {
        let (chain, seen, found, profiles) = Default::default();
        Self { table, chosen, candidates, chain, seen, found, profiles }
    }

    /// Reads a file and what it includes.
    pub(crate) fn file(&mut self, path: &Path) {
        self.seen.clear();
        if let Err(problem) = self.visit(path) {
            self.fail(ConfigError::new(problem).at(path.display()));
        }
    }

    /// Reads the file that a flag names, which may have been left empty.
    pub(crate) fn file_of_flag(&mut self, flag: &str, path: &Path) {
        if path.as_os_str().is_empty() {
            self.fail(ConfigError::new("names no file").at(flag));
        } else {
            self.file(path);
        }
    }

    /// Reads a file, unless there is none.
    pub(crate) fn file_if_present(&mut self, path: &Path) {
        if !self.is_absent(path) {
            self.file(path);
        }
    }

    /// Whether there is no such file, which is noted.
    fn is_absent(&mut self, path: &Path) -> bool {
        // Not followed: a link that leads nowhere is there, and is an error.
        let found = std::fs::symlink_metadata(path);
        // A name without a format is a slip, to be seen before there is such a file.
        let is_absent = found.is_err_and(|error| error.kind() == ErrorKind::NotFound) && Format::of(path).is_ok();
        if is_absent {
            self.found.absent.push(path.to_owned());
        }
        is_absent
    }

    /// Reads a text as if it were the file `name`.
    pub(crate) fn text(&mut self, name: &Path, text: &str) {
        self.seen.clear();
        match Format::of(name) {
            Ok(format) => self.document(name, name.to_owned(), format.parse(text)),
            Err(problem) => self.fail(ConfigError::new(problem).at(name.display())),
        }
    }

    /// What was found, once all files are read.
    pub(crate) fn finish(self) -> Found {
        if let Some(Chosen { name, by }) = self.chosen
            && !self.profiles.contains(name)
            && !self.candidates.damaged
        {
            let known = self.profiles.iter().map(String::as_str);
            let hint = did_you_mean(name, known).or_else(|| match self.profiles.as_slice() {
                [] => None,
                profiles => Some(format!("there are `{}`", profiles.join("`, `"))),
            });
            let error = ConfigError::new(format!("no file has a profile `{name}`")).at(by).hint(hint);
            self.candidates.errors.push(error);
        }
        self.found
    }

    /// A file that cannot be read leaves open what it sets.
    fn fail(&mut self, error: ConfigError) {
        self.candidates.damaged = true;
        self.candidates.errors.push(error);
    }

    /// Reads the file if it can be; else the answer says why not.
    fn visit(&mut self, path: &Path) -> Result<(), String> {
        if path.is_dir() {
            // Said before its name is looked at, which has no ending.
            self.found.read.push(path.to_owned());
            return Err(FOLDER.to_owned());
        }
        let format = Format::of(path)?;
        let text = match read(path) {
            Ok(text) => text,
            Err(problem) => {
                self.found.read.push(path.to_owned());
                return Err(problem);
            }
        };
        // The file was just read, so only a file that is being replaced has no canonical name.
        let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.chain.iter().any(|(_, known)| *known == identity) {
            return Err("a file cannot include itself".to_owned());
        }
        if self.chain.len() > MOST_INCLUDES {
            return Err(format!("files include one another more than {MOST_INCLUDES} deep"));
        }
        if !self.seen.insert(identity.clone()) {
            return Ok(());
        }
        self.document(path, identity, format.parse(&text));
        self.found.read.push(path.to_owned());
        Ok(())
    }

    fn document(&mut self, path: &Path, identity: PathBuf, document: Document) {
        let Document { mut entries, faults } = document;
        self.chain.push((path.to_owned(), identity));
        for entry in take(&mut entries, INCLUDE) {
            self.include(path, &entry.value);
        }
        self.chain.pop();
        for fault in faults {
            self.fail(ConfigError::new(fault.problem).given_by(&origin(path, fault.at)));
        }
        for entry in take(&mut entries, SCHEMA) {
            self.schema(path, &entry);
        }
        let profiles = take(&mut entries, PROFILE);
        self.settings(path, None, true, &entries);
        for entry in profiles {
            self.profiles(path, &entry);
        }
    }

    /// What is included ranks below the file, so it is read first.
    fn include(&mut self, path: &Path, included: &Node) {
        let nodes = match &included.content {
            Content::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(included),
        };
        for node in nodes {
            let included = node
                .value()
                .and_then(|value| Included::of(&value).map_err(|problem| Some(Fault::new(node.at, problem))));
            let Included { name, may_be_absent } = match included {
                Ok(included) => included,
                Err(None) => continue,
                Err(Some(Fault { at, problem })) => {
                    self.fail(ConfigError::new(problem).given_by(&origin(path, at)));
                    continue;
                }
            };
            let file = path.parent().unwrap_or(Path::new("")).join(name);
            if may_be_absent && self.is_absent(&file) {
                continue;
            }
            if let Err(problem) = self.visit(&file) {
                let chain: Vec<_> = self.chain.iter().map(|(path, _)| path.display().to_string()).collect();
                let problem = format!("{problem} ({} -> {})", chain.join(" -> "), file.display());
                self.fail(ConfigError::new(problem).given_by(&origin(path, node.at)));
            }
        }
    }

    /// What editors read and the program does not.
    fn schema(&mut self, path: &Path, entry: &Entry) {
        let found = match entry.value.value() {
            Ok(Value::Text(_)) | Err(None) => return,
            Ok(value) => value.kind(),
            Err(Some(_)) => "no value",
        };
        let error = ConfigError::new(format!("`{SCHEMA}` names the schema of this file for editors, found {found}"));
        self.candidates.errors.push(error.given_by(&origin(path, entry.at)));
    }

    fn profiles(&mut self, path: &Path, profiles: &Entry) {
        let Content::Table { entries, .. } = &profiles.value.content else {
            self.not_a_table(path, PROFILE, profiles, "holds one table per profile");
            return;
        };
        for profile in entries {
            match &profile.value.content {
                Content::Table { entries, .. } => {
                    self.settings(path, Some(&profile.key), self.is_chosen(&profile.key), entries);
                }
                _ => self.not_a_table(path, &format!("{PROFILE}.{}", profile.key), profile, "is a table of settings"),
            }
            if !self.profiles.contains(&profile.key) {
                self.profiles.push(profile.key.clone());
            }
        }
    }

    fn not_a_table(&mut self, path: &Path, key: &str, entry: &Entry, what: &str) {
        let found = match entry.value.value() {
            Ok(value) => value.kind(),
            Err(Some(_)) => "no value",
            Err(None) => return,
        };
        let error = ConfigError::new(format!("`{key}` {what}, found {found}"));
        self.candidates.errors.push(error.given_by(&origin(path, entry.at)));
    }

    fn is_chosen(&self, profile: &str) -> bool {
        self.chosen.is_some_and(|chosen| chosen.name == profile)
    }

    /// A profile that is not chosen is checked, and sets nothing.
    fn settings(&mut self, path: &Path, profile: Option<&str>, in_use: bool, entries: &[Entry]) {
        let mut unused = Candidates::new(self.table);
        let candidates = if in_use { &mut *self.candidates } else { &mut unused };
        Settings { table: self.table, path, profile, candidates }.read("", entries);
        self.candidates.errors.append(unused.errors);
    }
}

/// One entry of `include`.
struct Included {
    name: String,
    may_be_absent: bool,
}

impl Included {
    fn of(entry: &Value) -> Result<Self, String> {
        let (name, may_be_absent) = match entry {
            Value::Table(entries) if entries.len() == 1 => (entries.get(IF_PRESENT), true),
            name => (Some(name), false),
        };
        match (name, entry) {
            (Some(Value::Text(name)), _) if !name.is_empty() => Ok(Self { name: name.clone(), may_be_absent }),
            (_, Value::Table(_)) => Err(format!(
                "a table in `{INCLUDE}` has one key, `{IF_PRESENT}`, that names a file which need not be there"
            )),
            _ => Err(format!("`{INCLUDE}` names a file or a list of files, found {}", entry.describe())),
        }
    }
}

fn origin(path: &Path, Position { line, column }: Position) -> Origin {
    Origin::File { path: path.to_owned(), line, column, profile: None }
}

/// Takes the entries of one key out; a repeated key is reported as a fault, and there may be several.
fn take(entries: &mut Vec<Entry>, key: &str) -> Vec<Entry> {
    entries.extract_if(.., |entry| entry.key == key).collect()
}

/// The text of a file.
fn read(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "cannot read: no such file".to_owned(),
        ErrorKind::PermissionDenied => "cannot read: permission denied".to_owned(),
        _ => format!("cannot read: {error}"),
    };
    // Asked before it is opened: opening a pipe waits for a writer.
    let kind = std::fs::metadata(path).map_err(cannot)?;
    if kind.is_dir() {
        return Err(FOLDER.to_owned());
    }
    if !kind.is_file() {
        return Err("this is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes)).map_err(cannot)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("the file is larger than {} MiB", MOST_BYTES >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]);
        let at = document::Positions::of(&text).at(good);
        format!("the file is not UTF-8 (line {}, column {})", at.line, at.column)
    })?;
    if text.trim().is_empty() {
        return Err("the file is empty, as if half written; one that is to set nothing holds a comment or `{}`".into());
    }
    Ok(text)
}
