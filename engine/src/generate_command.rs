//! `engine generate`: one prompt, one text.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::Instant;

use engine::checkpoint::Checkpoint;
use engine::generate::{Step, generate};
use engine::text::Message;
use engine_config::Settings;
use kitbag::ConfigNamespaces;
use kitbag::clap::builder::NonEmptyStringValueParser;
use kitbag::clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};

use crate::cli::{Failure, loader};
use crate::interrupts::Interrupts;
use crate::launch::{self, Asked, Opened};
use crate::machine::Machine;
use crate::{prompt, result_json, stdin};

pub(crate) const NAME: &str = "generate";

pub(crate) fn command() -> Command {
    let command = Command::new(NAME)
        .about("Generate a text from one prompt")
        .arg(text("prompt", "Continue this text; `-` reads it from standard input"))
        .arg(text(
            "chat",
            "Answer this message, written as the model's chat template says; `-` reads it from standard input",
        ))
        .arg(ids("input-ids", "Continue these token ids, separated by commas"))
        .group(ArgGroup::new("input").args(["prompt", "chat", "input-ids"]).required(true))
        .args(stops())
        .arg(count("logprobs", "Say how likely each generated token was, and the N likeliest (with --json)"))
        .arg(count("prompt-logprobs", "Say how likely each token of the prompt was, and the N likeliest (with --json)"))
        .arg(Arg::new("stream").long("stream").action(ArgAction::SetTrue).help("Print the text while it is generated"))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the result as one JSON object; with --stream, one for each step before it"),
        );
    Settings::augment(command)
}

/// The flags that end a text.
pub(crate) fn stops() -> [Arg; 2] {
    let stop = Arg::new("stop")
        .long("stop")
        .value_name("TEXT")
        .help("End the text before this string; may be given several times")
        .allow_hyphen_values(true)
        .value_parser(NonEmptyStringValueParser::new())
        .action(ArgAction::Append);
    [stop, ids("stop-token-ids", "End the text with any of these token ids, separated by commas")]
}

fn text(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("TEXT").help(help).allow_hyphen_values(true)
}

fn ids(name: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).value_name("IDS").help(help);
    arg.value_delimiter(',').value_parser(value_parser!(u32)).action(ArgAction::Append)
}

fn count(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("N").help(help).value_parser(value_parser!(usize)).requires("json")
}

/// What the flags of a command ask for besides the settings, of a model with so many tokens.
pub(crate) fn asked(matches: &ArgMatches, vocab_size: usize) -> Result<Asked, Failure> {
    // Commands that answer in text alone have no such flags.
    let count = |name: &str| matches.try_get_one::<usize>(name).ok().flatten().copied();
    Ok(Asked {
        stop: matches.get_many::<String>("stop").into_iter().flatten().cloned().collect(),
        stop_token_ids: token_ids(matches, "stop-token-ids", vocab_size)?,
        logprobs: count("logprobs"),
        prompt_logprobs: count("prompt-logprobs"),
    })
}

/// The token ids of a flag. One that no token has would end no text, and begin none.
fn token_ids(matches: &ArgMatches, name: &str, vocab_size: usize) -> Result<Vec<u32>, Failure> {
    let ids: Vec<u32> = matches.get_many::<u32>(name).into_iter().flatten().copied().collect();
    match ids.iter().find(|&&id| id as usize >= vocab_size) {
        None => Ok(ids),
        Some(id) => {
            Err(Failure::Usage(format!("--{name}: token id {id} is beyond the model's vocabulary of {vocab_size}")))
        }
    }
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let interrupts = Interrupts::new()?;
    let (stream, json) = (matches.get_flag("stream"), matches.get_flag("json"));
    let start = Instant::now();
    let Opened { context, checkpoint } = launch::open(&loader(matches), None)?;
    let prompt = prompt_token_ids(matches, &checkpoint)?;
    let asked = asked(matches, checkpoint.config().vocab_size)?;
    let mut runner = launch::build_runner(&context, &checkpoint, Machine::detect())?;
    let load = start.elapsed();
    let request = launch::request(&context.view(), &checkpoint, prompt, asked);
    let tokenizer = checkpoint.tokenizer();

    let mut out = std::io::stdout().lock();
    let mut written = Ok(());
    let on_step = |step: Step<'_>| {
        if stream && json {
            written = writeln!(out, "{}", result_json::step(&step, tokenizer)).and_then(|()| out.flush());
        } else if stream {
            written = out.write_all(step.text.as_bytes()).and_then(|()| out.flush());
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let (generated, is_interrupted) =
        interrupts.during(|cancelled| generate(&mut runner, tokenizer, &request, cancelled, on_step));
    let generation = generated.map_err(Failure::run)?;
    written?;
    if json {
        writeln!(out, "{}", result_json::result(&request, &generation, tokenizer, load))?;
    } else if tokenizer.is_none() {
        // Ids are all there is; they are written as `--input-ids` reads them.
        let ids: Vec<_> = generation.token_ids.iter().map(ToString::to_string).collect();
        writeln!(out, "{}", ids.join(","))?;
    } else if stream {
        writeln!(out)?;
    } else {
        writeln!(out, "{}", generation.text)?;
    }
    out.flush()?;
    launch::warn_of_graphs(&runner);
    if is_interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

fn prompt_token_ids(matches: &ArgMatches, checkpoint: &Checkpoint) -> Result<Vec<u32>, Failure> {
    let text = |name: &str| match matches.get_one::<String>(name).map(String::as_str) {
        Some("-") => stdin::read_all().map(Some),
        text => Ok(text.map(str::to_owned)),
    };
    if let Some(text) = text("prompt")? {
        prompt::of_text(checkpoint, &text)
    } else if let Some(message) = text("chat")? {
        prompt::of_conversation(checkpoint, &[Message::user(&message)])
    } else {
        token_ids(matches, "input-ids", checkpoint.config().vocab_size)
    }
}
