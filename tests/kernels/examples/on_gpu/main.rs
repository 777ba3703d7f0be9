//! Everything that only a GPU can say of the kernels, in one run: `cargo run --release -p kernel-tests --example on_gpu`.
//!
//! Are the results right, on every problem of the tests and many drawn at random, and those of small models; what NVIDIA's
//! sanitizer finds; how long kernels take, beside the least that the memory or the arithmetic of the device allows; and
//! what single instructions make of random operands. Each part leaves a JSON file, what says most in the least time first.
//! With `--emulated` it runs on the emulated device, on a sample.
//!
//! After a kernel that fails, nothing on a device works for the rest of its process. So each part runs in processes of its
//! own, which go on behind what failed; see `children.rs`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel_tests::opcodes;
use kernels::cuda::{CudaDevice, CudaOptions, KernelCache};
use serde_json::{Value, json};

mod alone;
mod children;
mod engine;
mod outside;
mod parity;
mod timing;

const USAGE: &str = "on_gpu [--output FOLDER] [--only PART]... [--minutes NUMBER] [--thin] [--emulated] \
    [--nvrtc FOLDER] [--prebuilt FOLDER] [--models FOLDER]\n\n\
    PART is sample, opcodes, timing, engine, parity, torch or sanitizer; all of them, in this order, unless some are named.\n\
    --output    where the JSON files go; target/on_gpu unless given\n\
    --minutes   when to end, with what is there by then\n\
    --thin      a sample of the problems\n\
    --emulated  on the emulated device, and thin\n\
    --nvrtc     the folder of NVRTC; the library path unless given\n\
    --prebuilt  kernels that were compiled before, by `cargo xtask kernels --prebuilt`\n\
    --models    the folder of small models; tests/models unless given";

/// What is asked for on the command line.
#[derive(Clone)]
struct Asked {
    output: PathBuf,
    models: PathBuf,
    parts: Vec<String>,
    is_thin: bool,
    is_emulated: bool,
    until: Option<Instant>,
    options: CudaOptions,
    /// What a process of a part is to do.
    alone: Option<alone::Task>,
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Does something on a device, and says what came of it. It panics where a result is wrong.
type Run = dyn Fn(&CudaDevice) -> Outcome<Value>;

struct Step {
    name: String,
    run: Box<Run>,
}

impl Step {
    fn new(name: impl Into<String>, run: impl Fn(&CudaDevice) -> Outcome<Value> + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// How a part is run.
enum Way {
    /// Step by step, in processes of its own.
    Steps(fn(&Asked) -> Vec<Step>),
    /// By other programs.
    Outside(fn(&Asked) -> Outcome<Value>),
}

const PARTS: [(&str, Way); 7] = [
    ("sample", Way::Steps(|_| parity::steps(true))),
    ("opcodes", Way::Steps(|_| vec![Step::new("opcodes", |device| Ok(opcodes::dump(device, 1)?))])),
    ("timing", Way::Steps(|asked| timing::steps(asked.is_thin))),
    ("engine", Way::Steps(|asked| engine::steps(&asked.models, &asked.options, asked.is_thin))),
    // The sample is all that is thin.
    ("parity", Way::Steps(|asked| if asked.is_thin { Vec::new() } else { parity::steps(false) })),
    ("torch", Way::Outside(outside::torch)),
    ("sanitizer", Way::Outside(outside::sanitizer)),
];

/// The steps of a part.
fn steps_of(part: &str, asked: &Asked) -> Vec<Step> {
    let found = PARTS.iter().find(|(name, _)| *name == part);
    match found {
        Some((_, Way::Steps(steps))) => steps(asked),
        _ => Vec::new(),
    }
}

impl Asked {
    fn parse() -> Outcome<Self> {
        let mut asked = Self {
            output: "target/on_gpu".into(),
            models: Path::new(env!("CARGO_MANIFEST_DIR")).join("../models"),
            parts: Vec::new(),
            is_thin: false,
            is_emulated: false,
            until: None,
            options: CudaOptions::default(),
            alone: None,
        };
        let (mut nvrtc, mut prebuilt) = (None, None);
        let mut arguments = std::env::args_os().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{} needs a value", argument.display()));
            let text = |value: std::ffi::OsString| value.into_string().map_err(|_| "a value that is no text");
            match argument.to_str() {
                Some("--output") => asked.output = value()?.into(),
                Some("--models") => asked.models = value()?.into(),
                Some("--only") => asked.parts.push(text(value()?)?),
                Some("--minutes") => {
                    let minutes = Duration::try_from_secs_f64(60.0 * text(value()?)?.parse::<f64>()?)?;
                    asked.until = Instant::now().checked_add(minutes);
                }
                Some("--thin") => asked.is_thin = true,
                Some("--emulated") => asked.is_emulated = true,
                Some("--nvrtc") => nvrtc = Some(value()?.into()),
                Some("--prebuilt") => prebuilt = Some(value()?.into()),
                Some("--alone") => asked.alone = Some(text(value()?)?.parse()?),
                _ => return Err(format!("unknown argument `{}`\nusage: {USAGE}", argument.display()).into()),
            }
        }
        if let Some(unknown) = asked.parts.iter().find(|part| !PARTS.iter().any(|(name, _)| name == part)) {
            return Err(format!("no part is called `{unknown}`\nusage: {USAGE}").into());
        }
        if asked.is_emulated {
            asked.is_thin = true;
            asked.options = kernel_tests::options();
        } else {
            let cache = KernelCache::new(asked.output.join("kernels"), 1 << 30);
            asked.options.kernel_cache = Some(Arc::new(cache));
        }
        asked.options.nvrtc_path = nvrtc.or(asked.options.nvrtc_path);
        asked.options.prebuilt = prebuilt;
        Ok(asked)
    }

    fn device(&self) -> Outcome<CudaDevice> {
        Ok(CudaDevice::open(&self.options)?)
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }

    /// How much time is left, if it is limited.
    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

fn main() -> Outcome {
    let asked = Asked::parse()?;
    fs::create_dir_all(&asked.output)?;
    if let Some(task) = &asked.alone {
        return alone::run(&asked, task);
    }
    let device = asked.device()?;
    println!("{} ({})", device.name()?, device.target());
    drop(device);
    let mut failed = Vec::new();
    for (name, way) in PARTS.iter().filter(|(name, _)| asked.wants(name)) {
        let start = Instant::now();
        let result = match way {
            Way::Steps(steps) => children::run(&asked, name, steps(&asked).len()),
            Way::Outside(run) => run(&asked),
        };
        let result = result.unwrap_or_else(|error| json!({ "failed": [error.to_string()] }));
        write(&asked.output.join(format!("{name}.json")), &result)?;
        let faults = result["failed"].as_array().map_or(&[][..], Vec::as_slice);
        let left = result["left"].as_u64().filter(|left| *left > 0);
        let left = left.map_or_else(String::new, |left| format!(", no time for {left} steps"));
        println!("{name}: {} failures{left}, {:.1} s", faults.len(), start.elapsed().as_secs_f64());
        for fault in faults {
            println!("  {}", fault.as_str().unwrap_or_default().lines().next().unwrap_or_default());
        }
        if !faults.is_empty() {
            failed.push(*name);
        }
    }
    println!("results are in {}", asked.output.display());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

/// Writes a file that is whole at any time.
fn write(path: &Path, result: &Value) -> Outcome {
    let scratch = path.with_extension("part");
    fs::write(&scratch, format!("{result:#}\n"))?;
    Ok(fs::rename(scratch, path)?)
}
