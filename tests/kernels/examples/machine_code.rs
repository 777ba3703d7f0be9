//! What compilation makes of the kernels, and how long it takes; `cargo xtask kernels` runs it.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{DecodeKernel, cuda};
use kernel_tests::machine_code::{TABLED, TARGETS, differences, measure, table, table_path};
use kernel_tests::programs::programs;
use kernel_tests::{compiler, device, kernel_cache};
use kernels::cuda::{KernelCache, Prebuilt, Target};

const USAGE: &str = "cargo xtask kernels [--target NAME]... [--bless | --check | --time | --prebuilt FOLDER --model FOLDER]\n\n\
    Prints registers, memory and instructions of all kernels, for all targets unless some are named.\n\
    --bless        commits the figures for sm_80 and sm_90: writes them to tests/kernels/machine_code\n\
    --check        fails where they differ from those committed\n\
    --time         times compilation from nothing, and reading what was compiled before\n\
    --prebuilt     adds the kernels of a model, of which config.json is enough, to a folder for --prebuilt-kernels;\n\
    --page-size    of the engine that will use them, 16 unless given, and\n\
    --split-tokens its --decode-split-tokens, 256 unless given";

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What to do with the targets.
enum Act {
    Show,
    Bless,
    Check,
    Time,
    Prebuild { folder: PathBuf, model: PathBuf, page_size: usize, split_tokens: usize },
}

fn main() -> Outcome {
    let (act, targets) = parse()?;
    if let Act::Prebuild { folder, model, page_size, split_tokens } = &act {
        return prebuild(folder, model, (*page_size, *split_tokens), &targets);
    }
    for target in targets {
        let name = target.to_string();
        match act {
            Act::Bless => bless(&name, target)?,
            Act::Check => check(&name, target)?,
            Act::Time => time(&name, target)?,
            _ => println!("{name}\n{}", figures(target)?.replace('\t', "  ")),
        }
    }
    Ok(())
}

fn parse() -> Outcome<(Act, Vec<Target>)> {
    let mut targets = Vec::new();
    let mut act = Act::Show;
    let (mut folder, mut model) = (None, None);
    let (mut page_size, mut split_tokens) = (16, 256);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--target" => targets.push(value()?.parse()?),
            "--bless" => act = Act::Bless,
            "--check" => act = Act::Check,
            "--time" => act = Act::Time,
            "--prebuilt" => folder = Some(value()?.into()),
            "--model" => model = Some(value()?.into()),
            "--page-size" => page_size = value()?.parse()?,
            "--split-tokens" => split_tokens = value()?.parse()?,
            other => return Err(format!("unknown argument `{other}`\nusage: {USAGE}").into()),
        }
    }
    match (folder, model) {
        (None, None) => {}
        (Some(folder), Some(model)) => act = Act::Prebuild { folder, model, page_size, split_tokens },
        _ => return Err(format!("--prebuilt and --model belong together\nusage: {USAGE}").into()),
    }
    if targets.is_empty() {
        let names = if matches!(act, Act::Bless | Act::Check) { &TABLED[..] } else { &TARGETS };
        targets = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    }
    Ok((act, targets))
}

fn figures(target: Target) -> Outcome<String> {
    Ok(table(&measure(target, true, &kernel_cache())?))
}

fn bless(name: &str, target: Target) -> Outcome {
    let path = table_path(name);
    fs::create_dir_all(path.parent().ok_or("a file is in a folder")?)?;
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let found = figures(target)?;
    for difference in differences(&committed, &found) {
        println!("{name}: {difference}");
    }
    Ok(fs::write(path, found)?)
}

fn check(name: &str, target: Target) -> Outcome {
    let committed = fs::read_to_string(table_path(name)).unwrap_or_default();
    let found = figures(target)?;
    let differences = differences(&committed, &found);
    if differences.is_empty() {
        println!("{name}: {} kernels, as committed", found.lines().count() - 1);
        return Ok(());
    }
    Err(format!("{name}:\n  {}\nif that is meant, run `cargo xtask kernels --bless`", differences.join("\n  ")).into())
}

fn time(name: &str, target: Target) -> Outcome {
    let folder = tempfile::tempdir()?;
    let programs = programs();
    for what in ["compiled from nothing", "read from the cache"] {
        let start = Instant::now();
        let (compiler, cache) = (compiler(), KernelCache::new(folder.path().to_owned(), u64::MAX));
        let found = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for program in &programs {
            cache.compile(&compiler, program, target)?;
        }
        let took = start.elapsed().as_secs_f64();
        println!("{name}: {} programs {what} in {took:.3} s, after {found:.3} s to find the compiler", programs.len());
    }
    Ok(())
}

/// Compiles what the engine loads for a model, which the emulated device tells.
fn prebuild(folder: &Path, model: &Path, (page_size, tokens): (usize, usize), targets: &[Target]) -> Outcome {
    let checkpoint = Checkpoint::open(model, LoadFormat::Dummy)?;
    let device = device();
    for decode in [DecodeKernel::Paged, DecodeKernel::SplitKv { tokens }] {
        cuda::compile_kernels(&device, checkpoint.config(), page_size, decode)?;
    }
    let programs = device.loaded_programs();
    Prebuilt::new(folder.to_owned()).build(&compiler(), &programs, targets)?;
    println!("{} kernels for {} targets are in {}", programs.len(), targets.len(), folder.display());
    Ok(())
}
