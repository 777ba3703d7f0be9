//! Logits of every family that runs on a device, with the tokens that the reference chose.

use std::num::NonZeroUsize;

use engine::model::{CudaChoices, CudaDecoder, Decoder, Naming, WeightPlan};
use engine::runner::Runner;
use kernel_tests::device;
use kernels::cpu::Workers;

use super::{Reference, SPLIT, all_logits, limits, logits_of, open, runner};

/// What rounding every activation to bf16 may cost.
const RELATIVE_ERROR: f64 = 1.5e-2;
/// The same for the models of single options: they are half as wide, and what they add is large, so that it cannot be overlooked.
const RELATIVE_ERROR_OF_OPTIONS: f64 = 3e-2;
/// A choice that the reference made by less is none that 16 bits decide.
const MARGIN: f32 = 0.1;

fn relative_error(got: &[f32], want: &[f32]) -> f64 {
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>();
    let off = squares(&mut got.iter().zip(want).map(|(got, want)| f64::from(got - want)));
    (off / squares(&mut want.iter().map(|&want| f64::from(want)))).sqrt()
}

/// The likeliest token, and by how much it leads the next one.
fn choice(logits: &[f32]) -> (usize, f32) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    (order[0], logits[order[0]] - logits[order[1]])
}

/// What the reference says, and the device: the prompt in chunks, and what followed token by token.
fn run(model: &str) -> (Reference, Vec<f32>) {
    let reference = Reference::of(model);
    let mut runner = runner(&open(model), 16, 32).unwrap_or_else(|error| panic!("{model}: {error}"));
    let (prompt, greedy) = reference.tokens.split_at(reference.prompt.len());
    let got = logits_of(&mut runner, std::iter::once(prompt).chain(greedy.chunks(1)));
    assert_eq!(got.len(), reference.logits.len(), "{model}");
    (reference, got)
}

fn check(model: &str) {
    let (reference, got) = run(model);
    let error = relative_error(&got, &reference.logits);
    eprintln!("{model}: relative error {error:.2e}");
    assert!(error <= RELATIVE_ERROR, "{model}: relative error {error}");
    let mut decided = 0;
    let rows = got.chunks_exact(reference.vocabulary).zip(reference.logits.chunks_exact(reference.vocabulary));
    for (row, (got, want)) in rows.enumerate() {
        let (token, margin) = choice(want);
        if margin > MARGIN {
            assert_eq!(choice(got).0, token, "{model}: after token {row}, where the reference leads by {margin}");
            decided += 1;
        }
    }
    assert!(decided > reference.tokens.len() / 2, "{model}: {decided}");
}

#[test]
fn llama() {
    check("llama");
}

#[test]
fn llama_whose_embedding_is_its_head() {
    check("llama_tied");
}

#[test]
fn mistral_with_its_sliding_window() {
    check("mistral");
}

#[test]
fn qwen2_with_its_biases() {
    check("qwen2");
}

#[test]
fn qwen3_with_its_norms_of_heads() {
    check("qwen3");
}

#[test]
fn options_of_models() {
    let models = [
        "rope_yarn",
        "bias_of_llama_mlp",
        "bias_of_llama_attention",
        "window_of_mistral_layers",
        "vocabulary_padded",
        "heads_of_qwen3_left_out",
    ];
    for model in models {
        let model = format!("options/{model}");
        let (reference, got) = run(&model);
        let error = relative_error(&got, &reference.logits);
        eprintln!("{model}: relative error {error:.2e}");
        assert!(error <= RELATIVE_ERROR_OF_OPTIONS, "{model}: relative error {error}");
    }
}

/// A router whose choice is close chooses otherwise when its input is rounded, and then a row is another one: most rows are alike.
fn check_most_rows(model: &str) {
    let (reference, got) = run(model);
    let rows = got.chunks_exact(reference.vocabulary).zip(reference.logits.chunks_exact(reference.vocabulary));
    let mut errors: Vec<f64> = rows.map(|(got, want)| relative_error(got, want)).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    eprintln!(
        "{model}: relative error of the median row {median:.2e}, of all {:.2e}",
        relative_error(&got, &reference.logits)
    );
    assert!(median <= RELATIVE_ERROR, "{model}: {median}");
}

#[test]
fn most_rows_of_models_with_experts() {
    for model in ["qwen3_moe", "mixtral", "olmoe", "options/experts_every_second_layer", "options/experts_clipped"] {
        check_most_rows(model);
    }
}

/// Where every token goes to all experts, there is no choice that rounding could change. The reference is the engine on the CPU,
/// whose own reference is another implementation.
#[test]
fn all_experts_of_each_token() {
    for model in ["qwen3_moe", "mixtral", "olmoe"] {
        let checkpoint = open(model);
        let mut config = checkpoint.config().clone();
        let experts = config.experts.as_mut().expect("a model with experts");
        experts.per_token = experts.count;
        let tokens = &Reference::of(model).tokens[..48];
        let weights = checkpoint.weights().expect("a model with weights");
        let plan = WeightPlan::check(&config, weights, Naming::Hub).unwrap_or_else(|error| panic!("{error}"));
        let workers = || Workers::new(NonZeroUsize::MIN).expect("threads start");
        let want = {
            let model = Decoder::load(&plan, &workers());
            all_logits(&mut Runner::new(model, workers(), limits(16, 64)).expect("there is room"), tokens)
        };
        // Steps of many rows for each expert, and of few.
        for chunk in [40, 3] {
            let model_there =
                CudaDecoder::load(&plan, &workers(), device(), CudaChoices { page_size: 16, decode: SPLIT });
            let there = model_there.and_then(|loaded| Runner::on_cuda(loaded, limits(16, chunk)));
            let got = all_logits(&mut there.unwrap_or_else(|error| panic!("{model}: {error}")), tokens);
            let error = relative_error(&got, &want);
            eprintln!("{model}: relative error {error:.2e} with all experts, in steps of {chunk}");
            assert!(error <= RELATIVE_ERROR, "{model}: {error}");
        }
    }
}
