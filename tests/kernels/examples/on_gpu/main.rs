//! Everything that only a GPU can say of the kernels, in one run: `cargo run --release -p kernel-tests --example on_gpu`.
//!
//! Are the results right, on the problems that the kernel tests share and many drawn at random, and those of small models;
//! what NVIDIA's sanitizer finds; how long kernels take, beside the least that the memory or the arithmetic of the device
//! allows; and what single instructions make of random operands. Each part leaves a JSON file, what says most in the least
//! time first, and `summary.json` says what has come of all of them, with the numbers that were found. With `--emulated` it
//! runs on the emulated device, on a sample.
//!
//! After a kernel that fails, nothing on a device works for the rest of its process. So each part runs in processes of its
//! own, which go on behind what failed; see `children.rs`.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use kernel_tests::opcodes;
use kernels::cuda::CudaDevice;
use serde_json::{Map, Value, json};

use asked::Asked;

mod alone;
mod asked;
mod children;
mod engine;
mod outside;
mod parity;
mod prebuild;
mod timing;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What a step has found. What was measured is kept beside what is wrong: there it says most.
#[derive(Debug, Default)]
struct Found {
    /// Null where there is nothing to tell.
    value: Value,
    failed: Vec<String>,
}

/// Does something on a device, and says what came of it. It panics where a result is wrong and nothing else can be told.
type Run = dyn Fn(&CudaDevice) -> Outcome<Found>;

/// What a step is called.
#[derive(Debug, Clone)]
struct Title {
    /// What its name begins with: steps of one kind run much the same kernels, and fail alike.
    kind: String,
    name: String,
}

struct Step {
    title: Title,
    run: Box<Run>,
}

impl Step {
    /// Something that is alone of its kind.
    fn new(kind: &str, run: impl Fn(&CudaDevice) -> Outcome<Found> + 'static) -> Self {
        Self { title: Title { kind: kind.to_owned(), name: kind.to_owned() }, run: Box::new(run) }
    }

    /// Something of a kind of which there are several; the rest of its name says which.
    fn of(kind: &str, rest: &str, run: impl Fn(&CudaDevice) -> Outcome<Found> + 'static) -> Self {
        Self { title: Title { kind: kind.to_owned(), name: format!("{kind}{rest}") }, run: Box::new(run) }
    }
}

impl From<Value> for Found {
    fn from(value: Value) -> Self {
        Self { value, failed: Vec::new() }
    }
}

/// How a part is run.
enum Way {
    /// Step by step, in processes of its own.
    Steps(fn(&Asked) -> Vec<Step>),
    /// By other programs.
    Outside(fn(&Asked) -> Outcome<Value>),
}

const PARTS: [(&str, Way); 8] = [
    ("sample", Way::Steps(|_| parity::steps(true))),
    ("opcodes", Way::Steps(|_| vec![Step::new("opcodes", dump_opcodes)])),
    ("timing", Way::Steps(|asked| timing::steps(asked.is_thin, asked.prebuild.is_some()))),
    ("engine", Way::Steps(|asked| engine::steps(&asked.models, &asked.options, asked.is_thin))),
    ("torch", Way::Outside(outside::torch)),
    // The sample is all that is thin.
    ("parity", Way::Steps(|asked| if asked.is_thin { Vec::new() } else { parity::steps(false) })),
    ("sanitizer", Way::Outside(outside::sanitizer)),
    ("random", Way::Steps(|asked| if asked.is_thin { Vec::new() } else { parity::random(200) })),
];

/// What ran is told beside what did not.
fn dump_opcodes(device: &CudaDevice) -> Outcome<Found> {
    let (value, failed) = opcodes::dump(device, 1)?;
    Ok(Found { value, failed })
}

