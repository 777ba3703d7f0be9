//! The declared schema as data, and the traits that the derive implements.

use std::fmt;

use crate::bootstrap::Early;
use crate::context::{Context, Pinned};
use crate::edit::{Edit, TestKit};
use crate::error::Errors;
use crate::fingerprint::{Reads, Recording};
use crate::leaf::{Erased, Leaf, LeafType};
use crate::loader::Loader;
use crate::reader::Inputs;
use crate::resolved::Resolved;
use crate::role::Role;
use crate::value::Value;

/// When a leaf may change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// Fixed when the context is published. The default.
    Launch,
    /// Fixed after loading: what a loaded artefact forces is declared on [`Resolved`](crate::Resolved) before publish.
    LoadTime,
    /// May be overridden while the program runs.
    Hot,
    /// Computed from other leaves, never set.
    Derived,
}

/// When a derived value follows its inputs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Policy {
    /// With every change. The default.
    Live,
    /// When a context is published or republished.
    AtPublish,
    /// Never after launch: a capacity that something was built for. A child context is a launch of its own.
    AtLaunch,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launch => "launch",
            Self::LoadTime => "load_time",
            Self::Hot => "hot",
            Self::Derived => "derived",
        })
    }
}

/// One leaf of the schema: what help, files, the environment and messages need to know of it.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // Each is an attribute that is given or not.
pub struct LeafInfo {
    /// Last segment of the path.
    pub name: &'static str,
    /// Dotted path, as in files: `pool.queue`.
    pub path: &'static str,
    /// The field's doc comment.
    pub doc: &'static str,
    /// The field's type as written.
    pub type_name: &'static str,
    /// When it may change.
    pub class: Class,
    /// Command-line flag without the dashes; empty for a derived value.
    pub flag: &'static str,
    /// For a derived value: when it follows its inputs.
    pub policy: Policy,
    /// Where its value comes from if nobody sets it.
    pub start: Start,
    /// The accepted range as written.
    pub range: Option<&'static str>,
    /// Its environment variable, if it is not computed from the path.
    pub env: Option<&'static str>,
    /// Former paths, which still work in files, variables and flags.
    pub aliases: &'static [&'static str],
    /// Setting it gives a warning.
    pub deprecated: Option<Deprecated>,
    /// Whether it is part of a context's fingerprint.
    pub cache_key: bool,
    /// Read by rules only: there is no accessor.
    pub resolution_only: bool,
    /// Known before files are read; no file may set it.
    pub bootstrap: bool,
    #[doc(hidden)]
    pub ops: LeafOps,
}

/// Since when a name should not be used, and when it goes away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deprecated {
    /// Version that deprecated it.
    pub since: &'static str,
    /// Version that removes it.
    pub remove_in: Option<&'static str>,
}

impl fmt::Display for Deprecated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.since.is_empty() {
            write!(f, "since {}", self.since)?;
        }
        match self.remove_in {
            Some(version) => write!(f, ", removed in {version}"),
            None => Ok(()),
        }
    }
}

/// A former leaf: its name is read, with a warning, for another leaf.
#[derive(Clone, Copy)]
pub struct Replaced {
    /// Its former path.
    pub path: &'static str,
    /// Its former flag.
    pub flag: &'static str,
    /// Path of the leaf that gets the value.
    pub target: &'static str,
    /// Since when, and until when.
    pub deprecated: Deprecated,
    #[doc(hidden)]
    pub ops: LeafOps,
    /// From a former value to one of the target.
    #[doc(hidden)]
    pub convert: fn(&Erased) -> Erased,
}

/// Where a leaf's value comes from if no source sets it.
#[derive(Clone, Copy)]
pub enum Start {
    /// Nowhere: somebody must set it.
    Required,
    /// A value written in the schema.
    Default {
        /// The default as written, for help.
        text: &'static str,
        /// `None`: the text is read as from a flag.
        #[doc(hidden)]
        make: Option<fn() -> Erased>,
    },
    /// A rule: the default of an `auto` leaf, or the only source of a derived value.
    Computed(Computation),
}

/// A function over other leaves.
#[derive(Clone, Copy)]
pub struct Computation {
    /// The function as written.
    pub function: &'static str,
    /// Paths of the leaves it reads.
    pub inputs: &'static [&'static str],
    #[doc(hidden)]
    pub run: for<'a> fn(&Inputs<'a>) -> Erased,
    /// The same function called with given arguments, by position: the oracle of the emitted tests.
    #[doc(hidden)]
    pub oracle: Option<for<'a> fn(&'a [Erased]) -> Erased>,
    /// Values that the emitted tests try, by path of the leaf.
    #[doc(hidden)]
    pub cases: &'static [(&'static str, &'static [Case])],
    /// A second implementation that must agree, called like the oracle.
    #[doc(hidden)]
    pub twin: Option<for<'a> fn(&'a [Erased]) -> Erased>,
}

