//! The invariants of `ARCHITECTURE.md` that a program can check.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::environment;
use crate::workspace::{Outcome, cargo, no_faults, output, root, tracked_files};

/// Files and folders that may hold unsafe code.
const UNSAFE: &[&str] = &[
    "engine/src/weights/mapped_file.rs",
    "kernels/src/cpu/simd",
    "kernels/src/cuda",
    "tests/cuda-emu",
    "tests/kernels/src/emulator.rs",
    "tests/ptx-emu/src/opcode/tensor/bf16_product.rs",
    "tests/ptx-emu/src/vector.rs",
];

/// Folders whose code keeps no state of the process or of a thread.
const WITHOUT_STATICS: &[&str] = &["config-derive/src", "config-runtime/src", "engine", "kernels/src"];

/// The exceptions are state of a thread: scopes that a program opts into.
const SCOPES: &[&str] = &["config-runtime/src/context/ambient.rs", "config-runtime/src/context/scope.rs"];

/// Files and folders of the engine that may read settings; everything else there takes values.
const READERS: &[&str] = &["engine/src/launch.rs", "engine/src/launch"];

/// A package and one of ours that it must not depend on, directly or through others.
const INDEPENDENT: &[(&str, &str)] = &[
    ("kernels", "kitbag"),
    ("kernels", "engine-config"),
    ("kitbag", "kernels"),
    ("kitbag", "engine-config"),
    ("kitbag", "engine"),
    ("kitbag-derive", "kitbag"),
    ("ptx-emu", "kernels"),
    ("cuda-emu", "kernels"),
    ("cuda-emu", "cudarc"),
];

/// Checks all of them.
pub(crate) fn check() -> Outcome {
    let mut faults = Vec::new();
    let mut used = vec![false; UNSAFE.len()];
    let files = tracked_files()?;
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(root().join(path))?;
        if let Some(line) = unsafe_line(&text) {
            match UNSAFE.iter().position(|allowed| path.starts_with(allowed)) {
                Some(index) => used[index] = true,
                None => faults.push(format!("{}:{line}: unsafe code outside the listed files", path.display())),
            }
        }
        if within(path, WITHOUT_STATICS)
            && !within(path, SCOPES)
            && let Some(line) = static_line(&text)
        {
            faults.push(format!("{}:{line}: state that outlives its owner", path.display()));
        }
        if within(path, &["engine/src"])
            && !within(path, READERS)
            && let Some(line) =
                first_line(&text, |code| [".pin()", "read_early("].iter().any(|read| code.contains(read)))
        {
            faults.push(format!("{}:{line}: reads settings outside {}", path.display(), READERS.join(", ")));
        }
    }
    let idle = UNSAFE.iter().zip(used).filter(|(_, used)| !used);
    faults.extend(idle.map(|(path, _)| format!("{path} is listed for unsafe code and has none")));
    faults.extend(environment::faults(&files)?);
    faults.extend(dependency_faults()?);
    no_faults(&faults)
}

fn within(path: &Path, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// The first line with unsafe code.
fn unsafe_line(text: &str) -> Option<usize> {
    // The keyword is apart from what follows it, so that this file passes its own check.
    first_line(text, |code| {
        ["{", "fn ", "impl ", "extern ", "trait "].iter().any(|next| code.contains(&["unsafe ", next].concat()))
    })
}

/// The first line that declares something mutable for the whole process or a thread.
fn static_line(text: &str) -> Option<usize> {
    first_line(text, |code| {
        let item = code.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        let shared = ["Cell<", "Lock<", "Mutex<", "Atomic", "Lazy"].iter().any(|kind| item.contains(kind));
        item.starts_with("thread_local!") || item.starts_with("static mut ") || (item.starts_with("static ") && shared)
    })
}

fn first_line(text: &str, is_hit: impl Fn(&str) -> bool) -> Option<usize> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.enumerate().find(|(_, code)| is_hit(code)).map(|(index, _)| index + 1)
}

fn dependency_faults() -> Outcome<Vec<String>> {
    let metadata: Value = serde_json::from_str(&output(&mut cargo("metadata --format-version 1 --locked"))?)?;
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata has no dependency graph")?;
    let mut faults = Vec::new();
    for (from, to) in INDEPENDENT {
        let id = |name: &str| {
            let packages = metadata["packages"].as_array()?;
            packages.iter().find(|package| package["name"] == name)?["id"].as_str()
        };
        let start = id(from).ok_or_else(|| format!("there is no package {from}"))?;
        let forbidden = id(to).ok_or_else(|| format!("there is no package {to}"))?;
        if reaches(nodes, start, forbidden) {
            faults.push(format!("{from} depends on {to}"));
        }
    }
    Ok(faults)
}

/// Whether `from` depends on `to` in what it builds, tests aside.
fn reaches(nodes: &[Value], from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (vec![from], vec![from]);
    while let Some(id) = open.pop() {
        let node = nodes.iter().find(|node| node["id"] == id);
        let dependencies = node.and_then(|node| node["deps"].as_array()).into_iter().flatten();
        let built = dependencies.filter(|dependency| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
        });
        for next in built.filter_map(|dependency| dependency["pkg"].as_str()) {
            if !seen.contains(&next) {
                seen.push(next);
                open.push(next);
            }
        }
    }
    from != to && seen.contains(&to)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unsafe_code_is_told_from_talk_about_it() {
        let word = "unsafe";
        assert_eq!(unsafe_line(&format!("// {word} {{ }}\n#![forbid({word}_code)]\n")), None);
        assert_eq!(unsafe_line(&format!("fn f() {{\n    {word} {{ g() }}\n}}")), Some(2));
        assert_eq!(unsafe_line(&format!("{word} impl Send for X {{}}")), Some(1));
    }

    #[test]
    fn constants_are_not_state() {
        assert_eq!(static_line("static TABLE: [u8; 2] = [1, 2];\nconst N: usize = 1;\nfn f(x: &'static str) {}"), None);
        assert_eq!(static_line("pub(crate) static N: AtomicUsize = AtomicUsize::new(0);"), Some(1));
        assert_eq!(static_line("\nthread_local! {"), Some(2));
    }

    #[test]
    fn dependencies_of_dependencies_count_and_those_of_tests_do_not() {
        let edge = |to: &str, kind: Option<&str>| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let nodes = [
            json!({"id": "a", "deps": [edge("b", None), edge("d", Some("dev"))]}),
            json!({"id": "b", "deps": [edge("c", Some("build"))]}),
            json!({"id": "c", "deps": [edge("a", None)]}),
            json!({"id": "d", "deps": []}),
        ];
        assert!(reaches(&nodes, "a", "c"));
        assert!(!reaches(&nodes, "a", "d"));
    }
}
