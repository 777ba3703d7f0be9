//! `engine config probe` from outside.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::command::{engine, refusal, stdout};

/// The folder of the baseline, of settings or of what is built.
fn baseline(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("probe").join(name)
}

fn probe(arguments: &[&str]) -> Output {
    engine(&["config", "probe"]).args(arguments).output().expect("the command runs")
}

#[test]
fn neither_folder_nor_environment_nor_cores_change_a_byte() {
    same_bytes_elsewhere("baseline", &[]);
    same_bytes_elsewhere("built", &["--built"]);
}

fn same_bytes_elsewhere(name: &str, switch: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("engine.toml"), "[schedule]\npage_size = 4\n").expect("writes");
    // On one core of however many there are; a rule that counted them would differ from what is declared.
    let mut command = Command::new("taskset");
    command
        .args(["-c", "0", env!("CARGO_BIN_EXE_engine"), "config", "probe", "--bless", "--baseline", "fresh"])
        .args(switch);
    command.current_dir(folder.path());
    command.env("HOME", folder.path()).env("LANG", "tr_TR.UTF-8").env("RAYON_NUM_THREADS", "3");
    command.env("ENGINE_SCHEDULE_PAGE_SIZE", "4").env("ENGINE_CONFIG", "engine.toml").env("ENGINE_NO_SUCH", "1");
    let output = command.output().expect("taskset of util-linux runs");
    assert!(stdout(&output).contains(" shapes, "), "{}", stdout(&output));
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("lists").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    };
    let fresh = folder.path().join("fresh");
    let baseline = baseline(name);
    assert_eq!(names(&fresh), names(&baseline));
    for name in names(&fresh) {
        let read = |folder: &Path| std::fs::read(folder.join(&name)).expect("reads");
        assert!(read(&fresh) == read(&baseline), "{} differs", name.display());
    }
}

#[test]
fn a_check_passes_or_says_what_changed() {
    let cases = [
        ("baseline", &["--check"][..], " resolve, ", "01-dense-80gb\n", "probe --bless"),
        ("built", &["--check", "--built"], " are built, ", "01-defaults-llama\n", "probe --built --bless"),
    ];
    for (name, arguments, counted, first, advice) in cases {
        let folder = baseline(name);
        let check = |folder: &Path| {
            let folder = folder.to_str().expect("text");
            probe(&[arguments, &["--baseline", folder]].concat())
        };
        let output = check(&folder);
        assert!(stdout(&output).contains(" shapes as in ") && stdout(&output).contains(counted), "{}", stdout(&output));
        let empty = tempfile::tempdir().expect("a folder");
        let output = check(empty.path());
        let (code, text) = refusal(&output);
        assert!(code == Some(1) && text.contains(first) && text.contains(advice), "{text}");
    }
}

#[test]
fn two_shapes_are_compared_by_number_or_name() {
    assert_eq!(stdout(&probe(&["--diff", "2", "03-24gb-one"])), "exec.threads: 8 -> 16\n");
    assert_eq!(stdout(&probe(&["--diff", "dense-80gb", "1"])), "no differences\n");
    let output = probe(&["--check", "--baseline", "no/such/folder"]);
    let (code, text) = refusal(&output);
    assert!(code == Some(2) && text.contains("there is no folder no/such/folder: "), "{text}");
    let built = "compute.instructions: \"avx2\" -> \"avx512\"\ncompute.threads: 8 -> 32\n";
    assert_eq!(stdout(&probe(&["--built", "--diff", "defaults-wide", "7"])), built);
    let output = probe(&["--diff", "4", "3"]);
    assert!(stdout(&output).starts_with("refused -> resolved\n- --tp-size: no such flag"), "{}", stdout(&output));
    let (output, none, both) = (probe(&["--diff", "1", "nine"]), probe(&[]), probe(&["--check", "--bless"]));
    assert_eq!(refusal(&output), (Some(2), "engine: no shape is called `nine`\n"));
    assert_eq!(refusal(&probe(&["--diff", "nine", "1"])).0, Some(2));
    let unwritable = probe(&["--bless", "--baseline", "/dev/null/below"]);
    assert_eq!(refusal(&unwritable).0, Some(1));
    assert_eq!((refusal(&none).0, refusal(&both).0), (Some(2), Some(2)));
}