/// A value that is declared for the emitted tests.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Case {
    /// Read as from a flag.
    Text(&'static str),
    /// An expression of the leaf's type.
    Made(fn() -> Erased),
}

/// A check over several leaves.
#[derive(Clone, Copy)]
pub struct Validation {
    /// The function as written.
    pub function: &'static str,
    /// Paths of the leaves it reads.
    pub inputs: &'static [&'static str],
    #[doc(hidden)]
    pub run: for<'a> fn(&Inputs<'a>) -> Result<(), String>,
}

/// The declared range as text, unless the value given lies in it.
pub(crate) type Range = fn(Option<&Erased>) -> Option<String>;

/// A leaf's own check: why a value is refused.
pub(crate) type Check = fn(&Erased) -> Result<(), String>;

/// What can be done with a leaf's value without knowing its type.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct LeafOps {
    pub ty: &'static LeafType,
    /// The leaf's own check.
    pub(crate) validate: Option<Check>,
    /// The declared range.
    pub range: Option<Range>,
    /// No output may show the value.
    pub(crate) secret: bool,
}

impl LeafOps {
    /// The operations of a leaf of type `T`.
    #[must_use]
    pub const fn of<T: Leaf>() -> Self {
        Self { ty: T::TYPE, validate: None, range: None, secret: T::SECRET }
    }

    /// With a check of its own.
    #[must_use]
    pub const fn validated(mut self, check: fn(&Erased) -> Result<(), String>) -> Self {
        self.validate = Some(check);
        self
    }

    /// With the declared range.
    #[must_use]
    pub const fn ranging(mut self, range: Range) -> Self {
        self.range = Some(range);
        self
    }
}

impl LeafInfo {
    /// No output shows its value: its type says so.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        self.ops.secret
    }

    /// The default, if one is written in the schema.
    pub(crate) fn default_value(&self) -> Option<Result<Erased, String>> {
        let Start::Default { text, make } = self.start else { return None };
        let value = match make {
            Some(make) => Some(make()),
            None => self.ops.ty.parse_text(text),
        };
        Some(value.ok_or_else(|| format!("expected {}, found `{text}`", self.ops.ty.expected())))
    }

    /// The accepted range, its ends as a user writes them: `10ms..=60s`.
    #[must_use]
    pub fn accepted_range(&self) -> Option<String> {
        self.ops.range.and_then(|range| range(None))
    }

    /// The default as a user types it after a flag, if one is written in the schema.
    pub(crate) fn default_in_a_flag(&self) -> Option<String> {
        let Start::Default { text, make } = self.start else { return None };
        // Text is read as from a flag, so it is what a user would type.
        let value = make.map(|make| make().to_value());
        let typed = match &value {
            None => text.to_owned(),
            Some(value) => value.plain(),
        };
        match value {
            // What a program writes for a type may have no spelling in a flag.
            Some(value) if !self.is_typed(&typed, &value) => Some(value.to_string()),
            _ if typed.is_empty() => Some("\"\"".to_owned()),
            _ => Some(typed),
        }
    }

    fn is_typed(&self, text: &str, value: &Value) -> bool {
        self.ops.ty.parse_text(text).is_some_and(|read| read.to_value() == *value)
    }
}

impl fmt::Debug for LeafInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.type_name, self.class)
    }
}

/// A namespace of the schema: its own leaves, then its sub-namespaces.
#[derive(Clone, Copy)]
pub struct NamespaceInfo {
    /// Dotted path; empty for the root.
    pub path: &'static str,
    /// The struct's doc comment.
    pub doc: &'static str,
    /// Whether it is declared by a struct of its own, so that keys of its rules count from its first leaf.
    #[doc(hidden)]
    pub own_struct: bool,
    /// Leaves of this namespace, in order of declaration, derived values last.
    pub leaves: &'static [LeafInfo],
    /// Former leaves whose values go to others.
    pub replaced: &'static [Replaced],
    /// Path and advice of names that are refused.
    pub retired: &'static [(&'static str, &'static str)],
    /// Cross-field rules declared here.
    pub validations: &'static [Validation],
    /// Sub-namespaces.
    pub children: &'static [NamespaceInfo],
}

