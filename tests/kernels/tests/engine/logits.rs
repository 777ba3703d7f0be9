//! Logits of every family that runs on a device, with the tokens that the reference chose.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use engine::model::{CudaChoices, CudaDecoder, Decoder, Naming, Routed, RouterHook, WeightPlan};
use engine::runner::Runner;
use kernel_tests::device;
use kernel_tests::models::relative_error;
use kernels::cpu::Workers;

use super::emulation::{Choices, Emulation, Numbers, expert_weights, largest};
use super::{Reference, SPLIT, all_logits, limits, logits_of, open, runner};

/// What rounding every activation to bf16 may cost.
const RELATIVE_ERROR: f64 = 1.5e-2;
/// The same for the models of single options: they are half as wide, and what they add is large, so that it cannot be overlooked.
const RELATIVE_ERROR_OF_OPTIONS: f64 = 3e-2;
/// And how much more it may cost than in plain loops that round at the same places.
const BESIDE_EMULATION: f64 = 1.5;
/// What the emulation in double precision may differ from a reference in single precision.
const SINGLE_PRECISION: f64 = 1e-5;
/// A choice that the reference made by less is none that 16 bits decide.
const MARGIN: f32 = 0.1;
/// The same for a choice of experts: how much larger the last chosen one's logit is than that of the next.
const ROUTER_MARGIN: f64 = 0.03;

/// The likeliest token, and by how much it leads the next one.
fn choice(logits: &[f32]) -> (usize, f32) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    (order[0], logits[order[0]] - logits[order[1]])
}

/// What the reference says, and the device.
fn run(model: &str) -> (Reference, Vec<f32>) {
    let reference = Reference::of(model);
    let runner = runner(&open(model), 16, 32).unwrap_or_else(|error| panic!("{model}: {error}"));
    let got = teacher_forced(model, runner, &reference);
    (reference, got)
}

/// The logits after every token of the reference: the prompt in chunks, and what followed token by token.
fn teacher_forced(model: &str, mut runner: Runner, reference: &Reference) -> Vec<f32> {
    let (prompt, greedy) = reference.tokens.split_at(reference.prompt.len());
    let got = logits_of(&mut runner, std::iter::once(prompt).chain(greedy.chunks(1)));
    assert_eq!(got.len(), reference.logits.len(), "{model}");
    got
}

