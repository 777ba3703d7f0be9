//! Where the workspace is, and how commands run in it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a task comes to.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// A program that will run in the workspace's root and is given no input.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// `cargo` with arguments separated by spaces.
pub(crate) fn cargo(arguments: &str) -> Command {
    program("cargo", &arguments.split(' ').collect::<Vec<_>>())
}

/// Runs a command whose output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Outcome {
    println!("$ {}", shown(command));
    let status = command.status().map_err(|error| format!("cannot run `{}`: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", shown(command)).into()) }
}

/// Runs a command and returns what it wrote to standard output.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    println!("$ {}", shown(command));
    command.stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run `{}`: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("`{}` failed: {}", shown(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The files that git tracks, as paths from the root.
pub(crate) fn tracked_files() -> Outcome<Vec<PathBuf>> {
    let listing = output(&mut program("git", &["ls-files", "-z"]))?;
    let paths = listing.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from);
    // A file that was deleted and not yet committed is still listed.
    Ok(paths.filter(|path| root().join(path).is_file()).collect())
}

/// Fails with all faults, one a line, if there are any.
pub(crate) fn no_faults(faults: &[String]) -> Outcome {
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}
