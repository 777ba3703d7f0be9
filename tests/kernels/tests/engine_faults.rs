//! A kernel that fails: whoever asked is told why, so is every other engine on the device, and nobody waits.
//!
//! A failure is the whole process's, so this is a process of its own.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use engine::checkpoint::{Checkpoint, LoadFormat};
use engine::generate::{Request, generate};
use engine::model::{Batch, CudaChoices, CudaDecoder, CudaSizes, DecodeKernel};
use engine::runner::{Logits, Runner, RunnerLimits};
use engine::sampling::Sampling;
use engine::{Error, Result};
use kernel_tests::device;
use kernels::cpu::{SequenceSpan, Workers};

const CHOICES: CudaChoices =
    CudaChoices { page_size: 16, decode: DecodeKernel::SplitKv { tokens: 16 }, graphs: true, settings_key: 0 };
const PAGES: usize = 4;

fn load() -> CudaDecoder {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/llama");
    let checkpoint = Checkpoint::open(&model, LoadFormat::Auto).expect("a model");
    let workers = Workers::new(NonZeroUsize::MIN).expect("threads start");
    CudaDecoder::load(&checkpoint.plan().expect("a plan"), &workers, device(), CHOICES).expect("it loads")
}

fn runner() -> Runner {
    let limits = RunnerLimits { page_size: 16, pool_pages: PAGES, chunked_prefill_size: 8, context_length: Some(64) };
    Runner::on_cuda(load(), limits).expect("there is room")
}

fn greedy(runner: &mut Runner) -> Result<Vec<u32>> {
    let request = Request {
        prompt_token_ids: vec![1, 2, 3],
        max_new_tokens: 3,
        sampling: Sampling::default(),
        stop_token_ids: Vec::new(),
        stop: Vec::new(),
        logprobs: None,
        prompt_logprobs: None,
    };
    let answer = generate(runner, None, &request, &AtomicBool::new(false), |_| ControlFlow::Continue(()));
    answer.map(|generation| generation.token_ids)
}

/// The logits of a step whose only page is this.
fn step_on_page(model: &CudaDecoder, page: u32, token_ids: &[u32]) -> Result<Option<Vec<f32>>> {
    let sizes = CudaSizes { page_size: 16, pages: PAGES, step_tokens: 8, sequences: 1, context_length: 64 };
    let positions: Vec<usize> = (0..token_ids.len()).collect();
    let span = SequenceSpan { block_table: &[page], cached: 0, new: token_ids.len() };
    let batch = Batch { token_ids, positions: &positions, slots: &positions, sequences: &[span], logit_rows: &[0] };
    model.forward(&mut model.state(sizes)?, batch, &AtomicBool::new(false))
}

#[test]
fn a_kernel_that_fails_ends_the_request_and_every_engine_on_the_device_says_why() {
    let before = greedy(&mut runner()).unwrap_or_else(|error| panic!("{error}"));
    for tokens in [&[1, 2, 3][..], &[1]] {
        let (one, mut other) = (load(), runner());
        assert!(step_on_page(&one, 0, tokens).is_ok_and(|logits| logits.is_some()));
        let sequence = other.start();
        // No pool has this page, and nothing on the host knows.
        let failure = step_on_page(&one, 1 << 24, tokens).expect_err("the kernel reads what is not there");
        let said = failure.to_string();
        assert!(matches!(failure, Error::DeviceLost(_)) && said.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{said}");
        assert!(said.contains("start the engine again"), "{said}");
        // An engine that did nothing wrong, and a request of it that comes later.
        assert!(!other.is_lost());
        let said = greedy(&mut other).expect_err("the device is lost").to_string();
        assert!(said.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{said}");
        let mut later = other.start();
        assert!(matches!(other.extend(&mut later, &[1, 2], Logits::Last), Err(Error::DeviceLost(_))));
        assert!(other.is_lost() && later.tokens() == 0);
        for sequence in [sequence, later] {
            other.release(sequence).expect("it held its pages");
        }
        assert_eq!(other.available_pages(), PAGES);
    }
    // The emulated device is as new when nobody is left who used it.
    assert_eq!(greedy(&mut runner()).unwrap_or_else(|error| panic!("{error}")), before);
}
