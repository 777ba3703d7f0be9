//! Collects the sources, in order of precedence, into a record.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ArgMatches;

use crate::context::Context;
use crate::error::Errors;
use crate::facts::Facts;
use crate::record::Record;
use crate::resolved::Resolved;
use crate::schema::ConfigNamespaces;
use crate::source::{Candidates, cli, env, file};
use crate::table::Table;

#[derive(Clone)]
enum FileSource {
    Path(PathBuf),
    Text { name: PathBuf, text: String },
}

/// Sources given one by one; nothing is read that was not given.
///
/// Precedence is fixed, whatever the order of the calls: default < files in order < environment < flags.
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
    files: Vec<FileSource>,
    env: Vec<(OsString, OsString)>,
    args: Option<Vec<OsString>>,
    matches: Option<ArgMatches>,
    facts: Option<Facts>,
    schema: PhantomData<fn() -> S>,
}

impl<S> Clone for Loader<S> {
    fn clone(&self) -> Self {
        Self {
            files: self.files.clone(),
            env: self.env.clone(),
            args: self.args.clone(),
            matches: self.matches.clone(),
            facts: self.facts.clone(),
            schema: PhantomData,
        }
    }
}

impl<S> Default for Loader<S> {
    fn default() -> Self {
        Self { files: Vec::new(), env: Vec::new(), args: None, matches: None, facts: None, schema: PhantomData }
    }
}

impl<S: ConfigNamespaces> Loader<S> {
    /// This process's environment and arguments.
    pub(crate) fn of_process() -> Self {
        Self::default().env(std::env::vars_os()).args(std::env::args_os())
    }

    /// Adds a file; later files override earlier ones, and `--config` comes last.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(FileSource::Path(path.into()));
        self
    }

    /// Adds text as if it were the file `name`.
    pub fn text(mut self, name: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.files.push(FileSource::Text { name: name.into(), text: text.into() });
        self
    }

    /// Adds environment variables; those without the schema's prefix are not looked at.
    pub fn env<K: Into<OsString>, V: Into<OsString>>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self {
        self.env.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// The command line, program name first.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args = Some(args.into_iter().map(Into::into).collect());
        self
    }

    /// The matches of a command of the program's own, to which [`ConfigNamespaces::augment`] added the flags.
    pub fn matches(mut self, matches: &ArgMatches) -> Self {
        self.matches = Some(matches.clone());
        self
    }

    /// The facts that rules use instead of this machine's.
    pub fn facts(mut self, facts: Facts) -> Self {
        self.facts = Some(facts);
        self
    }

    fn gather(&mut self) -> (Record<S>, Candidates) {
        let table = Arc::new(Table::of::<S>());
        let mut candidates = Candidates::new(&table);
        let matches = match self.args.take().map(cli::parse::<S>) {
            Some((matches, errors)) => {
                candidates.errors.append(errors);
                matches
            }
            None => self.matches.take(),
        };
        self.read_files(&table, matches.as_ref(), &mut candidates);
        env::read(&table, &self.env, &mut candidates);
        if let Some(matches) = &matches {
            cli::read(&table, matches, &mut candidates);
        }
        let given = std::mem::take(&mut candidates.of_leaf);
        let mut record = Record::new(table, given);
        record.warnings = std::mem::take(&mut candidates.warnings);
        (record, candidates)
    }

    /// Paths of the files it reads.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.files
            .iter()
            .filter_map(|source| match source {
                FileSource::Path(path) => Some(path.clone()),
                FileSource::Text { .. } => None,
            })
            .collect()
    }

    fn read_files(&mut self, table: &Table, matches: Option<&ArgMatches>, candidates: &mut Candidates) {
        let variable = env::config_variable(table);
        let from_env = self.env.iter().find(|(name, _)| variable.as_deref().is_some_and(|variable| name == variable));
        // The flag replaces the variable, as for every setting.
        let named = matches.and_then(cli::config_file).or_else(|| from_env.map(|(_, path)| PathBuf::from(path)));
        self.files.extend(named.map(FileSource::Path));
        for source in &self.files {
            match source {
                FileSource::Path(path) => file::read(table, path, candidates),
                FileSource::Text { name, text } => file::read_text(table, name, text, candidates),
            }
        }
    }

    /// What the sources say, before any rule runs.
    ///
    /// # Errors
    /// Everything that cannot be read, together.
    pub fn record(mut self) -> Result<Record<S>, Errors> {
        let (record, candidates) = self.gather();
        candidates.errors.check(record)
    }

    /// Settled values. Errors of the sources and of the rules come together.
    ///
    /// # Errors
    /// Everything that is wrong in any source or rule.
    pub fn resolve(mut self) -> Result<Resolved<S>, Errors> {
        let (record, candidates) = self.gather();
        if candidates.errors.is_help() {
            return Err(candidates.errors);
        }
        let facts = self.facts.take().unwrap_or_else(Facts::of_this_machine);
        Resolved::of(record, &facts, &candidates.refused, candidates.errors)
    }

    /// A published context.
    ///
    /// # Errors
    /// Everything that is wrong in any source or rule.
    pub fn load(self) -> Result<Context<S>, Errors> {
        self.resolve().map(Resolved::publish)
    }
}
