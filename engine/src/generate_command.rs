//! `engine generate`: one prompt, one text.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use engine::checkpoint::Checkpoint;
use engine::generate::{FinishReason, Generation, Request, generate};
use engine::text::{Message, SpecialTokens};
use engine_config::Settings;
use kitbag::ConfigNamespaces;
use kitbag::clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::cli::{Failure, settings};
use crate::launch;
use crate::machine::Machine;

pub(crate) const NAME: &str = "generate";

pub(crate) fn command() -> Command {
    let command = Command::new(NAME)
        .about("Generate a text from one prompt")
        .arg(Arg::new("prompt").long("prompt").value_name("TEXT").help("Continue this text").allow_hyphen_values(true))
        .arg(
            Arg::new("chat")
                .long("chat")
                .value_name("TEXT")
                .help("Answer this message, written as the model's chat template says")
                .allow_hyphen_values(true),
        )
        .arg(
            Arg::new("input-ids")
                .long("input-ids")
                .value_name("IDS")
                .help("Continue these token ids, separated by commas")
                .value_delimiter(',')
                .value_parser(value_parser!(u32))
                .action(ArgAction::Append),
        )
        .group(ArgGroup::new("input").args(["prompt", "chat", "input-ids"]).required(true))
        .arg(Arg::new("stream").long("stream").action(ArgAction::SetTrue).help("Print the text while it is generated"))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the result as one JSON object on the last line"),
        );
    Settings::augment(command)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let context = settings(matches)?;
    let (stream, json) = (matches.get_flag("stream"), matches.get_flag("json"));
    let start = Instant::now();
    let runner_view = context.view();
    let checkpoint = launch::open_checkpoint(&runner_view)?;
    let prompt = prompt_token_ids(matches, &checkpoint)?;
    let mut runner = launch::build_runner(&runner_view, &checkpoint, Machine::detect())?;
    let load = start.elapsed();
    let request = launch::request(&context.view(), &checkpoint, prompt);

    let mut out = std::io::stdout().lock();
    let mut written = Ok(());
    let generation = generate(&mut runner, checkpoint.tokenizer(), &request, |piece| {
        if stream {
            written = out.write_all(piece.as_bytes()).and_then(|()| out.flush());
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(Failure::run)?;
    written?;
    if checkpoint.tokenizer().is_none() {
        // Ids are all there is; they are written as `--input-ids` reads them.
        if !json {
            let ids: Vec<_> = generation.token_ids.iter().map(ToString::to_string).collect();
            writeln!(out, "{}", ids.join(","))?;
        }
    } else if stream {
        writeln!(out)?;
    } else if !json {
        writeln!(out, "{}", generation.text)?;
    }
    if json {
        writeln!(out, "{}", report(&request, &generation, load))?;
    }
    out.flush()?;
    debug_assert_ne!(generation.finish_reason, FinishReason::Cancelled);
    Ok(())
}

fn prompt_token_ids(matches: &ArgMatches, checkpoint: &Checkpoint) -> Result<Vec<u32>, Failure> {
    let text = |name: &str| matches.get_one::<String>(name);
    let tokenizer = || {
        checkpoint.tokenizer().ok_or_else(|| {
            let path = checkpoint.path().display();
            Failure::Run(format!("{path} has no tokenizer.json to read a text with: give token ids with --input-ids"))
        })
    };
    let ids = if let Some(prompt) = text("prompt") {
        tokenizer()?.encode(prompt, SpecialTokens::Add).map_err(Failure::run)?
    } else if let Some(message) = text("chat") {
        let tokenizer = tokenizer()?;
        let template = checkpoint.chat_template().ok_or_else(|| {
            Failure::Run(format!(
                "{} has no chat template: use --prompt instead of --chat",
                checkpoint.path().display()
            ))
        })?;
        let rendered = template.render(&[Message::user(message)]).map_err(Failure::run)?;
        tokenizer.encode(&rendered, SpecialTokens::AsWritten).map_err(Failure::run)?
    } else {
        matches.get_many::<u32>("input-ids").into_iter().flatten().copied().collect()
    };
    if ids.is_empty() {
        return Err(Failure::Usage("the prompt is empty: there is nothing to continue".into()));
    }
    Ok(ids)
}

fn report(request: &Request, generation: &Generation, load: Duration) -> Value {
    let (prompt, completion) = (request.prompt_token_ids.len(), generation.token_ids.len());
    json!({
        "text": generation.text,
        "token_ids": generation.token_ids,
        "prompt_token_ids": request.prompt_token_ids,
        "finish_reason": generation.finish_reason.name(),
        "seed": request.seed,
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
        "timings": {
            "load_seconds": load.as_secs_f64(),
            "prefill_seconds": generation.prefill.as_secs_f64(),
            "decode_seconds": generation.decode.as_secs_f64(),
            "prefill_tokens_per_second": prompt as f64 / generation.prefill.as_secs_f64(),
            "decode_tokens_per_second": generation.decode_rate(),
        },
    })
}
