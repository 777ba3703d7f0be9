//! Collects the sources, in order of precedence, into a record.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ArgMatches;

use crate::bootstrap::Early;
use crate::context::Context;
use crate::error::Errors;
use crate::facts::Facts;
use crate::record::Record;
use crate::resolved::Resolved;
use crate::schema::ConfigNamespaces;
use crate::source::cli::{self, Parsed};
use crate::source::file::{Chosen, Files, Found};
use crate::source::{Candidates, env};
use crate::table::Table;

#[derive(Clone)]
enum FileSource {
    Path(PathBuf),
    /// Read if it is there.
    IfPresent(PathBuf),
    Text {
        name: PathBuf,
        text: String,
    },
}

/// Sources given one by one; nothing is read that was not given.
///
/// Precedence is fixed, whatever the order of the calls: default < files in order < environment < flags. Within a file:
/// what it includes < its top level < its chosen profile. The format of a file is told by the ending of its name:
/// `.toml`, `.yaml`, `.yml` or `.json`.
///
/// A loader can be used again and again: files are read anew each time, the environment and the arguments are those
/// that were given.
///
/// ```
/// # use kitbag::ConfigNamespaces;
/// # #[derive(ConfigNamespaces)]
/// # #[config(env = "THUMB")]
/// # struct Args {
/// #     /// Jobs that may wait.
/// #     #[config(ns = "pool", default = 32)]
/// #     queue: usize,
/// # }
/// let cfg = Args::loader()
///     .text("thumb.toml", "[pool]\nqueue = 10")
///     .env([("THUMB_POOL_QUEUE", "20")])
///     .args(["thumb", "--queue", "30"])
///     .load()?;
/// assert_eq!(cfg.pin().pool().queue(), 30);
/// # Ok::<(), kitbag::Errors>(())
/// ```
#[must_use = "a loader does nothing until `record`, `resolve` or `load`"]
pub struct Loader<S> {
    sources: Sources,
    schema: PhantomData<fn() -> S>,
}

#[derive(Clone, Default)]
struct Sources {
    files: Vec<FileSource>,
    profile: Option<String>,
    env: Vec<(OsString, OsString)>,
    args: Option<Vec<OsString>>,
    matches: Option<ArgMatches>,
    facts: Option<Facts>,
}

impl<S> Default for Loader<S> {
    fn default() -> Self {
        Self { sources: Sources::default(), schema: PhantomData }
    }
}

impl<S> Clone for Loader<S> {
    fn clone(&self) -> Self {
        Self { sources: self.sources.clone(), schema: PhantomData }
    }
}

impl<S: ConfigNamespaces> Loader<S> {
    /// This process's environment and arguments.
    pub(crate) fn of_process() -> Self {
        Self::default().env(std::env::vars_os()).args(std::env::args_os())
    }

