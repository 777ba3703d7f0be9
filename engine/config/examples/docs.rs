//! Writes what is made from the settings into a folder: `cargo xtask docs` calls it for `docs/config`.

use std::path::Path;
use std::process::ExitCode;

use engine_config::Settings;
use kitbag::{clap, export};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: docs FOLDER");
        return ExitCode::FAILURE;
    };
    let command = clap::Command::new("engine").about("The settings that commands of the engine take");
    let documents = [
        ("reference.md", export::markdown::<Settings>()),
        ("schema.json", export::json_schema::<Settings>()),
        ("engine.toml", export::toml_template::<Settings>()),
        ("leaves.txt", export::listing::<Settings>()),
        ("engine.1", export::man::<Settings>(command)),
    ];
    for (name, text) in documents {
        if let Err(error) = std::fs::write(Path::new(&folder).join(name), text) {
            eprintln!("cannot write {name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
