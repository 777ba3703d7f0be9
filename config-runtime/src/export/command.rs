//! What is made from the command line rather than from the schema itself.

use clap::Command;

use crate::schema::ConfigNamespaces;

/// A man page of `command` with the flags of the schema, in roff. Needs the feature `man`.
///
/// ```
/// # use kitbag::{ConfigNamespaces, clap};
/// /// Thumbnail service.
/// #[derive(ConfigNamespaces)]
/// struct Args {
///     /// Jobs that may wait.
///     #[config(ns = "pool", default = 32)]
///     queue: usize,
/// }
/// let page = kitbag::export::man::<Args>(clap::Command::new("thumbs").version("1.0"));
/// assert!(page.contains(r".TH thumbs 1") && page.contains("Jobs that may wait"));
/// ```
#[cfg(feature = "man")]
#[must_use]
pub fn man<S: ConfigNamespaces>(command: Command) -> String {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = clap_mangen::Man::new(S::augment(command)).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}

#[cfg(feature = "completion")]
pub use clap_complete::Shell;

/// A script that completes `command` with the flags of the schema in `shell`. Needs the feature `completion`.
///
/// Choices are completed by their spellings and paths by the files that there are.
///
/// ```
/// # use kitbag::{ConfigNamespaces, clap, export};
/// /// Thumbnail service.
/// #[derive(ConfigNamespaces)]
/// struct Args {
///     /// Jobs that may wait.
///     #[config(ns = "pool", default = 32)]
///     queue: usize,
/// }
/// for shell in [export::Shell::Bash, export::Shell::Fish] {
///     let script = export::completion::<Args>(clap::Command::new("thumbs"), shell);
///     assert!(script.contains("queue"));
/// }
/// ```
#[cfg(feature = "completion")]
#[must_use]
pub fn completion<S: ConfigNamespaces>(command: Command, shell: Shell) -> String {
    completion_of::<S>(S::augment(command), shell)
}

/// A script that completes `command`, which has the flags of the schema already: it or its subcommands went through
/// [`ConfigNamespaces::augment`]. Needs the feature `completion`.
///
/// ```
/// # use kitbag::{ConfigNamespaces, clap, export};
/// /// Thumbnail service.
/// #[derive(ConfigNamespaces)]
/// struct Args {
///     /// Keep jobs on disk.
///     #[config(ns = "pool", default = true)]
///     durable: bool,
/// }
/// let run = Args::augment(clap::Command::new("run"));
/// let command = clap::Command::new("thumbs").subcommand(run).subcommand(clap::Command::new("version"));
/// let script = export::completion_of::<Args>(command, export::Shell::Bash);
/// assert!(script.contains("--durable") && script.contains("true false"));
/// ```
#[cfg(feature = "completion")]
#[must_use]
pub fn completion_of<S: ConfigNamespaces>(command: Command, shell: Shell) -> String {
    let root = super::tree::Node::of::<S>();
    let entries: Vec<_> = root.walk().into_iter().flat_map(super::tree::Node::settings).collect();
    let mut command = hinted_command(command, &entries);
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The command with what the values of its settings may be, and those of its subcommands.
#[cfg(feature = "completion")]
fn hinted_command(command: Command, entries: &[&super::tree::Entry]) -> Command {
    let command = command.mut_args(|argument| {
        let entry = entries.iter().find(|entry| argument.get_id() == entry.info.path);
        match entry {
            Some(entry) => hinted(argument, entry),
            None => argument,
        }
    });
    command.mut_subcommands(|command| hinted_command(command, entries))
}

/// The argument with what its value may be. Parsing goes without: the leaf's own type reads the value, and says more.
#[cfg(feature = "completion")]
fn hinted(argument: clap::Arg, entry: &super::tree::Entry) -> clap::Arg {
    use clap::builder::PossibleValuesParser;

    use crate::leaf::Shape;

    let mut shape = entry.shape();
    while let Shape::Optional(inner) = shape {
        shape = *inner;
    }
    match shape {
        Shape::Bool => argument.value_parser(PossibleValuesParser::new(["true", "false"])),
        Shape::Choice(names) => argument.value_parser(PossibleValuesParser::new(names)),
        Shape::Text { what: "path", .. } => argument.value_hint(clap::ValueHint::AnyPath),
        _ => argument,
    }
}
