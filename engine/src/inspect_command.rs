//! `engine inspect`: what is in a model, told from its files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use engine::checkpoint::Checkpoint;
use engine::inspect::tensor_kinds;
use engine::memory::Need;
use engine_config::Settings;
use kitbag::ConfigNamespaces;
use kitbag::clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::cli::{Failure, loader};
use crate::launch::{self, Opened};

pub(crate) const NAME: &str = "inspect";
const MODEL: &str = "MODEL";

pub(crate) fn command() -> Command {
    let command = Command::new(NAME)
        .about("Describe a model without loading it: sizes, tensors, vocabulary, memory needed")
        .arg(
            Arg::new(MODEL)
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("model.model_path")
                .help("The model, as --model-path takes it; the model of the settings unless given"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object"));
    Settings::augment(command)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let model = matches.get_one::<PathBuf>(MODEL).map(PathBuf::as_path);
    let Opened { context, checkpoint } = launch::open(&loader(matches), model)?;
    let view = context.view();
    let plan = launch::plan(&view, &checkpoint)?;
    let need = launch::need(&context, &checkpoint, &plan);
    let report = report(&checkpoint, plan.parameters(), need);
    let text = if matches.get_flag("json") { format!("{report}\n") } else { text(&report) };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn report(checkpoint: &Checkpoint, parameters: usize, need: Need) -> Value {
    let config = checkpoint.config();
    let kinds = checkpoint.weights().map(tensor_kinds).unwrap_or_default();
    let tensors: Vec<_> = kinds
        .iter()
        .map(|kind| {
            json!({
                "name": kind.name,
                "element": kind.element.name(),
                "tensors": kind.tensors,
                "elements": kind.elements,
                "bytes": kind.bytes,
            })
        })
        .collect();
    let full = need.kv_per_token.saturating_mul(config.context_length as u64);
    json!({
        "path": checkpoint.path().display().to_string(),
        "architecture": config.architecture.name(),
        "parameters": parameters,
        "context_length": config.context_length,
        "layers": config.layers,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "tied_embeddings": config.tied_embeddings,
        "experts": config.experts.as_ref().map(|experts| json!({
            "count": experts.count,
            "per_token": experts.per_token,
            "intermediate_size": experts.intermediate_size,
            "renormalised": experts.renormalised,
            "sparse_layers": experts.sparse_layers,
        })),
        "windows": config.windows,
        "has_tokenizer": checkpoint.tokenizer().is_some(),
        "has_chat_template": checkpoint.chat_template().is_some(),
        "stop_token_ids": checkpoint.stop_token_ids(),
        "tensors": tensors,
        "memory": {
            "model_bytes": need.model(),
            "weight_bytes": need.weights,
            "kv_bytes_per_token": need.kv_per_token,
            "kv_bytes_of_whole_context": full,
        },
    })
}

fn text(report: &Value) -> String {
    let mut text = String::new();
    // Writing to memory does not fail.
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<20} {value}");
    };
    for (name, key) in [
        ("model", "path"),
        ("architecture", "architecture"),
        ("parameters", "parameters"),
        ("context length", "context_length"),
        ("layers", "layers"),
        ("hidden size", "hidden_size"),
        ("intermediate size", "intermediate_size"),
        ("heads", "heads"),
        ("key-value heads", "kv_heads"),
        ("head dimension", "head_dim"),
        ("vocabulary", "vocab_size"),
        ("tied embeddings", "tied_embeddings"),
        ("tokenizer", "has_tokenizer"),
        ("chat template", "has_chat_template"),
        ("stop tokens", "stop_token_ids"),
    ] {
        line(name, &plain(&report[key]));
    }
    if let Value::Object(experts) = &report["experts"] {
        let number = |key: &str| plain(&experts[key]);
        let layers = of_true(&experts["sparse_layers"]);
        let size = number("intermediate_size");
        let all =
            format!("{} of size {size}, {} for each token, in {layers} layers", number("count"), number("per_token"));
        line("experts", &all);
    }
    for (window, layers) in count_windows(&report["windows"]) {
        line("sliding window", &format!("{window} tokens in {layers} layers"));
    }
    let memory = |key: &str| mebibytes(report["memory"][key].as_u64().unwrap_or_default());
    line("memory, model", &memory("model_bytes"));
    line("memory, context", &format!("{} for keys and values of all of it", memory("kv_bytes_of_whole_context")));
    for kind in report["tensors"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "{:<6} {:>5} x {:<48} {:>12}",
            plain(&kind["element"]),
            plain(&kind["tensors"]),
            plain(&kind["name"]),
            mebibytes(kind["bytes"].as_u64().unwrap_or_default())
        );
    }
    text
}

fn of_true(list: &Value) -> usize {
    list.as_array().into_iter().flatten().filter(|value| **value == true).count()
}

/// Each size of window with the number of its layers.
fn count_windows(windows: &Value) -> BTreeMap<u64, usize> {
    let mut layers = BTreeMap::new();
    for window in windows.as_array().into_iter().flatten().filter_map(Value::as_u64) {
        *layers.entry(window).or_default() += 1;
    }
    layers
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Array(items) if items.is_empty() => "none".into(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
