//! Settings that are known before files are read.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Errors;
use crate::facts::Facts;
use crate::leaf::{Erased, Leaf, reveal};
use crate::resolved::{initial, missing_leaf};
use crate::schema::Key;
use crate::source::Candidates;
use crate::table::Table;

/// Marks the key of a leaf that is declared `bootstrap`: `Key<Args, PathBuf, Bootstrap>`.
#[derive(Clone, Copy, Debug)]
pub enum Bootstrap {}

/// The leaves declared `bootstrap`, before files are read: what names the files, sets up the log or finds the state
/// directory. From [`Loader::bootstrap`](crate::Loader::bootstrap).
///
/// They are read from defaults, environment and flags alone; a file that sets one is an error. Only their keys fit
/// [`get`](Self::get).
///
/// ```
/// use kitbag::ConfigNamespaces;
///
/// /// Thumbnail service.
/// #[derive(ConfigNamespaces)]
/// #[config(env = "THUMB")]
/// struct Args {
///     /// Where the service keeps its files.
///     #[config(ns = "service", default = "/var/lib/thumb", bootstrap)]
///     home: std::path::PathBuf,
///     /// Jobs that may wait.
///     #[config(ns = "pool", default = 32)]
///     queue: usize,
/// }
/// # let folder = tempfile::tempdir().expect("a folder");
/// # std::fs::write(folder.path().join("thumb.toml"), "[pool]\nqueue = 7\n").expect("a file");
/// # let home = folder.path().to_str().expect("UTF-8").to_owned();
/// let loader = Args::loader().args(["thumb", "--home", &home]);
/// let early = loader.bootstrap()?;
/// let cfg = loader.file(early.get(Args::keys().service.home).join("thumb.toml")).load()?;
/// assert_eq!(cfg.pin().pool().queue(), 7);
/// # Ok::<(), kitbag::Errors>(())
/// ```
///
/// Another leaf has no value yet:
///
/// ```compile_fail,E0308
/// # use kitbag::ConfigNamespaces;
/// # #[derive(ConfigNamespaces)]
/// # struct Args {
/// #     /// Jobs that may wait.
/// #     #[config(ns = "pool", default = 32)]
/// #     queue: usize,
/// # }
/// let early = Args::loader().bootstrap().expect("nothing is wrong");
/// early.get(Args::keys().pool.queue); // error: mismatched types
/// ```
pub struct Early<S> {
    table: Arc<Table>,
    /// Of leaves that are not `bootstrap` there is none.
    values: Vec<Option<Erased>>,
    schema: PhantomData<fn() -> S>,
}

impl<S> Early<S> {
    /// From what environment and flags gave. All their faults are told if one is of a leaf that is needed here; else
    /// they wait for the load, which tells of those in files too.
    pub(crate) fn of(table: Arc<Table>, candidates: Candidates, facts: &Facts) -> Result<Self, Errors> {
        let Candidates { of_leaf, refused, mut errors, .. } = candidates;
        if errors.is_help() {
            return Err(errors);
        }
        let is_early = |index: usize| table.entries[index].info.bootstrap;
        let mut fails = (0..refused.len()).any(|index| is_early(index) && refused[index]);
        let mut values: Vec<Option<Erased>> = vec![None; table.entries.len()];
        for index in (0..values.len()).filter(|index| is_early(*index)) {
            values[index] = match of_leaf[index].last() {
                Some((_, value)) => Some(Arc::clone(value)),
                None => initial(&table, index).unwrap_or_else(|error| {
                    fails = true;
                    errors.push(error);
                    None
                }),
            };
        }
        for error in table.compute(&mut values, facts) {
            let is_of = |index: usize| error.leaf_path() == Some(table.entries[index].info.path);
            if (0..values.len()).any(|index| is_early(index) && is_of(index)) {
                fails = true;
                errors.push(error);
            }
        }
        for index in (0..values.len()).filter(|index| is_early(*index)) {
            if values[index].is_none() && !fails {
                fails = true;
                errors.push(missing_leaf(&table, index));
            }
        }
        // What a rule of another leaf gave is not settled.
        for index in (0..values.len()).filter(|index| !is_early(*index)) {
            values[index] = None;
        }
        if fails { Err(errors) } else { Ok(Self { table, values, schema: PhantomData }) }
    }

    /// The value of a leaf, as its accessor would give it.
    ///
    /// # Panics
    /// Never: the key's type says that the leaf is settled.
    #[must_use]
    pub fn get<T: Leaf>(&self, key: Key<S, T, Bootstrap>) -> T::Read<'_> {
        match &self.values[key.index()] {
            Some(value) => reveal::<T>(value).read(),
            None => unreachable!("a bootstrap leaf has a value"),
        }
    }
}

impl<S> fmt::Debug for Early<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaves = self.table.entries.iter().zip(&self.values);
        let settled = leaves.filter_map(|(entry, value)| Some((entry.info.path, value.as_ref()?.to_value())));
        f.debug_map().entries(settled.map(|(path, value)| (path, value.to_string()))).finish()
    }
}
