//! What compilation makes of the kernels, and how long it takes; `cargo xtask kernels` runs it.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::model::{DecodeKernel, cuda};
use kernel_tests::conflicts::BankConflicts;
use kernel_tests::machine_code::{TARGETS, add_conflicts, differences, in_parallel, measure, table, table_path};
use kernel_tests::programs::programs;
use kernel_tests::{Emulator, compiler, device, kernel_cache};
use kernels::cuda::{CudaError, KernelCache, Prebuilt, Program, Target};

const USAGE: &str = "cargo xtask kernels [--target NAME]... [--bless | --check | --time [--model FOLDER] | --prebuilt FOLDER --model FOLDER]\n\n\
    Prints registers, memory, instructions and bank conflicts of all kernels, for all targets unless some are named.\n\
    --bless        commits the figures: writes them to tests/kernels/machine_code\n\
    --check        fails where they differ from those committed\n\
    --time         times compilation from nothing, and reading what was compiled before: of all kernels, or of a model's\n\
    --prebuilt     adds the kernels of a model, of which config.json is enough, or of a GGUF file to a folder for\n\
                   --prebuilt-kernels;\n\
    --page-size    of the engine that will use them, 16 unless given, and\n\
    --split-tokens its --decode-split-tokens, 256 unless given";

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What to do with the targets.
enum Act {
    Show,
    Bless,
    Check,
    Time(Option<Model>),
    Prebuild(PathBuf, Model),
}

/// A model, of which `config.json` is enough, and what else decides its kernels.
struct Model {
    folder: PathBuf,
    page_size: usize,
    split_tokens: usize,
}

fn main() -> Outcome {
    let (act, targets) = parse()?;
    match act {
        Act::Time(model) => {
            let programs = model.map_or_else(|| Ok(programs()), |model| model.programs())?;
            return targets.into_iter().try_for_each(|target| time(&programs, target));
        }
        Act::Prebuild(folder, model) => return prebuild(&folder, &model, &targets),
        Act::Show | Act::Bless | Act::Check => {}
    }
    let conflicts = BankConflicts::count(&device(), &Emulator::open());
    for target in targets {
        let (name, found) = (target.to_string(), figures(target, &conflicts)?);
        match act {
            Act::Bless => bless(&name, &found)?,
            Act::Check => check(&name, &found)?,
            _ => println!("{name}\n{}", found.replace('\t', "  ")),
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
            "--time" => act = Act::Time(None),
            "--prebuilt" => folder = Some(value()?.into()),
            "--model" => model = Some(value()?.into()),
            "--page-size" => page_size = value()?.parse()?,
            "--split-tokens" => split_tokens = value()?.parse()?,
            other => return Err(format!("unknown argument `{other}`\nusage: {USAGE}").into()),
        }
    }
    let model = model.map(|folder| Model { folder, page_size, split_tokens });
    let act = match (act, folder, model) {
        (Act::Time(_), None, model) => Act::Time(model),
        (_, Some(folder), Some(model)) => Act::Prebuild(folder, model),
        (act, None, None) => act,
        _ => return Err(format!("--model belongs to --prebuilt or --time\nusage: {USAGE}").into()),
    };
    if targets.is_empty() {
        targets = TARGETS.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    }
    Ok((act, targets))
}

fn figures(target: Target, conflicts: &BankConflicts) -> Outcome<String> {
    let mut kernels = measure(&programs(), target, true, &kernel_cache())?;
    add_conflicts(&mut kernels, conflicts);
    Ok(table(&kernels))
}

fn bless(name: &str, found: &str) -> Outcome {
    let path = table_path(name);
    fs::create_dir_all(path.parent().ok_or("a file is in a folder")?)?;
    let committed = fs::read_to_string(&path).unwrap_or_default();
    for difference in differences(&committed, found) {
        println!("{name}: {difference}");
    }
    Ok(fs::write(path, found)?)
}

fn check(name: &str, found: &str) -> Outcome {
    let committed = fs::read_to_string(table_path(name)).unwrap_or_default();
    let differences = differences(&committed, found);
    if differences.is_empty() {
        println!("{name}: {} kernels, as committed", found.lines().count() - 1);
        return Ok(());
    }
    Err(format!("{name}:\n  {}\nif that is meant, run `cargo xtask kernels --bless`", differences.join("\n  ")).into())
}

fn time(programs: &[Program], target: Target) -> Outcome {
    let folder = tempfile::tempdir()?;
    for what in ["compiled from nothing", "read from the cache"] {
        let start = Instant::now();
        let (compiler, cache) = (compiler(), KernelCache::new(folder.path().to_owned(), u64::MAX));
        let found = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let compiled = in_parallel(programs, |program| cache.compile(&compiler, program, target).map(drop));
        compiled.into_iter().collect::<Result<(), CudaError>>()?;
        let took = start.elapsed().as_secs_f64();
        println!(
            "{target}: {} programs {what} in {took:.3} s, after {found:.3} s to find the compiler",
            programs.len()
        );
    }
    Ok(())
}

impl Model {
    /// What the engine loads for it, whatever the kernel of decoding.
    fn programs(&self) -> Outcome<Vec<Program>> {
        // What is in a file decides which kernels its weights need; of a folder, the configuration is enough.
        let format = if self.folder.is_file() { LoadFormat::Gguf } else { LoadFormat::Dummy };
        let checkpoint = Checkpoint::open(&self.folder, format)?;
        let plan = checkpoint.plan()?;
        Ok(cuda::programs(&plan, self.page_size, DecodeKernel::SplitKv { tokens: self.split_tokens })?)
    }
}

fn prebuild(folder: &Path, model: &Model, targets: &[Target]) -> Outcome {
    let programs = model.programs()?;
    let threads = thread::available_parallelism()?;
    Prebuilt::new(folder.to_owned()).build(&compiler(), &programs, targets, threads)?;
    println!("{} kernels for {} targets are in {}", programs.len(), targets.len(), folder.display());
    Ok(())
}
