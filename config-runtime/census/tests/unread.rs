//! Leaves that nobody reads, in a program on kitbag that the compiler goes through.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reads").join(path)
}

/// A copy of the fixture with a manifest: kitbag is where this checkout is, its dependencies are those of the workspace.
fn program(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kitbag = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         kitbag = {{ path = '{}' }}\n",
        kitbag.display()
    );
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::copy(kitbag.parent().unwrap().join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::copy(fixture("src/main.rs"), folder.path().join("src/main.rs")).unwrap();
    fs::copy(fixture("leaves.txt"), folder.path().join("leaves.txt")).unwrap();
    folder
}

fn census(name: &str, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kitbag-census"));
    command.args(["unread", "-p", name, "--leaves", "leaves.txt", "--target-dir"]);
    // Kept from run to run, so that the dependencies are built once.
    command.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread")).args(arguments);
    command.current_dir(folder).output().unwrap()
}

#[test]
fn leaves_that_only_rules_and_tests_read_are_errors() {
    let program = program("reads");
    let output = census("reads", program.path(), &["--reads", "--roles"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{stdout}");
    let advice = "no code reads it; remove it, or mark it `resolution_only` if rules are all that needs it";
    let unread = ["http.timeout", "pool.burst", "pool.reserve", "store.folder"];
    let expected: String = unread.map(|leaf| format!("`{leaf}`: {advice}\n")).concat();
    assert_eq!(stderr, expected);

    let mut reads = String::new();
    let source = fs::read_to_string(fixture("src/main.rs")).unwrap();
    for line in fs::read_to_string(fixture("leaves.txt")).unwrap().lines() {
        let leaf = line.split(':').next().unwrap();
        writeln!(reads, "{leaf}").unwrap();
        for (number, line) in source.lines().enumerate().filter(|(_, line)| line.ends_with(&format!("//~ {leaf}"))) {
            let accessor = format!("{}()", leaf.rsplit('.').next().unwrap());
            let column = line.find(&format!(".{accessor}")).unwrap() + 2;
            writeln!(reads, "  src/main.rs:{}:{column}", number + 1).unwrap();
        }
    }
    let roles = "\
Worker (src/main.rs:48) may read PoolBag, HttpBag, StoreBag
  HttpBag: 0 reads by signature, 2 by file
  PoolBag: 2 reads by signature, 1 by file
  never read: StoreBag
";
    assert_eq!(stdout, format!("{reads}{roles}"));

    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/census.md")).unwrap();
    assert!(page.contains(roles) && page.contains(stderr.lines().last().unwrap()), "docs/census.md shows other output");

    // All leaves that are left are read.
    let listing = fs::read_to_string(fixture("leaves.txt")).unwrap();
    let read = listing.lines().filter(|line| !unread.iter().any(|leaf| line.starts_with(leaf)));
    let read = read.flat_map(|line| [line, "\n"]).collect::<String>();
    fs::write(program.path().join("leaves.txt"), &read).unwrap();
    let output = census("reads", program.path(), &[]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert_eq!(stdout, "5 leaves, 5 reads: each leaf is read\n");

    // A listing that is older than the program.
    let old = read.replace("http.listen", "http.address");
    fs::write(program.path().join("leaves.txt"), old).unwrap();
    let output = census("reads", program.path(), &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("`http.address`: no code reads it"), "{stderr}");
    assert!(stderr.contains("`http.listen`: read at src/main.rs:59 but not in the listing"), "{stderr}");
}

#[test]
fn a_program_that_does_not_compile_is_no_census() {
    let program = program("broken");
    fs::write(program.path().join("src/main.rs"), "fn main() { wrong() }").unwrap();
    let output = census("broken", program.path(), &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("cannot find function `wrong`"), "{stderr}");
}
