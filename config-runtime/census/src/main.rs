//! `kitbag-census`: which code reads which setting.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use kitbag_census::{Census, Sources, pin, scan, schema, unread};

/// Expressions nest as deeply as their authors like, and each level is some calls of this program.
const STACK: usize = 256 << 20;

fn main() -> ExitCode {
    let matches = command().get_matches();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || run(&matches));
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(matches: &ArgMatches) -> ExitCode {
    let outcome = match matches.subcommand() {
        Some(("scan", matches)) => print_scan(matches),
        Some(("schema", matches)) => print_schema(matches),
        Some(("pin", matches)) => write_pin(matches),
        Some(("check", matches)) => check_pin(matches),
        Some(("unread", matches)) => check_unread(matches),
        _ => Ok(()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let text = |name: &'static str, help: &'static str| Arg::new(name).long(name).value_name("TEXT").help(help);
    let crate_ = || text("crate", "folder of the package").value_name("DIR").required(true);
    let struct_ = || text("struct", "the settings struct, by name or path").value_name("NAME").required(true);
    let file = || text("file", "the pin").value_name("FILE").required(true);
    let switch = |name: &'static str, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let of_struct =
        |name: &'static str, about: &'static str| Command::new(name).about(about).arg(crate_()).arg(struct_());
    Command::new("kitbag-census")
        .about("Finds every read of a settings struct, and every leaf of a schema that nothing reads")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(of_struct("scan", "list every read").arg(switch("json", "as JSON")))
        .subcommand(of_struct("schema", "propose namespaces for a kitbag schema"))
        .subcommand(of_struct("pin", "write the uses that remain to a file").arg(file()))
        .subcommand(of_struct("check", "fail if uses were added, or are gone and still pinned").arg(file()))
        .subcommand(
            Command::new("unread")
                .about("fail if a leaf of a kitbag schema is read by no code")
                .arg(text("manifest-path", "Cargo.toml").value_name("FILE").default_value("Cargo.toml"))
                .arg(
                    text("package", "a package that reads settings; may be given several times")
                        .short('p')
                        .value_name("NAME")
                        .action(ArgAction::Append)
                        .required(true),
                )
                .arg(text("leaves", "the schema's listing").value_name("FILE").required(true))
                .arg(text("target-dir", "where to build").value_name("DIR"))
                .arg(switch("reads", "print the reads of each leaf"))
                .arg(switch("roles", "print what each role reads")),
        )
}

fn given<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).map_or("", String::as_str)
}

fn sources_and_census(matches: &ArgMatches) -> Result<(Sources, Census), String> {
    let sources = Sources::read(Path::new(given(matches, "crate")))?;
    let census = scan(&sources, given(matches, "struct"))?;
    Ok((sources, census))
}

fn print_scan(matches: &ArgMatches) -> Result<(), String> {
    let (_, census) = sources_and_census(matches)?;
    if matches.get_flag("json") {
        println!("{:#}", census.to_json());
    } else {
        print!("{census}");
    }
    Ok(())
}

fn print_schema(matches: &ArgMatches) -> Result<(), String> {
    let (sources, census) = sources_and_census(matches)?;
    print!("{}", schema::propose(&sources, &census));
    Ok(())
}

fn write_pin(matches: &ArgMatches) -> Result<(), String> {
    let (_, census) = sources_and_census(matches)?;
    let file = given(matches, "file");
    fs::write(file, pin::text(&census)).map_err(|error| format!("{file}: {error}"))
}

fn check_pin(matches: &ArgMatches) -> Result<(), String> {
    let (_, census) = sources_and_census(matches)?;
    let file = given(matches, "file");
    let pinned = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let words = ["crate", "struct", "file"].map(|name| format!(" --{name} {}", given(matches, name)));
    let repin = format!("kitbag-census pin{}", words.concat());
    pin::check(&census, &pinned, &repin).map_err(|faults| faults.join("\n"))?;
    println!("the pin holds: {} reads remain", census.reads.len());
    Ok(())
}

fn check_unread(matches: &ArgMatches) -> Result<(), String> {
    let file = given(matches, "leaves");
    let listing = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let leaves = unread::leaves(&listing).map_err(|error| format!("{file}: {error}"))?;
    let program = unread::Program {
        manifest: PathBuf::from(given(matches, "manifest-path")),
        packages: matches.get_many("package").into_iter().flatten().cloned().collect(),
        target: matches.get_one::<String>("target-dir").map(PathBuf::from),
    };
    let found = unread::reads(&program)?;
    if matches.get_flag("reads") {
        let by_leaf = unread::by_leaf(&found.reads);
        for leaf in &leaves {
            println!("{}", leaf.path);
            for read in by_leaf.get(leaf.path.as_str()).into_iter().flatten() {
                println!("  {}:{}:{}", read.file, read.line, read.column);
            }
        }
    }
    if matches.get_flag("roles") {
        print!("{}", unread::roles(&found)?);
    }
    let faults = unread::faults(&leaves, &found.reads);
    if faults.is_empty() {
        println!("{} leaves, {} reads: each leaf is read", leaves.len(), found.reads.len());
        Ok(())
    } else {
        Err(faults.join("\n"))
    }
}