/// Holds logits to the reference, and to what an emulation of the model comes to that rounds where the kernels do.
fn check_logits(model: &str, reference: &Reference, got: &[f32], rounded: &[f32]) {
    let (error, of_rounding) = (relative_error(got, &reference.logits), relative_error(rounded, &reference.logits));
    eprintln!("{model}: relative error {error:.2e}, of rounding alone {of_rounding:.2e}");
    assert!(error <= RELATIVE_ERROR, "{model}: relative error {error}");
    assert!(error <= BESIDE_EMULATION * of_rounding, "{model}: relative error {error}, of rounding {of_rounding}");
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

/// The model in plain loops, once it is known to be the model of the reference.
fn emulated(model: &str, reference: &Reference) -> (Emulation, Vec<Vec<Vec<f64>>>) {
    let emulation = Emulation::of(model);
    let exact = emulation.run(Numbers::Double, &reference.tokens, None);
    let error = relative_error(&exact.logits, &reference.logits);
    assert!(error <= SINGLE_PRECISION, "{model}: the emulation is off by {error}");
    (emulation, exact.routers)
}

fn check(model: &str) {
    let (reference, got) = run(model);
    let (emulation, _) = emulated(model, &reference);
    let rounded = emulation.run(Numbers::Bf16, &reference.tokens, None);
    check_logits(model, &reference, &got, &rounded.logits);
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

/// What a router was seen to choose: layer, position and experts.
type Seen = Arc<Mutex<Vec<(usize, usize, Vec<usize>)>>>;

/// Notes what is chosen, and has the experts of `forced` chosen instead, weighed by the logits that are there.
fn router_hook(seen: Seen, forced: Option<Choices>, per_token: usize, is_renormalised: bool) -> RouterHook {
    Box::new(move |routed: &mut Routed| {
        let count = routed.logits.len() / routed.positions.len();
        let Routed { layer, positions, logits, experts, weights } = routed;
        let tokens = experts.chunks_exact_mut(per_token).zip(weights.chunks_exact_mut(per_token));
        for ((position, logits), (experts, weights)) in positions.iter().zip(logits.chunks_exact(count)).zip(tokens) {
            let position = *position as usize;
            let own = experts.iter().map(|&expert| expert as usize).collect();
            seen.lock().expect("no panic").push((*layer, position, own));
            if let Some(forced) = &forced {
                let chosen = &forced[*layer][position];
                let logits: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
                let of_chosen = expert_weights(&logits, chosen, is_renormalised);
                for i in 0..per_token {
                    (experts[i], weights[i]) = (chosen[i] as i32, of_chosen[i] as f32);
                }
            }
        }
    })
}

/// A router reads what has been rounded, so of two experts that are nearly as likely it may take the other, and a row is another
/// one then. So logits are compared where the experts are those of the reference, and choices with the reference's.
fn check_experts(model: &str) {
    let reference = Reference::of(model);
    let (emulation, routers) = emulated(model, &reference);
    let (_, per_token, is_renormalised) = emulation.experts().expect("a model with experts");
    let choices: Choices =
        routers.iter().map(|layer| layer.iter().map(|logits| largest(logits, per_token)).collect()).collect();
    let run = |forced: Option<Choices>| {
        let seen = Seen::default();
        let hook = router_hook(Arc::clone(&seen), forced, per_token, is_renormalised);
        let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
        let choices = CudaChoices { page_size: 16, decode: SPLIT, graphs: true, settings_key: 0 };
        let checkpoint = open(model);
        let plan = checkpoint.plan().expect("a plan");
        let loaded = CudaDecoder::load(&plan, &workers, device(), choices).map(|model| model.with_router_hook(hook));
        let runner = loaded.and_then(|loaded| Runner::on_cuda(loaded, limits(16, 32)));
        let got = teacher_forced(model, runner.unwrap_or_else(|error| panic!("{model}: {error}")), &reference);
        (got, std::mem::take(&mut *seen.lock().expect("no panic")))
    };
    let (got, seen) = run(Some(choices.clone()));
    let rounded = emulation.run(Numbers::Bf16, &reference.tokens, Some(&choices));
    check_logits(model, &reference, &got, &rounded.logits);
    let others = other_choices(&seen, &choices);
    assert!(seen.len() == emulation.layers() * reference.tokens.len(), "{model}: {}", seen.len());
    let (unforced, seen) = run(None);
    let unforced_others = other_choices(&seen, &choices);
    eprintln!(
        "{model}: {} choices are others; unforced {}, and the relative error is {:.2e}",
        others.len(),
        unforced_others.len(),
        relative_error(&unforced, &reference.logits)
    );
    // What follows from another choice before, in the token itself or in one that it sees, may be any choice.
    let follows = |(layer, token)| unforced_others.iter().any(|&(before, seen)| before < layer && seen <= token);
    let own = unforced_others.iter().copied().filter(|&other| !follows(other));
    for (layer, token) in others.into_iter().chain(own) {
        let logits = &routers[layer][token];
        let order = largest(logits, per_token + 1);
        let gap = logits[order[per_token - 1]] - logits[order[per_token]];
        assert!(gap < ROUTER_MARGIN, "{model}: layer {layer}, token {token}: another choice, and the gap is {gap}");
    }
}

/// The layers and tokens in which other experts were chosen than these.
fn other_choices(seen: &[(usize, usize, Vec<usize>)], choices: &Choices) -> Vec<(usize, usize)> {
    let sorted = |experts: &Vec<usize>| experts.iter().copied().collect::<BTreeSet<_>>();
    let is_other = |(layer, token, own): &&(usize, usize, Vec<usize>)| sorted(own) != sorted(&choices[*layer][*token]);
    seen.iter().filter(is_other).map(|&(layer, token, _)| (layer, token)).collect()
}

#[test]
fn qwen3_moe_with_the_experts_of_the_reference() {
    check_experts("qwen3_moe");
}

#[test]
fn mixtral_with_the_experts_of_the_reference() {
    check_experts("mixtral");
}

#[test]
fn olmoe_with_the_experts_of_the_reference() {
    check_experts("olmoe");
}

/// Options have references of their prompts alone, in which a choice may differ: most rows are alike.
#[test]
fn most_rows_of_options_of_models_with_experts() {
    for model in ["options/experts_every_second_layer", "options/experts_clipped"] {
        let (reference, got) = run(model);
        let rows = got.chunks_exact(reference.vocabulary).zip(reference.logits.chunks_exact(reference.vocabulary));
        let mut errors: Vec<f64> = rows.map(|(got, want)| relative_error(got, want)).collect();
        errors.sort_by(f64::total_cmp);
        let median = errors[errors.len() / 2];
        eprintln!("{model}: relative error of the median row {median:.2e}");
        assert!(median <= RELATIVE_ERROR, "{model}: {median}");
    }
}

/// Where every token goes to all experts, an expert has many rows in a step. The reference is the engine on the CPU, whose own
/// reference is another implementation.
#[test]
fn all_experts_of_each_token() {
    let checkpoint = open("mixtral");
    let mut config = checkpoint.config().clone();
    let experts = config.experts.as_mut().expect("a model with experts");
    experts.per_token = experts.count;
    let tokens = &Reference::of("mixtral").tokens[..48];
    let weights = checkpoint.weights().expect("a model with weights");
    let plan = WeightPlan::check(&config, weights, Naming::Hub).unwrap_or_else(|error| panic!("{error}"));
    let workers = || Workers::new(NonZeroUsize::MIN).expect("threads start");
    let want = {
        let model = Decoder::load(&plan, &workers());
        all_logits(&mut Runner::new(model, workers(), limits(16, 64)).expect("there is room"), tokens)
    };
    let choices = CudaChoices { page_size: 16, decode: SPLIT, graphs: true, settings_key: 0 };
    let there = CudaDecoder::load(&plan, &workers(), device(), choices);
    let there = there.and_then(|loaded| Runner::on_cuda(loaded, limits(16, 40)));
    let got = all_logits(&mut there.unwrap_or_else(|error| panic!("{error}")), tokens);
    let error = relative_error(&got, &want);
    eprintln!("mixtral: relative error {error:.2e} with all experts");
    assert!(error <= RELATIVE_ERROR, "{error}");
}
