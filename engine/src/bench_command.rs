//! `engine bench`: how fast a model is on this machine, and whether it is right.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;

use engine::bench::correctness::{Disagreement, Reference, reference_agrees, ways_agree};
use engine::bench::one_batch::{Measured, Shape, measure};
use engine::runner::Runner;
use engine_config::Settings;
use kitbag::ConfigNamespaces;
use kitbag::clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::cli::{Failure, loader};
use crate::launch::{self, Opened};
use crate::machine::Machine;

pub(crate) const NAME: &str = "bench";
const ONE_BATCH: &str = "one-batch";

pub(crate) fn command() -> Command {
    let list = |name: &'static str, value, default, help| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .value_delimiter(',')
            .num_args(1..)
            .action(ArgAction::Append)
            .value_parser(value_parser!(usize))
            .default_value(default)
            .help(help)
    };
    let one_batch = Command::new(ONE_BATCH)
        .about("Time one batch of random tokens: prefill, then decode, without a server")
        .arg(list("batch-size", "N", "1", "Sequences at once; a list runs every combination"))
        .arg(list("input-len", "TOKENS", "128", "Tokens of the prompt; a list runs every combination"))
        .arg(list("output-len", "TOKENS", "16", "Tokens to generate; a list runs every combination"))
        .arg(
            Arg::new("repeats")
                .long("repeats")
                .value_name("N")
                .default_value("5")
                .value_parser(value_parser!(u16).range(1..))
                .help("Runs of each combination, of which the median is told"),
        )
        .arg(
            Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object for each combination"),
        )
        .arg(
            Arg::new("correctness-test")
                .long("correctness-test")
                .action(ArgAction::SetTrue)
                .help(
                    "Compare prefills whole and in parts, page sizes and decode steps instead, and fail if they disagree",
                )
                // Nothing of it follows from these.
                .conflicts_with_all(["batch-size", "output-len", "repeats", "json"]),
        )
        .arg(
            Arg::new("reference")
                .long("reference")
                .value_name("FILE")
                .requires("correctness-test")
                .value_parser(value_parser!(PathBuf))
                .help("Compare with this file of prompt_ids and greedy_ids too"),
        )
        .arg(
            Arg::new("tolerance")
                .long("tolerance")
                .value_name("X")
                .default_value("0.002")
                .allow_negative_numbers(true)
                .value_parser(tolerance)
                .requires("correctness-test")
                .help("How far logits may be apart"),
        );
    Command::new(NAME)
        .about("Measure a model on this machine")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Settings::augment(one_batch))
}

/// A distance; with what is none, everything would agree, or nothing.
fn tolerance(text: &str) -> Result<f32, &'static str> {
    let number = text.parse::<f32>().ok();
    number.filter(|number| number.is_finite() && *number >= 0.0).ok_or("expected a number, 0 or more")
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((ONE_BATCH, matches)) = matches.subcommand() else { unreachable!("clap requires the command above") };
    let Opened { context, checkpoint } = launch::open(&loader(matches), None)?;
    let runner = launch::build_runner(&context, &checkpoint, Machine::detect())?;
    let seed = launch::seed(&context.view());
    if matches.get_flag("correctness-test") { compare(matches, runner, seed) } else { time(matches, runner, seed) }
}

fn numbers(matches: &ArgMatches, name: &str) -> Vec<usize> {
    matches.get_many(name).into_iter().flatten().copied().collect()
}

fn time(matches: &ArgMatches, mut runner: Runner, seed: u64) -> Result<(), Failure> {
    let [batches, inputs, outputs] = ["batch-size", "input-len", "output-len"].map(|name| numbers(matches, name));
    let shapes = Shape::product(&batches, &inputs, &outputs);
    // One that cannot run is told of before the others take their time.
    shapes.iter().try_for_each(|shape| shape.check(&runner)).map_err(Failure::run)?;
    let repeats = usize::from(matches.get_one::<u16>("repeats").copied().unwrap_or(1));
    let json = matches.get_flag("json");
    let mut out = std::io::stdout().lock();
    if !json {
        writeln!(out, "{}", row("batch", "input", "output", "latency s", "prefill tok/s", "decode tok/s", "step ms"))?;
    }
    for shape in shapes {
        let measured = measure(&mut runner, shape, repeats, seed).map_err(Failure::run)?;
        if json {
            writeln!(out, "{}", report(&measured, &runner, seed))?;
        } else {
            writeln!(out, "{}", line(&measured))?;
        }
        out.flush()?;
    }
    launch::warn_of_graphs(&runner);
    Ok(())
}

fn row(
    batch: impl Display,
    input: impl Display,
    output: impl Display,
    latency: impl Display,
    prefill: impl Display,
    decode: impl Display,
    step: impl Display,
) -> String {
    format!("{batch:>5} {input:>6} {output:>6} {latency:>10} {prefill:>14} {decode:>13} {step:>9}")
}

fn line(measured: &Measured) -> String {
    let Measured { shape, latency, prefill_rate, decode_rate, decode_step, .. } = measured;
    let or_dash = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| format!("{number:.2}"));
    row(
        shape.batch_size,
        shape.input_len,
        shape.output_len,
        format!("{latency:.4}"),
        format!("{prefill_rate:.2}"),
        or_dash(*decode_rate),
        or_dash(decode_step.map(|step| step * 1e3)),
    )
}

fn report(measured: &Measured, runner: &Runner, seed: u64) -> Value {
    json!({
        "batch_size": measured.shape.batch_size,
        "input_len": measured.shape.input_len,
        "output_len": measured.shape.output_len,
        "repeats": measured.repeats,
        "seed": seed,
        "threads": runner.built().threads,
        "latency_seconds": measured.latency,
        "prefill_seconds": measured.prefill,
        "decode_step_seconds": measured.decode_step,
        "prefill_tokens_per_second": measured.prefill_rate,
        "decode_tokens_per_second": measured.decode_rate,
    })
}

/// Margins below this are ties: either token is right.
const TIE: f32 = 0.05;

fn compare(matches: &ArgMatches, runner: Runner, seed: u64) -> Result<(), Failure> {
    let tolerance = matches.get_one::<f32>("tolerance").copied().unwrap_or_default();
    let length = numbers(matches, "input-len").into_iter().max().unwrap_or(1);
    let reference = matches.get_one::<PathBuf>("reference").map(|path| Reference::from_file(path));
    let reference = reference.transpose().map_err(Failure::run)?;
    let (mut runner, mut found) = ways_agree(runner, length, seed, tolerance).map_err(Failure::run)?;
    if let Some(reference) = &reference {
        found.extend(reference_agrees(&mut runner, reference, TIE).map_err(Failure::run)?);
    }
    if found.is_empty() {
        let besides = if reference.is_some() { ", and so does the reference" } else { "" };
        writeln!(std::io::stdout(), "all ways of computing agree{besides} (seed {seed})")?;
        return Ok(());
    }
    let lines: Vec<_> = found.iter().map(Disagreement::to_string).collect();
    Err(Failure::Run(format!("the correctness test failed (seed {seed}):\n{}", lines.join("\n"))))
}
