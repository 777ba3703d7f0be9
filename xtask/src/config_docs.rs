//! `cargo xtask docs`: the documents in `docs/config` are made from the engine's settings.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::workspace::{Outcome, cargo, program, root, run as run_command};

/// What `docs --check` says to do about a difference.
const REGENERATE: &str = "cargo xtask docs";

/// Where the documents are kept.
const FOLDER: &str = "docs/config";

/// Writes the documents; with `--check`, compares them with what would be written.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => {
            fs::create_dir_all(root().join(FOLDER))?;
            generate(&root().join(FOLDER))
        }
        ["--check"] => check(),
        other => Err(format!("unexpected {}; there is --check", other.join(" ")).into()),
    }
}

/// Fails and shows the difference if the settings were changed and the documents were not.
pub(crate) fn check() -> Outcome {
    let fresh = tempfile::tempdir()?;
    generate(fresh.path())?;
    compare(&root().join(FOLDER), fresh.path())
}

fn generate(folder: &Path) -> Outcome {
    run_command(cargo("run --quiet -p engine-config --example docs --").arg(folder))
}

/// Also finds files that are no longer made.
fn compare(kept: &Path, fresh: &Path) -> Outcome {
    let mut diff = program("git", &["diff", "--no-index", "--no-color", "--"]);
    let output = diff.arg(kept).arg(fresh).stderr(Stdio::inherit()).output()?;
    let difference = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(format!(
            "{difference}\n{FOLDER} is not what the settings say. If the change is meant, run `{REGENERATE}` and commit."
        )
        .into()),
        _ => Err(format!("cannot compare {FOLDER}: git ended with {}", output.status).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_the_command_that_ends_it() {
        let (kept, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |folder: &Path, text| fs::write(folder.join("leaves.txt"), text).unwrap();
        write(kept.path(), "a: usize = 1\n");
        write(fresh.path(), "a: usize = 1\n");
        compare(kept.path(), fresh.path()).unwrap();
        write(fresh.path(), "a: usize = 2\n");
        let error = compare(kept.path(), fresh.path()).unwrap_err().to_string();
        for part in ["-a: usize = 1", "+a: usize = 2", REGENERATE] {
            assert!(error.contains(part), "{error}");
        }
        write(fresh.path(), "a: usize = 1\n");
        fs::write(kept.path().join("gone.md"), "").unwrap();
        assert!(compare(kept.path(), fresh.path()).unwrap_err().to_string().contains("gone.md"));
    }
}
