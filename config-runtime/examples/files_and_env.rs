//! A command with files, profiles, environment and flags, and a subcommand that says where a value came from.
//!
//! ```text
//! files_and_env run --config sync.toml --profile prod
//! files_and_env explain transfer.at_once --config sync.toml
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kitbag::clap::{Arg, Command};
use kitbag::{ByteSize, ConfigChoice, ConfigNamespaces};

/// What happens to a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, ConfigChoice)]
enum Existing {
    /// It stays.
    Keep,
    /// It is written over if it is older.
    ReplaceOlder,
    /// It is written over.
    Replace,
}

/// Copies folders.
#[derive(ConfigNamespaces)]
#[config(env = "SYNC", validate(apart(copy.from, copy.to)))]
struct Args {
    /// Folder to copy from.
    #[config(ns = "copy")]
    from: PathBuf,
    /// Folder to copy to.
    #[config(ns = "copy")]
    to: PathBuf,
    /// What happens to a file that is there already.
    #[config(ns = "copy", default = Existing::ReplaceOlder)]
    existing: Existing,
    /// Names that are not copied.
    #[config(ns = "copy", default = ".git")]
    skip: Vec<String>,
    /// Files at a time.
    #[config(ns = "transfer", default = 4, range = 1..=64)]
    at_once: usize,
    /// Bytes a second; as fast as it goes unless set.
    #[config(ns = "transfer")]
    limit: Option<ByteSize>,
    /// How long a file may take.
    #[config(ns = "transfer", default = "10m")]
    timeout: Duration,
}

fn apart(from: &std::path::Path, to: &std::path::Path) -> Result<(), String> {
    if to.starts_with(from) { Err("a folder cannot be copied into itself".to_owned()) } else { Ok(()) }
}

fn main() -> ExitCode {
    match run(std::env::args_os(), std::env::vars_os()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => match error.downcast::<kitbag::clap::Error>() {
            // Help and version go to standard output and are no failure; clap knows.
            Ok(of_command_line) => of_command_line.exit(),
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(2)
            }
        },
    }
}

fn command() -> Command {
    Command::new("sync")
        .about("Copies folders")
        .subcommand_required(true)
        .subcommand(Args::augment(Command::new("run").about("Copies")))
        .subcommand(Args::augment(
            Command::new("explain").about("Says where a value comes from").arg(Arg::new("leaf").required(true)),
        ))
}

/// What the program prints, given what a process is given.
fn run(
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<String, Box<dyn Error>> {
    let matches = command().try_get_matches_from(args)?;
    let (name, matches) = matches.subcommand().ok_or("no subcommand")?;
    let cfg = Args::loader().env(env).matches(matches).load()?;
    if name == "explain" {
        let leaf = matches.get_one::<String>("leaf").ok_or("no leaf")?;
        let explanation = cfg.explain(leaf).map_err(|error| error.to_string())?;
        return Ok(explanation.to_string());
    }
    let now = cfg.pin();
    let (copy, transfer) = (now.copy(), now.transfer());
    let mut text = format!("{} -> {}", copy.from().display(), copy.to().display());
    write!(text, ", {} at once, {:?}", transfer.at_once(), copy.existing())?;
    if let Some(limit) = transfer.limit() {
        write!(text, ", {limit} a second")?;
    }
    writeln!(text, ", {}s a file, without {}", transfer.timeout().as_secs(), copy.skip().join(" "))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Runs the program on a folder with three files.
    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
            write("company.yaml", "transfer:\n  at_once: 8\n  limit: 10MB\ncopy:\n  skip: [.git, target]\n");
            write(
                "sync.toml",
                "include = [\"company.yaml\"]\n\
                 [copy]\nfrom = \"/pictures\"\nto = \"/backup\"\n\
                 [profile.prod.transfer]\nat_once = 32\nlimit = \"\"\n\
                 [profile.prod.copy]\nexisting = \"replace\"\n",
            );
            write("broken.toml", "[copy]\nfrom = \"/pictures\"\nto = 3\nskipp = []\n[transfer]\ntimeout = \"soon\"\n");
            Self(folder)
        }

        fn path(&self, name: &str) -> String {
            self.0.path().join(name).to_str().unwrap().to_owned()
        }

        fn run(&self, args: &[&str], env: &[(&str, &str)]) -> String {
            let args = std::iter::once("sync").chain(args.iter().copied()).map(OsString::from);
            let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
            let text = run(args, env).unwrap_or_else(|error| error.to_string());
            text.replace(&format!("{}/", self.path("").trim_end_matches('/')), "")
        }
    }

    #[test]
    fn later_sources_win() {
        let fixture = Fixture::new();
        let config = fixture.path("sync.toml");
        let run =
            |args: &[&str], env: &[(&str, &str)]| fixture.run(&[&["run", "--config", &config], args].concat(), env);
        let file =
            "/pictures -> /backup, 8 at once, ReplaceOlder, 10000000B a second, 600s a file, without .git target\n";
        assert_eq!(run(&[], &[]), file);
        let prod = "/pictures -> /backup, 32 at once, Replace, 600s a file, without .git target\n";
        assert_eq!(run(&["--profile", "prod"], &[]), prod);
        assert_eq!(run(&[], &[("SYNC_PROFILE", "prod")]), prod);
        let both = run(&["--timeout", "90s", "--skip="], &[("SYNC_TRANSFER_AT_ONCE", "1"), ("SYNC_COPY_TO", "/b")]);
        assert_eq!(both, "/pictures -> /b, 1 at once, ReplaceOlder, 10000000B a second, 90s a file, without \n");
    }

    #[test]
    fn explain_shows_file_profile_variable_and_flag() {
        let fixture = Fixture::new();
        let config = fixture.path("sync.toml");
        let args = ["explain", "transfer.at_once", "--config", &config, "--profile=prod", "--at-once=2"];
        let text = fixture.run(&args, &[("SYNC_TRANSFER_AT_ONCE", "16")]);
        let expected = "transfer.at_once = 2\n  default: 4\n  company.yaml:2:12: 8\n  \
                        sync.toml:6:11 (profile prod): 32\n  SYNC_TRANSFER_AT_ONCE: 16\n> --at-once: 2\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let fixture = Fixture::new();
        let text = fixture.run(&["run", "--config", &fixture.path("broken.toml")], &[("SYNC_COPY_FORM", "/w")]);
        for line in [
            "broken.toml:3:6: copy.to: expected a path, found the integer `3`",
            "broken.toml:4:1: no setting is called `copy.skipp`; did you mean `copy.skip`?",
            "broken.toml:6:11: transfer.timeout: expected a duration such as `250ms`, `1.5s`, `1m30s` or `2h`",
            "SYNC_COPY_FORM: no setting has this environment variable; did you mean `SYNC_COPY_FROM`?",
        ] {
            assert!(text.contains(line), "{line}\nin\n{text}");
        }
        let text = fixture.run(&["run", "--from", "/pictures", "--to", "/pictures/copy"], &[]);
        assert!(text.contains("a folder cannot be copied into itself (copy.from = \"/pictures\""), "{text}");
    }
}
