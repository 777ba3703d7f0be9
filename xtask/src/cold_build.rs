//! `cargo xtask cold-build`: what a program of ten settings takes to build from nothing, beside clap and figment.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::budget::children_seconds;
use crate::workspace::{Outcome, root};

/// A program; both do the same.
struct Subject {
    package: &'static str,
    about: &'static str,
    main: &'static str,
    dependencies: &'static str,
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        package: "kitbag-ten",
        about: "kitbag",
        main: include_str!("../cold-build/kitbag.rs"),
        dependencies: "kitbag = { path = \"ROOT/config-runtime\" }",
    },
    Subject {
        package: "peer-ten",
        about: "clap and figment",
        main: include_str!("../cold-build/clap_figment.rs"),
        dependencies: "clap = { version = \"4.6\", features = [\"derive\"] }\n\
                       figment = { version = \"0.10\", features = [\"env\", \"toml\"] }\n\
                       serde = { version = \"1\", features = [\"derive\"] }",
    },
];

/// A file, and what is given beside it: each source alone sets something, and the stronger wins.
const FILE: &str = "[http]\nbody_limit = 5\n[pool]\nqueue = 6\nworkers = 7\n[log]\nlevel = \"debug\"\n";
const VARIABLES: [(&str, &str); 3] = [("TEN_POOL_QUEUE", "8"), ("TEN_STORE_DAYS", "9"), ("TEN_HTTP_BODY_LIMIT", "10")];
const FLAGS: [&str; 3] = ["--queue=11", "--strict", "--title=t"];
const PRINTED: &str = "127.0.0.1:8080 10 1.5\n7 11 true\ndata 9\nt debug\n";

/// What a build took.
struct Cost {
    crates: usize,
    wall: f64,
    processor: f64,
    binary: f64,
}

/// Prints crates, times and sizes; fails if a program does not do what the other does.
pub(crate) fn run() -> Outcome {
    let mut costs = Vec::new();
    for subject in &SUBJECTS {
        eprintln!("building {}", subject.about);
        costs.push(subject.cost()?);
    }
    println!("{:<32} {:>10} {:>18} {:>8}", "ten settings, built from nothing", "kitbag", SUBJECTS[1].about, "ratio");
    let row = |name: &str, digits: usize, of: fn(&Cost) -> f64| {
        let (ours, theirs) = (of(&costs[0]), of(&costs[1]));
        println!("{name:<32} {ours:>10.digits$} {theirs:>18.digits$} {:>8.2}", ours / theirs);
    };
    row("crates", 0, |cost| cost.crates as f64);
    row("seconds", 1, |cost| cost.wall);
    row("seconds of all processors", 1, |cost| cost.processor);
    row("MiB of the binary", 2, |cost| cost.binary);
    Ok(())
}

impl Subject {
    fn cost(&self) -> Outcome<Cost> {
        let folder = tempfile::tempdir()?;
        let folder = folder.path();
        fs::create_dir(folder.join("src"))?;
        fs::write(folder.join("src/main.rs"), self.main)?;
        let dependencies = self.dependencies.replace("ROOT", &root().to_string_lossy());
        let package = format!("[package]\nname = {:?}\nversion = \"0.1.0\"\nedition = \"2024\"", self.package);
        fs::write(folder.join("Cargo.toml"), format!("{package}\n\n[workspace]\n\n[dependencies]\n{dependencies}\n"))?;
        // The versions that this workspace has; what it does not have is the newest.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        cargo(folder, &["fetch", "--quiet"])?;
        let tree = cargo(folder, &["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"])?;
        let crates = tree.lines().filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len();
        let (start, before) = (Instant::now(), children_seconds()?);
        cargo(folder, &["build", "--release", "--quiet"])?;
        let (wall, processor) = (start.elapsed().as_secs_f64(), children_seconds()? - before);
        let binary = folder.join("target/release").join(format!("{}{}", self.package, std::env::consts::EXE_SUFFIX));
        self.check(&binary, folder)?;
        let binary = fs::metadata(&binary)?.len() as f64 / f64::from(1 << 20);
        Ok(Cost { crates, wall, processor, binary })
    }

    /// Both programs print the same.
    fn check(&self, binary: &Path, folder: &Path) -> Outcome {
        let file = folder.join("ten.toml");
        fs::write(&file, FILE)?;
        let mut command = Command::new(binary);
        command.env_clear().envs(VARIABLES).arg("--config").arg(&file).args(FLAGS);
        let printed = output(&mut command)?;
        if printed == PRINTED {
            return Ok(());
        }
        Err(format!("{} prints\n{printed}and not\n{PRINTED}", self.package).into())
    }
}

fn cargo(folder: &Path, arguments: &[&str]) -> Outcome<String> {
    let mut command = Command::new("cargo");
    output(command.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target")))
}

fn output(command: &mut Command) -> Outcome<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}