impl NamespaceInfo {
    /// Number of leaves here and below.
    #[must_use]
    pub const fn len(&self) -> usize {
        let mut total = self.leaves.len();
        let mut index = 0;
        while index < self.children.len() {
            total += self.children[index].len();
            index += 1;
        }
        total
    }

    /// The leaf with this full path, here or below.
    #[must_use]
    pub fn leaf(&self, path: &str) -> Option<&'static LeafInfo> {
        let own = self.leaves.iter().find(|leaf| leaf.path == path);
        own.or_else(|| self.children.iter().find_map(|child| child.leaf(path)))
    }

    /// Whether there is no leaf here or below.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a namespace struct",
    note = "a nested namespace is a struct with `#[derive(kitbag::ConfigNamespaces)]` and `#[config(ns = \"...\")]`",
    note = "a setting has no `nested`: it says its namespace with `ns`"
)]
/// A namespace declared as a struct of its own (`#[config(ns = "…")]`), to be nested in a root.
pub trait Namespace: 'static {
    /// Its resolved values.
    type Bag: Bag;
    /// Its typed keys within schema `S`.
    type Keys<S>;
    /// Its setters within an edit of form `F`.
    type Setters<'a, F>;
    /// The recording twin of its bag.
    type Recording<'a>;

    #[doc(hidden)]
    fn recording<'a>(bag: &'a Self::Bag, reads: &'a Reads, offset: usize) -> Self::Recording<'a>;
    #[doc(hidden)]
    fn keys<S>(offset: usize) -> Self::Keys<S>;
    #[doc(hidden)]
    fn setters<F>(edit: &mut Edit, offset: usize) -> Self::Setters<'_, F>;
}

/// The resolved values of one namespace.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a bag of resolved values",
    note = "bags are emitted by `#[derive(ConfigNamespaces)]`: namespace `exec.moe` has the bag `ExecMoeBag`"
)]
pub trait Bag: Send + Sync + 'static {
    /// The namespace it belongs to.
    const INFO: NamespaceInfo;
    /// Number of leaves in it and below. A number of its own: code that needs it would else hold the whole of `INFO`.
    #[doc(hidden)]
    const LEN: usize = Self::INFO.len();

    #[doc(hidden)]
    fn build(values: &[Erased]) -> Self;
    /// The derived value with this index, read through its accessor.
    #[doc(hidden)]
    fn read(&self, index: usize) -> Option<Erased>;
}

/// All bags of a schema.
#[doc(hidden)]
pub trait Bags: Send + Sync + Sized + 'static {
    /// Builds the bags whose leaves changed; the others are shared with `previous`.
    fn build(values: &[Erased], previous: Option<(&Self, &[Erased])>) -> Self;
    /// The derived value with this index, read through its accessor.
    fn read(&self, index: usize) -> Option<Erased>;
}

