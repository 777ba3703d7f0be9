//! `cargo xtask budget`: what a large schema costs to compile, beside clap-derive and serde-derive on the same fields.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{Outcome, root};

/// A schema of 543 settings may cost this much more than one of half of them.
pub(crate) const MOST_GROWTH: f64 = 2.3;
/// Each figure is the least of so many runs, since what else the machine does only adds; the peer, which takes minutes
/// and is compared by a factor, has one.
const RUNS: usize = 3;

/// A crate that is compiled alone, its dependencies being there.
pub(crate) struct Subject {
    package: &'static str,
    about: &'static str,
    generate: &'static [&'static str],
    dependencies: &'static str,
}

/// The first half of each namespace, and all of it.
pub(crate) const HALF_AND_FULL: [Subject; 2] = [
    Subject { package: "half", about: "kitbag, half of the fields", generate: &["--half"], dependencies: KITBAG },
    Subject { package: "full", about: "kitbag, all fields", generate: &[], dependencies: KITBAG },
];

const PEER: Subject = Subject {
    package: "peer",
    about: "clap-derive and serde-derive, all fields",
    generate: &["--peer"],
    dependencies: PEERS,
};

const KITBAG: &str = "kitbag = { path = \"ROOT/config-runtime\" }";
const PEERS: &str = "clap = { version = \"4.6\", features = [\"derive\"] }\n\
                     serde = { version = \"1\", features = [\"derive\"] }\ntoml = \"1.2\"";

/// The ways to compile, with cargo's arguments for each.
const WAYS: [(&str, &[&str]); 2] = [("check", &["check"]), ("release", &["build", "--release"])];

/// Prints CPU seconds and ratios; fails if doubling the fields costs too much. Absolute times are never checked.
pub(crate) fn run() -> Outcome {
    let [half, full] = HALF_AND_FULL;
    let subjects = [half, full, PEER];
    let folder = tempfile::tempdir()?;
    write_workspace(folder.path(), &subjects)?;
    let mut seconds = [[0.0; 3]; WAYS.len()];
    for ((way, arguments), row) in WAYS.iter().zip(&mut seconds) {
        for (subject, cell) in subjects.iter().zip(row) {
            eprintln!("{way}: {}", subject.about);
            *cell = subject.measure(folder.path(), arguments)?;
        }
    }
    println!("{:<42} {:>10} {:>10}", "CPU seconds of the crate alone", WAYS[0].0, WAYS[1].0);
    for (index, subject) in subjects.iter().enumerate() {
        println!("{:<42} {:>10.2} {:>10.2}", subject.about, seconds[0][index], seconds[1][index]);
    }
    let ratio = |above: usize, below: usize| seconds.map(|row| row[above] / row[below]);
    let (growth, peer) = (ratio(1, 0), ratio(2, 1));
    println!("{:<42} {:>10.2} {:>10.2}", "all fields / half of them", growth[0], growth[1]);
    println!("{:<42} {:>10.2} {:>10.2}", "clap-derive and serde-derive / kitbag", peer[0], peer[1]);
    match growth.into_iter().find(|growth| *growth > MOST_GROWTH) {
        Some(growth) => Err(format!("twice the fields cost {growth:.2} times as much, more than {MOST_GROWTH}").into()),
        None => Ok(()),
    }
}

/// Writes the crates and a workspace around them.
pub(crate) fn write_workspace(folder: &Path, subjects: &[Subject]) -> Outcome {
    let members: Vec<_> = subjects.iter().map(|subject| format!("{:?}", subject.package)).collect();
    let workspace = format!("[workspace]\nresolver = \"3\"\nmembers = [{}]\n", members.join(", "));
    fs::write(folder.join("Cargo.toml"), workspace)?;
    // The versions that this workspace has, so that a comparison in a month compares the same.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    subjects.iter().try_for_each(|subject| subject.write(folder))
}

impl Subject {
    /// Writes the crate.
    fn write(&self, workspace: &Path) -> Outcome {
        let folder = workspace.join(self.package);
        fs::create_dir_all(&folder)?;
        let dependencies = self.dependencies.replace("ROOT", &root().to_string_lossy());
        let manifest = format!(
            "[package]\nname = {:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n",
            self.package
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        let mut generate = Command::new("python3");
        generate.arg(root().join("tests/scale/generate.py")).args(self.generate).arg("--into").arg(&folder);
        let output = generate.output().map_err(|error| format!("python3, which writes the schemas: {error}"))?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
    }

    /// User and system seconds of rustc on this crate, without cargo's own.
    fn measure(&self, workspace: &Path, arguments: &[&str]) -> Outcome<f64> {
        let compilation = self.compilation(workspace, arguments)?;
        let runs = if self.dependencies == PEERS { 1 } else { RUNS };
        (0..runs).try_fold(f64::INFINITY, |least, _| Ok(least.min(compilation.seconds()?)))
    }

    /// How rustc compiles this crate, once its dependencies are there.
    pub(crate) fn compilation(&self, workspace: &Path, arguments: &[&str]) -> Outcome<Compilation> {
        let output = Command::new("cargo")
            .args(arguments)
            .args(["--verbose", "--lib", "--package", self.package])
            .current_dir(workspace)
            .env("CARGO_TARGET_DIR", workspace.join("target"))
            .env("CARGO_TERM_COLOR", "never")
            // What an earlier run left would be used again, and only the difference measured.
            .env("CARGO_INCREMENTAL", "0")
            .output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let said: Vec<_> = log.lines().filter(|line| !line.trim().starts_with("Running `")).collect();
            return Err(format!("{}:\n{}", self.package, said.join("\n")).into());
        }
        let crate_name = format!("--crate-name {} ", self.package);
        let command = log
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Running `")?.strip_suffix('`'))
            .find(|command| command.contains(&crate_name))
            .ok_or_else(|| format!("cargo did not say how it compiles {}", self.package))?;
        Ok(Compilation { command: command.to_owned(), folder: workspace.to_owned() })
    }
}

/// A command of rustc on one crate.
pub(crate) struct Compilation {
    command: String,
    folder: PathBuf,
}

impl Compilation {
    /// User and system seconds of one run.
    pub(crate) fn seconds(&self) -> Outcome<f64> {
        let before = children_seconds()?;
        let compiled = Command::new("sh").arg("-c").arg(&self.command).current_dir(&self.folder).output()?;
        if !compiled.status.success() {
            return Err(String::from_utf8_lossy(&compiled.stderr).into());
        }
        Ok(children_seconds()? - before)
    }
}

/// User and system time of all children that have ended, as Linux counts them: in hundredths of a second.
pub(crate) fn children_seconds() -> Outcome<f64> {
    let path = PathBuf::from("/proc/self/stat");
    let text =
        fs::read_to_string(&path).map_err(|error| format!("CPU time is read from {}: {error}", path.display()))?;
    children_ticks(&text).map(|ticks| ticks as f64 / 100.0).ok_or_else(|| "no CPU time in /proc/self/stat".into())
}

/// The 16th and 17th fields; the second is a name in parentheses that may hold anything.
fn children_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(13);
    Some(times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::children_ticks;

    #[test]
    fn time_of_children_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 130 40 20 0 1 0";
        assert_eq!(children_ticks(stat), Some(170));
        assert_eq!(children_ticks("7"), None);
    }
}
