//! Shell commands in the documentation are run, so that they keep working.
//!
//! Every line of a fenced block marked `sh` is one command, run in the root of the workspace.

use std::ffi::OsStr;
use std::fs;

use serde_json::Value;

use crate::workspace::{Outcome, cargo, no_faults, output, program, root, run as run_command};
use crate::{TASKS, steps};

/// A command of a document.
pub(crate) struct Command {
    line: usize,
    /// As written, without its comment if the whole line is one.
    pub(crate) text: String,
}

/// How a command is checked.
#[derive(Debug, PartialEq)]
enum Check<'a> {
    /// It is run.
    Run,
    /// It tests or measures, which other steps do: its packages and targets have to exist.
    Names(Vec<&'a str>),
    /// It would run this very check, or takes too long: it has to be a task, and the steps it selects have to exist.
    Task(&'a str, Vec<&'a str>),
}

/// Checks README, `docs` and the README of the framework.
pub(crate) fn check() -> Outcome {
    let mut faults = Vec::new();
    let mut done = Vec::new();
    for document in documents()? {
        for command in commands(&document)? {
            if done.contains(&command.text) {
                continue;
            }
            if let Err(error) = check_command(&command.text) {
                faults.push(format!("{document}:{}: {error}", command.line));
            }
            done.push(command.text);
        }
    }
    no_faults(&faults)
}

fn check_command(text: &str) -> Outcome {
    match how(text) {
        // By itself the engine would take a GPU that is there.
        Check::Run => return run_command(program("sh", &["-c", text]).env("ENGINE_EXEC_DEVICE", "cpu")),
        Check::Names(arguments) => check_names(&arguments, &members()?)?,
        Check::Task(name, arguments) => {
            if !TASKS.iter().any(|task| task.name == name) {
                return Err(format!("no task is called `{name}`").into());
            }
            if name == "test" {
                steps::select(&arguments)?;
            }
        }
    }
    println!("{text}: not run here");
    Ok(())
}

fn how(text: &str) -> Check<'_> {
    let bare = text.split(" #").next().unwrap_or(text);
    let words: Vec<_> = bare.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", task @ ("test" | "size" | "budget" | "cold-build" | "kernel-mutants"), arguments @ ..] => {
            Check::Task(task, arguments.to_vec())
        }
        ["cargo", "test" | "bench", arguments @ ..] => Check::Names(arguments.to_vec()),
        _ => Check::Run,
    }
}

/// The packages of the workspace, as cargo describes them.
fn members() -> Outcome<Vec<Value>> {
    let metadata: Value = serde_json::from_str(&output(&mut cargo("metadata --format-version 1 --no-deps"))?)?;
    Ok(metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?.clone())
}

/// Checks that what `-p`, `--example`, `--bench` and `--test` name is there.
fn check_names(arguments: &[&str], members: &[Value]) -> Outcome {
    for pair in arguments.windows(2) {
        let [option, name] = *pair else { continue };
        let found = match option {
            "-p" => members.iter().any(|package| package["name"] == name),
            "--example" | "--bench" | "--test" => {
                let kind = option.trim_start_matches('-');
                let targets = members.iter().filter_map(|package| package["targets"].as_array()).flatten();
                targets.into_iter().any(|target| target["name"] == name && target["kind"][0] == kind)
            }
            _ => true,
        };
        if !found {
            return Err(format!("`{option} {name}` names nothing in this workspace").into());
        }
    }
    Ok(())
}

fn documents() -> Outcome<Vec<String>> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(root().join("docs"))? {
        let path = entry?.path();
        if let (Some(name), Some("md")) = (path.file_name(), path.extension().and_then(OsStr::to_str)) {
            documents.push(format!("docs/{}", name.display()));
        }
    }
    documents.sort();
    let others = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "config-runtime/README.md"];
    Ok(others.map(str::to_owned).into_iter().chain(documents).collect())
}

/// The commands of a document, named by its path from the root.
pub(crate) fn commands(document: &str) -> Outcome<Vec<Command>> {
    let text = fs::read_to_string(root().join(document)).map_err(|error| format!("{document}: {error}"))?;
    Ok(extract(&text))
}

fn extract(text: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let (mut inside, mut continued) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            inside = line == "```sh";
            continue;
        }
        if !inside || line.is_empty() || line.starts_with('#') {
            continue;
        }
        let part = line.strip_suffix('\\').unwrap_or(line);
        match commands.last_mut() {
            Some(command) if continued => command.text.push_str(part),
            _ => commands.push(Command { line: index + 1, text: part.to_owned() }),
        }
        continued = line.ends_with('\\');
    }
    commands
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_shell_blocks_hold_commands() {
        let text =
            "a\n```sh\n# comment\none --flag\n\ntwo \\\n  three\n```\n```text\nfour\n```\n```sh\nfive # why\n```\n";
        let found: Vec<_> = extract(text).into_iter().map(|command| (command.line, command.text)).collect();
        let want = [(4, "one --flag"), (6, "two three"), (13, "five # why")];
        assert_eq!(found, want.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn what_would_run_this_check_again_is_not_run() {
        assert_eq!(how("cargo xtask test --list # all"), Check::Task("test", vec!["--list"]));
        assert_eq!(how("cargo test -p kernels # slow"), Check::Names(vec!["-p", "kernels"]));
        assert_eq!(how("cargo xtask cuda-tools"), Check::Run);
        assert_eq!(how("cargo run -- --prompt '#1'"), Check::Run);
    }

    #[test]
    fn names_have_to_exist() {
        let members = [json!({"name": "a", "targets": [{"name": "b", "kind": ["bench"]}]})];
        let holds = |text: &str| check_names(&text.split(' ').collect::<Vec<_>>(), &members).is_ok();
        assert!(holds("-p a --bench b --quiet"));
        assert!(!holds("-p b"));
        assert!(!holds("-p a --example b"));
    }

    #[test]
    fn steps_named_in_documents_have_to_exist() {
        assert!(check_command("cargo xtask test --only format").is_ok());
        assert!(check_command("cargo xtask test --only formt").is_err());
    }
}