/// A declared schema: the struct under `#[derive(ConfigNamespaces)]`.
///
/// The struct is never built; it is the declaration from which everything else is emitted.
pub trait ConfigNamespaces: Sized + 'static {
    /// The tree of namespaces and leaves.
    const SCHEMA: NamespaceInfo;
    /// Prefix of environment variables, without the underscore; `None`: the environment is not a source.
    const ENV_PREFIX: Option<&'static str>;

    #[doc(hidden)]
    type Bags: Bags;
    /// A pinned epoch as role `R` sees it; `ArgsPin<R>` for a schema `Args`.
    type Pin<R: Role>: From<Pinned<Self>>;
    /// Setters in an edit of form `F`; `ArgsSetters<F>` for a schema `Args`.
    type Setters<F>: From<Edit> + Into<Edit>;
    /// Typed keys; `ArgsKeys` for a schema `Args`.
    type Keys;
    /// A pinned epoch under a recorder; `ArgsRecording` for a schema `Args`.
    type Recording: Recording<Self>;

    /// The same at one place in memory. The derive emits it, so that it is compiled with the schema and not with each of
    /// its users.
    #[doc(hidden)]
    #[must_use]
    fn schema() -> &'static NamespaceInfo {
        &Self::SCHEMA
    }

    /// Typed keys of all leaves: `Args::keys().pool.queue`.
    fn keys() -> Self::Keys;

    /// Uses every field, so that no `dead_code` warning falls on a struct that is only a declaration.
    #[doc(hidden)]
    fn touch(&self);

    /// Reads this process's flags and environment and the file named there, resolves and publishes.
    ///
    /// Precedence: default < file (`--config FILE` or `PREFIX_CONFIG`) < environment < flags. `--help` prints and
    /// ends the process; warnings about deprecated names go to standard error.
    ///
    /// # Errors
    /// Everything wrong in any source, together.
    fn load() -> Result<Context<Self>, Errors> {
        Self::load_for_reload().map(|(context, _)| context)
    }

    /// The same, with the loader: what [`Context::reload`] and [`Context::watch`] read again.
    ///
    /// # Errors
    /// Everything wrong in any source, together.
    fn load_for_reload() -> Result<(Context<Self>, Loader<Self>), Errors> {
        // Without a bootstrap phase, whose faults would come before those of files.
        let loader = Loader::of_process();
        let resolved = loader.resolve();
        publish_loaded(loader, resolved)
    }

    /// The same for a program that has to know its [bootstrap](crate::Early) leaves first: `prepare` is given them and
    /// the loader, and gives the loader back, with a file that one of them names, say.
    ///
    /// ```no_run
    /// use kitbag::ConfigNamespaces;
    ///
    /// /// Thumbnail service.
    /// #[derive(ConfigNamespaces)]
    /// #[config(env = "THUMB")]
    /// struct Args {
    ///     /// Where the service keeps its files.
    ///     #[config(ns = "service", default = "/var/lib/thumb", bootstrap)]
    ///     home: std::path::PathBuf,
    /// }
    /// fn main() -> Result<(), kitbag::Errors> {
    ///     let (cfg, loader) = Args::load_after_bootstrap(|early, loader| {
    ///         loader.file(early.get(Args::keys().service.home).join("thumb.toml"))
    ///     })?;
    ///     println!("{}", cfg.pin().service().home().display());
    ///     cfg.reload(&loader)?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// If a bootstrap leaf is at fault, everything wrong in environment and flags; else everything wrong in any source.
    fn load_after_bootstrap(
        prepare: impl FnOnce(&Early<Self>, Loader<Self>) -> Loader<Self>,
    ) -> Result<(Context<Self>, Loader<Self>), Errors> {
        let loader = Loader::of_process();
        match loader.bootstrap() {
            Ok(early) => {
                let loader = prepare(&early, loader);
                let resolved = loader.resolve();
                publish_loaded(loader, resolved)
            }
            Err(errors) => publish_loaded(loader, Err(errors)),
        }
    }

    /// A loader whose sources are given one by one; it starts with none.
    fn loader() -> Loader<Self> {
        Loader::default()
    }

    /// The flags of this schema added to a command of the program's own.
    fn augment(command: clap::Command) -> clap::Command {
        crate::source::cli::augment::<Self>(command)
    }

    /// A published context for a test: defaults plus what `set` sets, of any class.
    ///
    /// No file, environment or argument is read, and the facts are fixed, so tests may run in parallel and anywhere.
    ///
    /// # Panics
    /// If the settings are not valid; the text lists every error.
    #[track_caller]
    fn for_test(set: impl FnOnce(&mut Self::Setters<TestKit>)) -> Context<Self> {
        match crate::test_kit::context(set) {
            Ok(context) => context,
            Err(errors) => panic!("test settings are not valid: {errors}"),
        }
    }
}

/// Publishes what a program has loaded, and tells of its warnings; shows the help and ends the process if it was asked for.
fn publish_loaded<S: ConfigNamespaces>(
    loader: Loader<S>,
    resolved: Result<Resolved<S>, Errors>,
) -> Result<(Context<S>, Loader<S>), Errors> {
    match resolved {
        Err(errors) if errors.is_help() => {
            print!("{errors}");
            std::process::exit(0)
        }
        Err(errors) => Err(errors),
        Ok(resolved) => {
            for warning in resolved.warnings() {
                eprintln!("warning: {warning}");
            }
            Ok((resolved.publish(), loader))
        }
    }
}

/// What a key holds of its types: nothing.
type Types<S, T, P> = std::marker::PhantomData<fn() -> (S, T, P)>;

/// The typed name of one leaf of schema `S`. `P` is [`Bootstrap`](crate::Bootstrap) if the leaf is known before files are
/// read.
pub struct Key<S, T, P = ()> {
    index: usize,
    types: Types<S, T, P>,
}

impl<S, T, P> Key<S, T, P> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(index: usize) -> Self {
        Self { index, types: std::marker::PhantomData }
    }

    pub(crate) const fn index(self) -> usize {
        self.index
    }
}

impl<S, T, P> Clone for Key<S, T, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, T, P> Copy for Key<S, T, P> {}

impl<S, T, P> fmt::Debug for Key<S, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.index)
    }
}