/// The steps of a part.
fn steps_of(part: &str, asked: &Asked) -> Vec<Step> {
    let found = PARTS.iter().find(|(name, _)| *name == part);
    match found {
        Some((_, Way::Steps(steps))) => steps(asked),
        _ => Vec::new(),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("on_gpu: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let asked = Asked::parse(std::env::args_os().skip(1))?;
    if let Some(prebuild) = &asked.prebuild {
        return prebuild::run(&asked, prebuild);
    }
    fs::create_dir_all(&asked.output)?;
    if let Some(task) = &asked.alone {
        return alone::run(&asked, task);
    }
    let device = asked.device()?;
    let facts = device.facts()?;
    let compiler =
        facts.compiler.as_deref().map_or_else(|| "no NVRTC".to_owned(), |version| format!("NVRTC {version}"));
    println!("{} ({}), driver {}.{}, {compiler}", facts.name, device.target(), facts.driver.0, facts.driver.1);
    let mut summary = json!({
        "device": facts.name, "target": device.target().to_string(), "driver": facts.driver,
        "compiler": facts.compiler, "is_thin": asked.is_thin, "parts": {},
    });
    drop(device);
    let wanted = || PARTS.iter().filter(|(name, _)| asked.wants(name));
    for name in wanted().map(|(name, _)| *name).chain(["summary"]) {
        remove_earlier(&asked.output, name)?;
    }
    let mut parts = Map::new();
    for (name, way) in wanted() {
        let start = Instant::now();
        let result = match way {
            _ if *name == prebuild::LEFT_OUT && facts.compiler.is_none() && !asked.names(name) => {
                skipped("there is no NVRTC for kernels that were not compiled before")
            }
            Way::Steps(_) => children::run(&asked, name),
            Way::Outside(run) => run(&asked).unwrap_or_else(|error| json!({ "failed": [error.to_string()] })),
        };
        write(&asked.output.join(format!("{name}.json")), &result)?;
        let verdict = Verdict::of(&result);
        verdict.tell(name, start.elapsed().as_secs_f64());
        parts.insert((*name).to_owned(), verdict.json());
        // Anew after each part: what has been found stays where this program is ended.
        summary["parts"] = Value::Object(parts.clone());
        write(&asked.output.join("summary.json"), &summary)?;
    }
    println!("results are in {}", asked.output.display());
    end(&asked, &parts)
}

/// What has come of a part, for whoever reads only that.
#[derive(Default)]
struct Verdict {
    failed: Vec<String>,
    /// Why nothing of it was run.
    skipped: Option<String>,
    /// What of it was not run, or not to its end.
    notes: Vec<String>,
    /// The numbers that it has found; null where it has none.
    values: Value,
}

impl Verdict {
    fn of(result: &Value) -> Self {
        let texts = |key: &str| -> Vec<String> {
            let texts = result[key].as_array().into_iter().flatten();
            texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
        };
        let skipped = result["skipped"].as_str().map(str::to_owned);
        // Steps have values, and torch's script has times.
        let has_some = |value: &&Value| !value.is_null() && value.as_array().is_none_or(|values| !values.is_empty());
        let values = [&result["values"], &result["microseconds"]].into_iter().find(has_some).cloned();
        Self { failed: texts("failed"), skipped, notes: texts("notes"), values: values.unwrap_or_default() }
    }

    fn tell(&self, part: &str, seconds: f64) {
        match &self.skipped {
            Some(why) => println!("skipped: {part} ({})", first_line(why)),
            None => println!("{part}: {} failures, {seconds:.1} s", self.failed.len()),
        }
        for line in self.failed.iter().chain(&self.notes) {
            println!("  {}", first_line(line));
        }
    }

    fn json(&self) -> Value {
        json!({ "failed": self.failed, "skipped": self.skipped, "notes": self.notes, "values": self.values })
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What a part says of which nothing was run.
fn skipped(why: impl Into<String>) -> Value {
    json!({ "skipped": why.into() })
}

/// An error where a part has failed, or one was skipped that was asked for by its name.
fn end(asked: &Asked, parts: &Map<String, Value>) -> Outcome {
    let those = |is_wanted: &dyn Fn(&str, &Value) -> bool| {
        let names = parts.iter().filter(|(name, verdict)| is_wanted(name, verdict)).map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let failed = those(&|_, verdict| verdict["failed"].as_array().is_none_or(|failed| !failed.is_empty()));
    let skipped = those(&|name, verdict| asked.names(name) && !verdict["skipped"].is_null());
    match (&*failed, &*skipped) {
        ("", "") => Ok(()),
        (failed, "") => Err(format!("failed: {failed}").into()),
        ("", skipped) => Err(format!("skipped, though asked for: {skipped}").into()),
        (failed, skipped) => Err(format!("failed: {failed}; skipped, though asked for: {skipped}").into()),
    }
}

/// Removes what an earlier run has left of a part, so that nothing of it is taken for this one's.
fn remove_earlier(output: &Path, part: &str) -> Outcome {
    for entry in fs::read_dir(output)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let is_of_part = name.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        if is_of_part && path.is_file() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes a file that is whole at any time.
fn write(path: &Path, result: &Value) -> Outcome {
    let scratch = path.with_extension("part");
    fs::write(&scratch, format!("{result:#}\n"))?;
    Ok(fs::rename(scratch, path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(named: &[&str], results: &[(&str, Value)]) -> Result<(), String> {
        let mut asked = Asked::parse([]).unwrap();
        asked.parts = named.iter().map(|&name| name.to_owned()).collect();
        let parts = results.iter().map(|(name, result)| ((*name).to_owned(), Verdict::of(result).json())).collect();
        end(&asked, &parts).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_skipped_is_an_error_only_where_it_was_named() {
        let right = json!({ "failed": [], "notes": ["incomplete: 3 of 4 steps were not run"] });
        let results = [("sample", right), ("torch", skipped("there is no torch"))];
        assert_eq!(ended(&[], &results), Ok(()));
        let refusal = Err("skipped, though asked for: torch".to_owned());
        assert_eq!(ended(&["sample", "torch"], &results), refusal);
    }

    #[test]
    fn what_has_failed_is_an_error() {
        let results = [("sample", json!({ "failed": ["a step"] })), ("engine", json!({ "failed": [] }))];
        assert_eq!(ended(&[], &results), Err("failed: sample".to_owned()));
        let results = [&results[..], &[("torch", skipped("there is no torch"))]].concat();
        assert_eq!(ended(&["torch"], &results), Err("failed: sample; skipped, though asked for: torch".to_owned()));
    }

    #[test]
    fn numbers_are_told_beside_the_verdict() {
        let values = |result: Value| Verdict::of(&result).json()["values"].clone();
        let took = json!([{ "took": 7.0 }]);
        assert_eq!(values(json!({ "failed": ["too slow"], "values": took })), took);
        assert_eq!(values(json!({ "microseconds": { "linear": 5.0 } })), json!({ "linear": 5.0 }));
        for none in [json!({ "failed": [], "values": [] }), skipped("there was no time")] {
            assert_eq!(values(none), Value::Null);
        }
    }

    #[test]
    fn what_an_earlier_run_left_of_a_part_goes() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["parity.json", "parity-0.json", "parity-0.log", "parity-1.part", "paritys.json", "summary.json"];
        for name in files {
            fs::write(folder.path().join(name), "{}").unwrap();
        }
        fs::create_dir(folder.path().join("parity-folder")).unwrap();
        remove_earlier(folder.path(), "parity").unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["parity-folder", "paritys.json", "summary.json"]);
    }

    #[test]
    fn every_part_has_steps_where_nothing_is_thin() {
        let asked = Asked::parse([]).unwrap();
        for (name, way) in PARTS {
            assert!(matches!(way, Way::Outside(_)) || !steps_of(name, &asked).is_empty(), "{name}");
        }
    }
}
