//! The default model against an independent float32 implementation.
//!
//! These tests fetch the model into the cache folder of the user when it is not there; without it they fail and say what to do.

mod support;

use std::path::PathBuf;
use std::process::Command;

use engine::checkpoint::Checkpoint;
use engine::default_model;
use engine::runner::Logits;
use engine::text::{Message, SpecialTokens};
use serde_json::Value;
use support::{greedy, ids, json, models, open, runner};

/// Margins of the reference's best token over the second below this are too small to compare choices by.
const CLEAR_MARGIN: f64 = 0.05;
/// How far margins may differ from the reference.
const MARGIN_TOLERANCE: f64 = 5e-3;

fn cache_dir() -> PathBuf {
    std::env::home_dir().expect("a home folder for the model cache").join(".cache/engine")
}

fn checkpoint() -> Checkpoint {
    let path = default_model::obtain(&cache_dir(), None).unwrap_or_else(|e| panic!("{e}"));
    open(&path)
}

fn cases() -> Vec<Value> {
    let reference = json(&models().join("smollm2-greedy.json"));
    reference["cases"].as_array().expect("cases").clone()
}

#[test]
fn prompts_and_conversations_become_the_reference_tokens() {
    let checkpoint = checkpoint();
    let tokenizer = checkpoint.tokenizer().expect("a vocabulary");
    for case in cases() {
        let prompt = case["prompt"].as_str().expect("text");
        let tokens = if case["chat"] == true {
            let template = checkpoint.chat_template().expect("the model has one");
            let text = template.render(&[Message::user(prompt)]).expect("renders");
            tokenizer.encode(&text, SpecialTokens::AsWritten)
        } else {
            tokenizer.encode(prompt, SpecialTokens::Add)
        };
        assert_eq!(tokens.expect("encodes"), ids(&case["prompt_ids"]), "{prompt:?}");
        let text = tokenizer.decode_with_special(&ids(&case["greedy_ids"])).expect("decodes");
        assert_eq!(text, case["greedy_text"].as_str().expect("text"), "{prompt:?}");
    }
}

#[test]
fn choices_and_their_margins_match_the_reference() {
    let checkpoint = checkpoint();
    let mut runner = runner(&checkpoint, 16, 64);
    let vocab_size = checkpoint.config().vocab_size;
    let mut compared = 0;
    for case in cases() {
        let (prompt, chosen) = (ids(&case["prompt_ids"]), ids(&case["greedy_ids"]));
        let margins = case["margins"].as_array().expect("margins");
        let mut sequence = runner.start();
        runner.extend(&mut sequence, &prompt[..prompt.len() - 1], Logits::Last).expect("there is room");
        let fed: Vec<u32> = prompt[prompt.len() - 1..].iter().chain(&chosen[..chosen.len() - 1]).copied().collect();
        let logits = runner.extend(&mut sequence, &fed, Logits::All).expect("there is room");
        runner.release(sequence).expect("it held its pages");
        for (step, (logits, &want)) in logits.chunks_exact(vocab_size).zip(&chosen).enumerate() {
            let margin = margins[step].as_f64().expect("a number");
            let best = (0..vocab_size).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("logits");
            let second = (0..vocab_size).filter(|&id| id != best).map(|id| logits[id]).fold(f32::MIN, f32::max);
            if margin > CLEAR_MARGIN {
                assert_eq!(best, want as usize, "{}: step {step}, margin {margin}", case["prompt"]);
                let got = f64::from(logits[best] - second);
                let off = (got - margin).abs();
                assert!(off <= MARGIN_TOLERANCE, "{}: step {step}: margin {got} is not {margin}", case["prompt"]);
                compared += 1;
            }
        }
    }
    assert!(compared > 400, "only {compared} choices were clear enough to compare");
}

#[test]
fn one_token_at_a_time_gives_the_reference_text_while_margins_are_clear() {
    let checkpoint = checkpoint();
    let mut runner = runner(&checkpoint, 7, 512);
    for case in cases().into_iter().take(4) {
        let chosen = ids(&case["greedy_ids"]);
        let margins = case["margins"].as_array().expect("margins");
        let clear = margins.iter().take_while(|m| m.as_f64().is_some_and(|m| m > CLEAR_MARGIN)).count();
        let got = greedy(&mut runner, &ids(&case["prompt_ids"]), clear);
        assert_eq!(got, chosen[..clear], "{}", case["prompt"]);
    }
}

#[test]
fn the_command_without_a_model_path_knows_the_capital_of_france() {
    default_model::obtain(&cache_dir(), None).unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(env!("CARGO_BIN_EXE_engine"))
        .envs([support::ON_CPU])
        .args(["generate", "--chat", "What is the capital of France?"])
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("Paris"), "{text}");
}