    /// Adds a file; later files override earlier ones, and those of `--config` come last.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.files.push(FileSource::Path(path.into()));
        self
    }

    /// Adds a file that need not be there, such as one of the user's beside one of the system's. A file says the same of
    /// one that it includes: `include = [{ if_present = "user.toml" }]`.
    ///
    /// It ranks as [`file`](Self::file) does, in the order of the calls. Only absence is fine: a file that is there and
    /// cannot be read or is not valid is an error, and so is a link that leads nowhere. On a reload it may have come;
    /// one that had set something and is gone is an error, since it may be about to be written again.
    ///
    /// ```
    /// # use kitbag::ConfigNamespaces;
    /// # #[derive(ConfigNamespaces)]
    /// # struct Args {
    /// #     /// Jobs that may wait.
    /// #     #[config(ns = "pool", default = 32)]
    /// #     queue: usize,
    /// # }
    /// let home = tempfile::tempdir()?; // what the program takes for the user's folder
    /// let loader = Args::loader().file_if_present(home.path().join("thumb.toml"));
    /// assert_eq!(loader.load()?.pin().pool().queue(), 32);
    /// std::fs::write(home.path().join("thumb.toml"), "[pool]\nqueue = 64")?;
    /// assert_eq!(loader.load()?.pin().pool().queue(), 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn file_if_present(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.files.push(FileSource::IfPresent(path.into()));
        self
    }

    /// Adds text as if it were the file `name`; what it includes is read from files beside `name`.
    pub fn text(mut self, name: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.sources.files.push(FileSource::Text { name: name.into(), text: text.into() });
        self
    }

    /// Chooses a profile of the files, unless `--profile` or the variable `PREFIX_PROFILE` chooses another.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.sources.profile = Some(name.into());
        self
    }

    /// Adds environment variables; those without the schema's prefix are not looked at.
    pub fn env<K: Into<OsString>, V: Into<OsString>>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self {
        self.sources.env.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// The command line, **program name first**, as a process gets it: what stands first sets nothing.
    ///
    /// A program that has taken it off puts a name back: `.args(std::iter::once("app".into()).chain(rest))`. A flag in
    /// the first place is an error, so that none is lost.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.sources.args = Some(args.into_iter().map(Into::into).collect());
        self
    }

    /// The matches of a command of the program's own, to which [`ConfigNamespaces::augment`] added the flags.
    pub fn matches(mut self, matches: &ArgMatches) -> Self {
        self.sources.matches = Some(matches.clone());
        self
    }

    /// The facts that rules use instead of this machine's.
    pub fn facts(mut self, facts: Facts) -> Self {
        self.sources.facts = Some(facts);
        self
    }

    fn gather(&self) -> (Record<S>, Candidates) {
        let table = Arc::new(Table::of::<S>());
        let mut candidates = Candidates::new(&table);
        let matches = self.flags(&table, &mut candidates);
        let Found { read, absent } = self.sources.read_files(&table, matches.as_ref(), &mut candidates);
        env::read(&table, &self.sources.env, &mut candidates);
        if let Some(matches) = &matches {
            cli::read(&table, matches, &mut candidates);
        }
        candidates.excuse_missing();
        let given = std::mem::take(&mut candidates.of_leaf);
        let mut record = Record::new(table, given);
        (record.files, record.absent) = (read, absent);
        record.warnings = std::mem::take(&mut candidates.warnings);
        (record, candidates)
    }

    fn flags(&self, table: &Table, candidates: &mut Candidates) -> Option<ArgMatches> {
        match self.sources.args.clone().map(|args| cli::parse::<S>(table, args)) {
            Some(Parsed { matches, errors, refused }) => {
                candidates.errors.append(errors);
                for leaf in refused {
                    candidates.refused[leaf] = true;
                }
                matches
            }
            None => self.sources.matches.clone(),
        }
    }

    /// The leaves declared `bootstrap`, from defaults, environment and flags; no file is read.
    ///
    /// # Errors
    /// If one of them is at fault or missing: everything wrong in environment and flags, together.
    pub fn bootstrap(&self) -> Result<Early<S>, Errors> {
        let table = Arc::new(Table::of::<S>());
        let mut candidates = Candidates::new(&table);
        let matches = self.flags(&table, &mut candidates);
        env::read(&table, &self.sources.env, &mut candidates);
        if let Some(matches) = &matches {
            cli::read(&table, matches, &mut candidates);
        }
        Early::of(table, candidates, &self.facts_in_use())
    }

    fn facts_in_use(&self) -> Facts {
        self.sources.facts.clone().unwrap_or_else(Facts::of_this_machine)
    }

    /// The files that a load reads, includes too, also those that it cannot read or that are not there: what to watch.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let record = self.gather().0;
        record.files.into_iter().chain(record.absent).collect()
    }

    /// What the sources say, before any rule runs.
    ///
    /// # Errors
    /// Everything that cannot be read, together.
    pub fn record(&self) -> Result<Record<S>, Errors> {
        let (record, candidates) = self.gather();
        candidates.errors.check(record)
    }

    /// Settled values. Errors of the sources and of the rules come together.
    ///
    /// # Errors
    /// Everything that is wrong in any source or rule.
    pub fn resolve(&self) -> Result<Resolved<S>, Errors> {
        let (record, candidates) = self.gather();
        if candidates.errors.is_help() {
            return Err(candidates.errors);
        }
        Resolved::of(record, &self.facts_in_use(), &candidates.refused, candidates.errors)
    }

    /// A published context.
    ///
    /// # Errors
    /// Everything that is wrong in any source or rule.
    pub fn load(&self) -> Result<Context<S>, Errors> {
        self.resolve().map(Resolved::publish)
    }
}

impl Sources {
    fn read_files(&self, table: &Table, matches: Option<&ArgMatches>, candidates: &mut Candidates) -> Found {
        // A flag replaces the variable, as for every setting.
        let mut config = matches.map(cli::config_files).unwrap_or_default();
        if config.is_empty() {
            let variable = self.variable(env::config_variable(table));
            // An empty variable names none.
            config.extend(variable.filter(|(_, path)| !path.is_empty()).map(|(_, path)| PathBuf::from(path)));
        }
        let chosen = matches.and_then(cli::profile).or_else(|| {
            let (by, name) = self.variable(env::profile_variable(table))?;
            // An empty variable chooses none.
            let name = name.to_string_lossy().into_owned();
            (!name.is_empty()).then_some(Chosen { name, by })
        });
        let by_program = || Some(Chosen { name: self.profile.clone()?, by: "Loader::profile".to_owned() });
        let chosen = chosen.or_else(by_program);
        let mut files = Files::new(table, chosen.as_ref(), candidates);
        for source in &self.files {
            match source {
                FileSource::Path(path) => files.file(path),
                FileSource::IfPresent(path) => files.file_if_present(path),
                FileSource::Text { name, text } => files.text(name, text),
            }
        }
        for path in &config {
            files.file_of_flag("--config", path);
        }
        files.finish()
    }

    /// A variable with its name, if it is given.
    fn variable(&self, name: Option<String>) -> Option<(String, &OsString)> {
        let name = name?;
        let (_, value) = self.env.iter().find(|(known, _)| *known == *name)?;
        Some((name, value))
    }
}
