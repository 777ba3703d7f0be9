//! Small models of each supported form against an independent float32 implementation.

mod support;

use std::path::Path;

use engine::model::ModelConfig;
use engine::runner::{Logits, Runner};
use engine::text::SpecialTokens;
use support::safetensors::floats;
use support::{families, families_and_options, greedy, ids, json, models, open, runner};

const PAGE_SIZES: [usize; 3] = [1, 16, 64];
/// Whole prompts, single tokens, and chunks that divide the prompt, a page or neither.
const CHUNKS: [usize; 4] = [512, 1, 7, 16];
const TOLERANCE: f32 = 2e-3;

/// Everything that `check` finds wrong with any model.
fn for_each_form(check: impl Fn(&Path, &mut Runner) -> Result<(), String>) {
    let mut faults = Vec::new();
    for model in families_and_options() {
        let path = models().join(&model);
        let checkpoint = open(&path);
        for page_size in PAGE_SIZES {
            for chunk in CHUNKS {
                if let Err(fault) = check(&path, &mut runner(&checkpoint, page_size, chunk)) {
                    faults.push(format!("{model}, pages of {page_size}, chunks of {chunk}: {fault}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn prompt_logits_match_the_reference_for_every_page_and_chunk_size() {
    for_each_form(|path, runner| {
        let reference = json(&path.join("reference.json"));
        let want = floats(&path.join("reference.safetensors"), "prompt_logits");
        let mut sequence = runner.start();
        let prompt = ids(&reference["prompt_ids"]);
        let got = runner.extend(&mut sequence, &prompt, Logits::All).expect("there is room");
        runner.release(sequence).expect("it held its pages");
        if got.len() != want.len() {
            return Err(format!("{} logits, not {}", got.len(), want.len()));
        }
        let worst = got.iter().zip(&want).map(|(got, want)| (got - want).abs()).fold(0.0, f32::max);
        if worst <= TOLERANCE { Ok(()) } else { Err(format!("logits are off by {worst}")) }
    });
}

#[test]
fn greedy_continuations_match_the_reference_for_every_page_and_chunk_size() {
    for_each_form(|path, runner| {
        let reference = json(&path.join("reference.json"));
        let want = ids(&reference["greedy_ids"]);
        assert_eq!(want.len(), 32, "{}", path.display());
        // Twice: the second sequence gets pages that have been used before.
        for round in ["first", "second"] {
            let got = greedy(runner, &ids(&reference["prompt_ids"]), want.len());
            if got != want {
                return Err(format!("in the {round} round {got:?}, not {want:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn splitting_a_prompt_changes_no_bit_of_the_logits() {
    for model in families_and_options() {
        let path = models().join(&model);
        let checkpoint = open(&path);
        let prompt = ids(&json(&path.join("reference.json"))["prompt_ids"]);
        let logits = |page_size, chunk| -> Vec<u32> {
            let mut runner = runner(&checkpoint, page_size, chunk);
            let mut sequence = runner.start();
            let logits = runner.extend(&mut sequence, &prompt, Logits::All).expect("there is room");
            runner.release(sequence).expect("it held its pages");
            logits.into_iter().map(f32::to_bits).collect()
        };
        let whole = logits(16, 512);
        for (page_size, chunk) in [(16, 1), (64, 7), (1, 5), (7, 32), (256, 78)] {
            assert!(logits(page_size, chunk) == whole, "{model}, pages of {page_size}, chunks of {chunk}");
        }
    }
}

#[test]
fn two_sequences_side_by_side_do_not_disturb_each_other() {
    let path = models().join("qwen3");
    let reference = json(&path.join("reference.json"));
    let prompt = ids(&reference["prompt_ids"]);
    let mut runner = runner(&open(&path), 4, 16);
    let alone = greedy(&mut runner, &prompt[..20], 10);
    let mut first = runner.start();
    let mut second = runner.start();
    // Interleaved, so that their pages alternate.
    for part in prompt[..16].chunks(4) {
        for sequence in [&mut first, &mut second] {
            runner.extend(sequence, part, Logits::Last).expect("there is room");
        }
    }
    runner.extend(&mut second, &[1, 2, 3], Logits::Last).expect("there is room");
    let mut next = prompt[16..20].to_vec();
    let mut got = Vec::new();
    for _ in 0..10 {
        let logits = runner.extend(&mut first, &next, Logits::Last).expect("there is room");
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("logits");
        next = vec![best as u32];
        got.push(best as u32);
    }
    assert_eq!(got, alone);
    let free = runner.available_pages();
    runner.release(first).expect("it held its pages");
    runner.release(second).expect("it held its pages");
    assert!(free < runner.available_pages());
}

#[test]
fn both_forms_of_config_json_say_the_same() {
    for model in families_and_options() {
        let read = |file: &str| {
            let path = models().join(&model).join(file);
            let text = std::fs::read_to_string(&path).expect("readable");
            ModelConfig::from_hub_json(&path, &text).unwrap_or_else(|e| panic!("{e}"))
        };
        assert_eq!(read("config.json"), read("config_v5.json"), "{model}");
    }
}

#[test]
fn texts_become_the_reference_tokens_and_back() {
    for model in families() {
        let path = models().join(&model);
        let checkpoint = open(&path);
        let tokenizer = checkpoint.tokenizer().expect("a vocabulary");
        let reference = json(&path.join("reference.json"));
        let prompt = reference["prompt"].as_str().expect("text");
        assert_eq!(tokenizer.encode(prompt, SpecialTokens::Add).expect("encodes"), ids(&reference["prompt_ids"]));
        let cases = reference["tokenizer"].as_array().expect("cases");
        assert!(cases.len() >= 9);
        for case in cases {
            let text = case["text"].as_str().expect("text");
            let tokens = tokenizer.encode(text, SpecialTokens::Add).expect("encodes");
            assert_eq!(tokens, ids(&case["ids"]), "{model}: {text:?}");
            let decoded = tokenizer.decode_with_special(&tokens).expect("decodes");
            assert_eq!(decoded, case["decoded"].as_str().expect("text"), "{model}: {text:?}");
        }
    }
}
