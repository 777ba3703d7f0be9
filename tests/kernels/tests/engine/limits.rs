//! What a device cannot do is an error that says what it can.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use engine::model::{Batch, CudaChoices, CudaDecoder, CudaSizes, cuda};
use engine::runner::{Logits, Runner, RunnerLimits};
use kernel_tests::device;
use kernels::cpu::{SequenceSpan, Workers};

use super::{Reference, SPLIT, all_logits, limits, open, runner};

fn refusal<T>(result: engine::Result<T>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sizes_without_a_kernel_are_refused_with_those_that_have_one() {
    let llama = open("llama");
    let config = llama.config();
    let of = |config| refusal(cuda::check_supported(config, 16));
    let cases = [
        (refusal(runner(&open("options/heads_of_20"), 16, 16)), "head_dim is 20; supported: multiples of 16"),
        (refusal(runner(&llama, 24, 16)), "page_size is 24; supported: powers of two"),
        (
            of(&engine::model::ModelConfig { head_dim: 40, ..config.clone() }),
            "head_dim is 40; supported: multiples of 16",
        ),
        (
            of(&engine::model::ModelConfig { hidden_size: 60, ..config.clone() }),
            "is 60; supported: positive multiples of 8",
        ),
    ];
    for (refusal, expected) in cases {
        assert!(refusal.contains(expected) && refusal.contains("--device cpu"), "{refusal}");
    }
    // Another size of pages for a model that is loaded.
    let loaded = runner(&llama, 16, 16).unwrap_or_else(|error| panic!("{error}"));
    assert!(!loaded.takes_pages_of(24));
    assert!(refusal(loaded.rebuild(limits(24, 16))).contains("page_size is 24"));
}

#[test]
fn pages_that_do_not_fit_the_device_are_told_with_a_number_that_does() {
    let llama = open("llama");
    let free = usize::try_from(device().free_memory().expect("known")).expect("a number");
    let plan = llama.plan().expect("a plan");
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let choices = CudaChoices { page_size: 16, decode: SPLIT, graphs: true, settings_key: 0 };
    let load = || CudaDecoder::load(&plan, &workers, device(), choices).unwrap_or_else(|error| panic!("{error}"));
    let per_page = 16 * usize::try_from(cuda::need(&plan, 16, choices).kv_per_token).expect("a number");
    let of = |pool_pages| RunnerLimits { pool_pages, ..limits(16, 16) };
    let message = refusal(Runner::on_cuda(load(), of(free / per_page * 4)));
    assert!(message.contains("MiB free: --max-total-tokens "), "{message}");
    let fitting: usize = message
        .split("--max-total-tokens ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .expect("a number");
    // Other tests use the device meanwhile, so that what is free changes.
    assert!(fitting > 0 && fitting < 16 * (free / per_page * 4), "{fitting} {free} {per_page}");
}

#[test]
fn more_tokens_than_pages_or_context_are_refused_and_the_engine_goes_on() {
    let reference = Reference::of("llama");
    let mut runner = runner(&open("llama"), 16, 16).unwrap_or_else(|error| panic!("{error}"));
    let before = all_logits(&mut runner, &reference.prompt[..10]);
    let mut sequence = runner.start();
    let long = vec![1; 257];
    let refused = refusal(runner.extend(&mut sequence, &long, Logits::Last));
    assert!(refused.contains("257 tokens are more than the context length of 256"), "{refused}");
    let unknown = refusal(runner.extend(&mut sequence, &[512], Logits::Last));
    assert!(unknown.contains("token id 512"), "{unknown}");
    runner.release(sequence).expect("it held its pages");
    assert!(all_logits(&mut runner, &reference.prompt[..10]) == before);
}

/// A runner asks for no such step.
#[test]
fn a_step_that_its_state_has_no_room_for_is_refused() {
    let checkpoint = open("llama");
    let plan = checkpoint.plan().expect("a plan");
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    let choices = CudaChoices { page_size: 8, decode: SPLIT, graphs: true, settings_key: 0 };
    let model = CudaDecoder::load(&plan, &workers, device(), choices).unwrap_or_else(|error| panic!("{error}"));
    let sizes = CudaSizes { page_size: 8, pages: 4, step_tokens: 4, sequences: 1, context_length: 16 };
    let mut state = model.state(sizes).unwrap_or_else(|error| panic!("{error}"));
    let mut step = |cached: usize, new: usize, logit_rows: &[usize]| {
        let positions: Vec<_> = (cached..cached + new).collect();
        let span = SequenceSpan { block_table: &[0, 1, 2, 3], cached, new };
        let token_ids = vec![1; new];
        let batch =
            Batch { token_ids: &token_ids, positions: &positions, slots: &positions, sequences: &[span], logit_rows };
        model.forward(&mut state, batch, &AtomicBool::new(false))
    };
    for (cached, new, rows, expected) in [
        (0, 5, &[4][..], "a step of 5 tokens of 1 sequences with 1 logits"),
        (14, 3, &[2], "a sequence of 17 tokens, and there is room for 16"),
        (16, 1, &[0], "a sequence of 17 tokens, and there is room for 16"),
        (0, 3, &[3], "logits of token 3 are wanted, and the step has 3"),
        (3, 1, &[1], "logits of token 1 are wanted, and the step has 1"),
    ] {
        let refused = refusal(step(cached, new, rows));
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(step(0, 4, &[3]).is_ok_and(|logits| logits.is_some()));
}
