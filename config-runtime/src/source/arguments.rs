//! A command line before clap reads it: what is wrong with an argument is said and left out, so that the rest is read.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::vec::IntoIter;

use clap::{Arg, ArgAction, Command};

use crate::error::{ConfigError, Errors};
use crate::suggest::did_you_mean;

/// Prefix of the flag that switches off.
const NEGATION: &str = "no-";

/// A command line in which nothing is left for clap to refuse.
#[derive(Default)]
pub(super) struct Sorted {
    /// Program name first; a flag and its value are one argument.
    pub(super) arguments: Vec<OsString>,
    pub(super) errors: Errors,
    /// Ids of flags that were given, but not well.
    pub(super) refused: Vec<String>,
    /// `--help` is among the arguments.
    pub(super) wants_help: bool,
}

/// Sorts the arguments of a command that has long flags, `-h` and no positional arguments.
pub(super) fn sort(command: &Command, arguments: Vec<OsString>) -> Sorted {
    let mut rest = arguments.into_iter().peekable();
    let mut sorter = Sorter { command, given: HashSet::new(), switch: None, sorted: Sorted::default() };
    let program = rest.next().unwrap_or_default();
    if is_flag(&program) {
        let hint = "the program's name comes first, then its arguments".to_owned();
        let error = ConfigError::new("a flag stands where the program's name belongs");
        sorter.sorted.errors.push(error.at(program.to_string_lossy()).hint(Some(hint)));
    }
    sorter.sorted.arguments.push(program);
    while let Some(argument) = rest.next() {
        if argument == "--" {
            rest.by_ref().for_each(|argument| sorter.stray(&argument));
        } else if argument == "-h" || argument == "--help" {
            sorter.sorted.wants_help = true;
        } else if is_dashed(&argument) {
            sorter.flag(argument, &mut rest);
        } else {
            sorter.stray(&argument);
        }
    }
    sorter.sorted
}

/// `--name`, also `--name=value`.
fn is_flag(argument: &OsStr) -> bool {
    argument.as_encoded_bytes().starts_with(b"--")
}

/// A word with a dash in front; a dash alone stands for itself.
fn is_dashed(argument: &OsStr) -> bool {
    argument.len() > 1 && argument.as_encoded_bytes().starts_with(b"-")
}

struct Sorter<'a> {
    command: &'a Command,
    /// Names of flags given so far, without dashes.
    given: HashSet<String>,
    /// The switch that was the argument before.
    switch: Option<String>,
    sorted: Sorted,
}

impl Sorter<'_> {
    fn known(&self, name: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|argument| argument.get_long() == Some(name))
    }

    fn flag(&mut self, argument: OsString, rest: &mut Peekable<IntoIter<OsString>>) {
        self.switch = None;
        let bytes = argument.as_encoded_bytes();
        let has_value = bytes.contains(&b'=');
        let shown =
            bytes.split(|byte| *byte == b'=').next().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let Some(known) = shown.strip_prefix("--").and_then(|name| self.known(name)) else {
            self.unknown(&shown);
            // There are no positional arguments, so a word after an unknown flag was meant as its value.
            if !has_value {
                rest.next_if(|next| !is_dashed(next));
            }
            return;
        };
        let id = known.get_id().to_string();
        let action = known.get_action();
        let is_optional = known.get_num_args().is_some_and(|count| count.min_values() == 0);
        let is_switch = known.is_require_equals_set();
        let repeats = matches!(action, ArgAction::Append);
        let takes_value = action.takes_values();
        let mut whole = argument;
        if has_value && !takes_value {
            let name = shown.trim_start_matches("--");
            let opposite = name.strip_prefix(NEGATION).map(|name| format!("write `--{name}=true` or `--{name}=false`"));
            return self.refuse(id, ConfigError::new("takes no value").at(shown).hint(opposite));
        }
        if takes_value && !has_value && !is_switch {
            // A value may begin with a dash: `-1s`, `-5`. One with two is taken for a flag.
            let is_value = |next: &OsString| !is_flag(next) && next != "-h" && !(is_optional && is_dashed(next));
            match rest.next_if(is_value) {
                Some(value) => {
                    whole.push("=");
                    whole.push(value);
                }
                None if is_optional => {}
                None => {
                    let unknown = rest.peek().is_some_and(|next| {
                        next != "--help" && next.to_str().is_some_and(|next| self.is_unknown(next))
                    });
                    let hint = unknown.then(|| format!("a value that begins with two dashes is written `{shown}=--…`"));
                    return self.refuse(id, ConfigError::new("a value is missing").at(shown).hint(hint));
                }
            }
        }
        let name = shown.trim_start_matches("--").to_owned();
        let opposite = match name.strip_prefix(NEGATION) {
            Some(positive) if !takes_value => positive.to_owned(),
            _ => format!("{NEGATION}{name}"),
        };
        if self.given.contains(&opposite) && (is_switch || !takes_value) {
            return self.refuse(id, ConfigError::new(format!("cannot be used with `--{opposite}`")).at(shown));
        }
        if !self.given.insert(name) && !repeats {
            return self.refuse(id, ConfigError::new("given twice").at(shown));
        }
        self.switch = (is_switch && !has_value).then_some(shown);
        self.sorted.arguments.push(whole);
    }

    fn refuse(&mut self, id: String, error: ConfigError) {
        self.sorted.refused.push(id);
        self.sorted.errors.push(error);
    }

    fn is_unknown(&self, argument: &str) -> bool {
        let name = argument.split('=').next().unwrap_or(argument);
        name.strip_prefix("--").is_some_and(|name| self.known(name).is_none())
    }

    fn unknown(&mut self, shown: &str) {
        let name = shown.trim_start_matches('-').to_lowercase();
        let visible = || self.command.get_arguments().filter(|argument| !argument.is_hide_set());
        let path = name.replace(['.', '-'], "_");
        // The whole path is a natural guess, and so is one dash.
        let is_path = |argument: &&Arg| argument.get_id().as_str().replace('.', "_") == path;
        // So is the name of a setting whose flag is called otherwise.
        let is_name = |argument: &&Arg| argument.get_id().as_str().rsplit('.').next() == Some(&path);
        let by_path = visible().find(is_path).or_else(|| visible().find(is_name));
        let positive = name.strip_prefix(NEGATION).and_then(|positive| self.known(positive));
        let is_valued =
            positive.is_some_and(|known| known.get_action().takes_values() && !known.is_require_equals_set());
        let hint = match by_path.and_then(Arg::get_long) {
            Some(long) => Some(format!("did you mean `--{long}`?")),
            None if is_valued => {
                Some(format!("only a switch has a `--{NEGATION}…`, and `--{}` has a value", &name[3..]))
            }
            None => {
                let longs: Vec<_> = visible().filter_map(Arg::get_long).collect();
                did_you_mean(&name, longs).map(|hint| hint.replacen('`', "`--", 1))
            }
        };
        self.sorted.errors.push(ConfigError::new("no such flag").at(shown).hint(hint));
    }

    /// An argument that belongs to no flag.
    fn stray(&mut self, argument: &OsStr) {
        let hint = self.switch.take().map(|switch| format!("write `{switch}={}`", argument.to_string_lossy()));
        let place = if argument.is_empty() { "\"\"".into() } else { argument.to_string_lossy() };
        self.sorted.errors.push(ConfigError::new("unexpected argument").at(place).hint(hint));
    }
}
