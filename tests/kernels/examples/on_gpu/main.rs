//! Everything that only a GPU can say of the kernels, in one run: `cargo run --release -p kernel-tests --example on_gpu`.
//!
//! Are the results right, on every problem of the tests and many drawn at random; what NVIDIA's sanitizer finds; how long
//! kernels take, beside the least that the memory or the arithmetic of the device allows; and what single instructions
//! make of random operands. Each part leaves a JSON file. With `--emulated` it runs on the emulated device, on a sample.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kernel_tests::opcodes;
use kernels::cuda::{CudaDevice, CudaOptions, KernelCache};
use serde_json::{Value, json};

mod outside;
mod parity;
mod timing;

const USAGE: &str = "on_gpu [--output FOLDER] [--only PART]... [--thin] [--emulated] [--nvrtc FOLDER] [--prebuilt FOLDER]\n\n\
    PART is parity, timing, opcodes, sanitizer or torch; all of them unless some are named.\n\
    --output    where the JSON files go; target/on_gpu unless given\n\
    --thin      a sample of the problems\n\
    --emulated  on the emulated device, and thin\n\
    --nvrtc     the folder of NVRTC; the library path unless given\n\
    --prebuilt  kernels that were compiled before, by `cargo xtask kernels --prebuilt`";

/// What is asked for on the command line.
struct Asked {
    output: PathBuf,
    parts: Vec<String>,
    is_thin: bool,
    is_emulated: bool,
    options: CudaOptions,
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Part = (&'static str, fn(&Asked) -> Outcome<Value>);

const PARTS: [Part; 5] = [
    ("parity", |asked| parity::run(&asked.device()?, asked.is_thin)),
    ("opcodes", |asked| Ok(opcodes::dump(&asked.device()?, 1)?)),
    ("timing", |asked| timing::run(&asked.device()?, asked.is_thin)),
    ("sanitizer", outside::sanitizer),
    ("torch", |_| outside::torch()),
];

impl Asked {
    fn parse() -> Outcome<Self> {
        let mut asked = Self {
            output: "target/on_gpu".into(),
            parts: Vec::new(),
            is_thin: false,
            is_emulated: false,
            options: CudaOptions::default(),
        };
        let (mut nvrtc, mut prebuilt) = (None, None);
        let mut arguments = std::env::args_os().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{} needs a value", argument.display()));
            match argument.to_str() {
                Some("--output") => asked.output = value()?.into(),
                Some("--only") => asked.parts.push(value()?.into_string().map_err(|_| "--only needs a name")?),
                Some("--thin") => asked.is_thin = true,
                Some("--emulated") => asked.is_emulated = true,
                Some("--nvrtc") => nvrtc = Some(value()?.into()),
                Some("--prebuilt") => prebuilt = Some(value()?.into()),
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
}

fn main() -> Outcome {
    let asked = Asked::parse()?;
    let device = asked.device()?;
    println!("{} ({})", device.name()?, device.target());
    drop(device);
    fs::create_dir_all(&asked.output)?;
    let mut failed = Vec::new();
    for (name, run) in PARTS.iter().filter(|(name, _)| asked.wants(name)) {
        let start = Instant::now();
        let result = run(&asked).unwrap_or_else(|error| json!({ "failed": [error.to_string()] }));
        write(&asked.output.join(format!("{name}.json")), &result)?;
        let faults = result["failed"].as_array().map_or(&[][..], Vec::as_slice);
        println!("{name}: {} failures, {:.1} s", faults.len(), start.elapsed().as_secs_f64());
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

fn write(path: &Path, result: &Value) -> Outcome {
    Ok(fs::write(path, format!("{result:#}\n"))?)
}
