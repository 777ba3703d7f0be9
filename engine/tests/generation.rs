//! Requests from outside the library: stops, log-probabilities, seeds, what is kept.

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::cancel::Cancel;
use engine::checkpoint::Checkpoint;
use engine::generate::{FinishReason, Generation, Kept, Request, Step, generate, generate_after};
use engine::runner::{Logits, Runner, RunnerLimits};
use engine::sampling::{Sampling, TokenLogprobs};
use engine::text::SpecialTokens;
use support::safetensors::floats;
use support::{ids, json, models, open, runner, scripted};

/// Nobody cancels.
fn goes_on() -> AtomicBool {
    AtomicBool::new(false)
}

fn run(runner: &mut Runner, checkpoint: &Checkpoint, request: &Request) -> (Generation, Vec<String>) {
    let mut pieces = Vec::new();
    let generation = generate(runner, checkpoint.tokenizer(), request, &goes_on(), |step| {
        pieces.push(step.text.to_owned());
        ControlFlow::Continue(())
    });
    (generation.unwrap_or_else(|e| panic!("{e}")), pieces)
}

/// A model that continues the first token of `script` with the others, and its tokens.
fn script(folder: &Path, text: &str) -> (Checkpoint, Vec<u32>) {
    let tokenizer = open(&models().join("llama"));
    let tokenizer = tokenizer.tokenizer().expect("a vocabulary");
    let mut tokens = tokenizer.encode("#", SpecialTokens::AsWritten).expect("encodes");
    assert_eq!(tokens.len(), 1);
    tokens.extend(tokenizer.encode(text, SpecialTokens::AsWritten).expect("encodes"));
    scripted::write(folder, &tokens);
    (open(folder), tokens)
}

fn prompt() -> Vec<u32> {
    ids(&json(&models().join("llama/reference.json"))["prompt_ids"])
}

/// Natural logarithms of the probabilities, computed the plain way.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    logits.iter().map(|&logit| f64::from(logit) - sum.ln()).collect()
}

fn assert_like(entry: &TokenLogprobs, logits: &[f32], token: u32) {
    let want = log_softmax(logits);
    let close =
        |id: u32, got: f64| assert!((got - want[id as usize]).abs() < 4e-3, "{id}: {got}, {}", want[id as usize]);
    assert_eq!(entry.token.token_id, token);
    close(token, entry.token.logprob);
    let best = (0..want.len()).max_by(|&a, &b| want[a].total_cmp(&want[b])).expect("logits");
    assert_eq!(entry.top[0].token_id as usize, best);
    assert!(entry.top.windows(2).all(|pair| pair[0].logprob >= pair[1].logprob));
    entry.top.iter().for_each(|other| close(other.token_id, other.logprob));
}

#[test]
fn logprobs_of_prompt_and_text_are_those_of_the_reference() {
    let path = models().join("llama");
    let checkpoint = open(&path);
    let want = floats(&path.join("reference.safetensors"), "prompt_logits");
    let rows: Vec<&[f32]> = want.chunks_exact(checkpoint.config().vocab_size).collect();
    let prompt = prompt();
    for chunk in [5, 33, 512] {
        let mut runner = runner(&checkpoint, 16, chunk);
        let request = Request {
            prompt_token_ids: prompt.clone(),
            max_new_tokens: 3,
            logprobs: Some(4),
            prompt_logprobs: Some(2),
            ..Request::default()
        };
        let (generation, _) = run(&mut runner, &checkpoint, &request);
        assert_eq!(generation.prompt_logprobs.len(), prompt.len() - 1, "chunks of {chunk}");
        for (index, entry) in generation.prompt_logprobs.iter().enumerate() {
            assert_eq!(entry.top.len(), 2);
            assert_like(entry, rows[index], prompt[index + 1]);
        }
        assert_eq!(generation.logprobs.len(), 3);
        assert_like(&generation.logprobs[0], rows[prompt.len() - 1], generation.token_ids[0]);
        // The text is the same when nobody asks.
        let request = Request { logprobs: None, prompt_logprobs: None, ..request };
        let (silent, _) = run(&mut runner, &checkpoint, &request);
        assert_eq!(silent.token_ids, generation.token_ids);
        assert!(silent.logprobs.is_empty() && silent.prompt_logprobs.is_empty());
    }
}

#[test]
fn a_stop_string_across_tokens_is_cut_and_no_part_of_it_is_streamed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoint, tokens) = script(folder.path(), "Hello, world");
    let tokenizer = checkpoint.tokenizer().expect("a vocabulary");
    let mut runner = runner(&checkpoint, 16, 16);
    let mut spanning = 0;
    for (stop, text) in [("o, w", "Hell"), ("lo, ", "Hel"), (", world", "Hello"), ("H", ""), ("rld", "Hello, wo")] {
        let request = Request {
            prompt_token_ids: tokens[..1].to_vec(),
            max_new_tokens: tokens.len() - 1,
            stop: vec!["nowhere".into(), stop.into()],
            ..Request::default()
        };
        let (generation, pieces) = run(&mut runner, &checkpoint, &request);
        assert_eq!((generation.text.as_str(), generation.finish_reason), (text, FinishReason::Stop), "{stop:?}");
        assert_eq!(pieces.concat(), text, "{stop:?}");
        let last = generation.token_ids.last().expect("a token");
        let last = tokenizer.decode(&[*last]).expect("decodes");
        spanning += usize::from(!last.contains(stop));
        // Generation goes no further than it has to.
        assert_eq!(generation.token_ids, tokens[1..=generation.token_ids.len()]);
        let spoken = tokenizer.decode(&generation.token_ids).expect("decodes");
        assert!(spoken.contains(stop) && !spoken[..spoken.len() - last.len()].contains(stop), "{stop:?}: {spoken:?}");
    }
    assert!(spanning >= 3, "only {spanning} of the strings spanned tokens");
    let request = Request {
        prompt_token_ids: tokens[..1].to_vec(),
        max_new_tokens: tokens.len() - 1,
        stop: vec!["world!".into()],
        ..Request::default()
    };
    let (generation, pieces) = run(&mut runner, &checkpoint, &request);
    assert_eq!((generation.text.as_str(), generation.finish_reason), ("Hello, world", FinishReason::Length));
    assert_eq!(pieces.concat(), "Hello, world");
}

#[test]
fn a_character_of_several_tokens_is_streamed_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoint, tokens) = script(folder.path(), "x🦀y");
    let mut runner = runner(&checkpoint, 16, 16);
    let request =
        Request { prompt_token_ids: tokens[..1].to_vec(), max_new_tokens: tokens.len() - 1, ..Request::default() };
    let (generation, pieces) = run(&mut runner, &checkpoint, &request);
    assert!(tokens.len() >= 6, "the crab is fewer than three tokens: {tokens:?}");
    assert_eq!(generation.text, "x🦀y");
    let spoken: Vec<&str> = pieces.iter().map(String::as_str).filter(|piece| !piece.is_empty()).collect();
    assert_eq!(spoken, ["x", "🦀", "y"]);
    // Cut off within it, the rest stands for what was there.
    let request = Request { max_new_tokens: 3, ..request };
    assert_eq!(run(&mut runner, &checkpoint, &request).0.text, "x\u{fffd}");
    // A stop string may be in what only the end of a text makes of it; but who wants no more is told that it was cut off.
    let request = Request { stop: vec!["\u{fffd}".into()], ..request };
    let (generation, _) = run(&mut runner, &checkpoint, &request);
    assert_eq!((generation.text.as_str(), generation.finish_reason), ("x", FinishReason::Stop));
    let request = Request { max_new_tokens: 5, ..request };
    let mut seen = 0;
    let generation = generate(&mut runner, checkpoint.tokenizer(), &request, &goes_on(), |_| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let generation = generation.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((generation.text.as_str(), generation.finish_reason), ("x", FinishReason::Abort));
}

#[test]
fn what_is_held_back_is_kept_from_who_wants_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoint, tokens) = script(folder.path(), "Hello, world");
    let mut runner = runner(&checkpoint, 16, 16);
    let request = Request {
        prompt_token_ids: tokens[..1].to_vec(),
        max_new_tokens: tokens.len() - 1,
        stop: vec!["Hello!".into()],
        ..Request::default()
    };
    let mut pieces = Vec::new();
    let generation = generate(&mut runner, checkpoint.tokenizer(), &request, &goes_on(), |step| {
        pieces.push(step.text.to_owned());
        ControlFlow::Break(())
    });
    let generation = generation.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((generation.text.as_str(), generation.finish_reason), ("", FinishReason::Abort));
    assert_eq!(pieces, [""]);
}

#[test]
fn no_token_at_all_may_be_wanted() {
    let checkpoint = open(&models().join("llama"));
    let mut runner = runner(&checkpoint, 16, 16);
    let request = Request { prompt_token_ids: prompt(), prompt_logprobs: Some(1), ..Request::default() };
    let (generation, pieces) = run(&mut runner, &checkpoint, &request);
    assert_eq!((generation.token_ids.len(), generation.finish_reason), (0, FinishReason::Length));
    assert_eq!((pieces.len(), generation.prompt_logprobs.len()), (0, prompt().len() - 1));
}

#[test]
fn stop_tokens_end_a_text_and_are_no_part_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoint, tokens) = script(folder.path(), "Hello, world");
    let mut runner = runner(&checkpoint, 16, 16);
    let request = Request {
        prompt_token_ids: tokens[..1].to_vec(),
        max_new_tokens: 99,
        stop_token_ids: vec![511, tokens[3]],
        ..Request::default()
    };
    let (generation, pieces) = run(&mut runner, &checkpoint, &request);
    assert_eq!((generation.finish_reason, &generation.token_ids[..]), (FinishReason::Stop, &tokens[1..=3]));
    let text = checkpoint.tokenizer().expect("a vocabulary").decode(&tokens[1..3]).expect("decodes");
    assert_eq!((generation.text.as_str(), pieces.concat()), (text.as_str(), text.clone()));
}

fn warm(seed: u64) -> Sampling {
    Sampling { temperature: 1.2, top_p: 0.95, seed, ..Sampling::default() }
}

#[test]
fn the_same_seed_gives_the_same_text_whatever_else_runs() {
    let checkpoint = open(&models().join("qwen3"));
    let request = |seed| Request {
        prompt_token_ids: prompt()[..20].to_vec(),
        max_new_tokens: 40,
        sampling: warm(seed),
        ..Request::default()
    };
    let mut quiet = runner(&checkpoint, 16, 512);
    let (alone, _) = run(&mut quiet, &checkpoint, &request(7));
    let mut busy = runner(&checkpoint, 3, 7);
    for other in [1, 2] {
        run(&mut busy, &checkpoint, &request(other));
    }
    let (again, _) = run(&mut busy, &checkpoint, &request(7));
    assert_eq!(again.token_ids, alone.token_ids);
    assert_ne!(run(&mut busy, &checkpoint, &request(8)).0.token_ids, alone.token_ids);
    // A text that was broken off goes on as it would have.
    let mut rest = request(7);
    rest.prompt_token_ids.extend(&alone.token_ids[..15]);
    rest.max_new_tokens = 25;
    assert_eq!(run(&mut busy, &checkpoint, &rest).0.token_ids, alone.token_ids[15..]);
}

#[test]
fn what_is_kept_is_not_run_again_and_changes_no_token() {
    let checkpoint = open(&models().join("llama"));
    let mut runner = runner(&checkpoint, 4, 16);
    let free = runner.available_pages();
    let mut kept = Kept::new(&runner);
    let prompt = prompt();
    // The same again, a longer one, one that parts early, and one that is a part of what is kept.
    let other = [&prompt[..9], &[1, 2, 3]].concat();
    let prompts = [(&prompt[..30], 0), (&prompt[..30], 29), (&prompt[..60], 30), (&other, 9), (&prompt[..5], 4)];
    for (prompt_token_ids, cached) in prompts {
        let request = Request {
            prompt_token_ids: prompt_token_ids.to_vec(),
            max_new_tokens: 6,
            sampling: warm(3),
            ..Request::default()
        };
        let next = |_: engine::generate::Step<'_>| ControlFlow::Continue(());
        let got = generate_after(&mut runner, &mut kept, checkpoint.tokenizer(), &request, &goes_on(), next);
        let got = got.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(got.cached_tokens, cached);
        let (fresh, _) = run(&mut runner, &checkpoint, &request);
        assert_eq!((got.token_ids, fresh.cached_tokens), (fresh.token_ids, 0));
        if cached > 0 {
            // Log-probabilities are those of the whole prompt.
            let request = Request { prompt_logprobs: Some(0), ..request };
            let got = generate_after(&mut runner, &mut kept, checkpoint.tokenizer(), &request, &goes_on(), next);
            let got = got.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((got.cached_tokens, got.prompt_logprobs.len()), (0, request.prompt_token_ids.len() - 1));
        }
    }
    kept.release(&mut runner).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(runner.available_pages(), free);
}

#[test]
fn a_cancelled_or_unwanted_generation_stops_at_the_next_step_and_frees_its_pages() {
    let checkpoint = open(&models().join("llama"));
    let mut runner = runner(&checkpoint, 4, 16);
    let free = runner.available_pages();
    let request = Request { prompt_token_ids: prompt(), max_new_tokens: 50, ..Request::default() };
    for steps in 0..3 {
        let cancelled = AtomicBool::new(steps == 0);
        let mut seen = 0;
        let generation = generate(&mut runner, checkpoint.tokenizer(), &request, &cancelled, |_| {
            seen += 1;
            cancelled.store(seen >= steps, Ordering::Relaxed);
            ControlFlow::Continue(())
        });
        let generation = generation.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((generation.finish_reason, generation.token_ids.len()), (FinishReason::Abort, steps));
        assert_eq!(runner.available_pages(), free);
    }
    let mut seen = 0;
    let generation = generate(&mut runner, checkpoint.tokenizer(), &request, &goes_on(), |_| {
        seen += 1;
        ControlFlow::Break(())
    });
    let generation = generation.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((generation.finish_reason, generation.token_ids.len(), seen), (FinishReason::Abort, 1, 1));
}

/// Wants to stop when it is asked for the time of that number.
struct StopsAt {
    asked: AtomicUsize,
    stop: usize,
}

impl StopsAt {
    fn new(stop: usize) -> Self {
        Self { asked: AtomicUsize::new(0), stop }
    }
}

impl Cancel for StopsAt {
    fn is_cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1 >= self.stop
    }
}

#[test]
fn a_prefill_stops_in_the_middle_of_a_piece_wherever_it_is_cancelled() {
    for model in ["llama", "mixtral"] {
        let checkpoint = open(&models().join(model));
        let prompt_token_ids: Vec<u32> = (1..=100).collect();
        let request = Request { prompt_token_ids, max_new_tokens: 1, ..Request::default() };
        // The prompt is one piece.
        let mut whole = runner(&checkpoint, 16, 512);
        let free = whole.available_pages();
        let mut answer = |cancel: &StopsAt| {
            let next = |_: Step<'_>| ControlFlow::Continue(());
            let generation = generate(&mut whole, checkpoint.tokenizer(), &request, cancel, next);
            assert_eq!(whole.available_pages(), free);
            generation.unwrap_or_else(|e| panic!("{e}"))
        };
        let never = StopsAt::new(usize::MAX);
        let wanted = answer(&never).token_ids;
        assert_eq!(wanted.len(), 1);
        // Before each of four products of each layer, and before the logits.
        let asked = never.asked.into_inner();
        assert_eq!(asked, 4 * checkpoint.config().layers + 1, "{model}");
        for stop in 1..=asked {
            let cancel = StopsAt::new(stop);
            let generation = answer(&cancel);
            assert_eq!((generation.finish_reason, generation.token_ids.len()), (FinishReason::Abort, 0), "{stop}");
            assert_eq!(cancel.asked.into_inner(), stop, "nothing is computed after that");
        }
        assert_eq!(answer(&StopsAt::new(usize::MAX)).token_ids, wanted, "what was broken off left nothing behind");

        // In pieces of 40: those that are done are kept, and the one that was broken off is run again.
        let mut pieces = runner(&checkpoint, 16, 40);
        let mut kept = Kept::new(&pieces);
        let mut answer = |cancel: &StopsAt| {
            let next = |_: Step<'_>| ControlFlow::Continue(());
            let generation = generate_after(&mut pieces, &mut kept, checkpoint.tokenizer(), &request, cancel, next);
            generation.unwrap_or_else(|e| panic!("{e}"))
        };
        assert_eq!(answer(&StopsAt::new(asked + 3)).finish_reason, FinishReason::Abort);
        let generation = answer(&StopsAt::new(usize::MAX));
        assert_eq!((generation.cached_tokens, generation.token_ids), (40, wanted), "{model}");
        kept.release(&mut pieces).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(pieces.available_pages(), pieces.capacity() / 16);
    }
}

#[test]
fn an_extension_that_is_cancelled_leaves_its_sequence_as_it_was() {
    let checkpoint = open(&models().join("llama"));
    let mut runner = runner(&checkpoint, 4, 8);
    let mut sequence = runner.start();
    runner.extend(&mut sequence, &[1; 3], Logits::Nowhere).unwrap_or_else(|e| panic!("{e}"));
    let free = runner.available_pages();
    // In the second of three chunks.
    let cancel = StopsAt::new(4 * checkpoint.config().layers + 2);
    let logits = runner.extend_unless(&mut sequence, &[1; 20], Logits::Last, &cancel).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((logits, sequence.tokens(), runner.available_pages()), (None, 3, free));
    runner.release(sequence).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_step_of_decoding_that_is_cancelled_adds_no_token() {
    let checkpoint = open(&models().join("llama"));
    let mut runner = runner(&checkpoint, 4, 512);
    let request = Request { prompt_token_ids: prompt(), max_new_tokens: 50, ..Request::default() };
    let of_prompt = 4 * checkpoint.config().layers + 1;
    let cancel = StopsAt::new(of_prompt + 4);
    let next = |_: Step<'_>| ControlFlow::Continue(());
    let generation = generate(&mut runner, checkpoint.tokenizer(), &request, &cancel, next);
    let generation = generation.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((generation.finish_reason, generation.token_ids.len()), (FinishReason::Abort, 1));
    assert_eq!(cancel.asked.into_inner(), of_prompt + 4);
    assert_eq!(runner.available_pages(), runner.capacity() / 4);
}

#[test]
fn requests_that_cannot_be_served_are_refused_before_anything_runs() {
    let checkpoint = open(&models().join("llama"));
    let mut runner = runner(&checkpoint, 16, 16);
    let base = Request { prompt_token_ids: vec![1], max_new_tokens: 1, ..Request::default() };
    let cases = [
        (Request { prompt_token_ids: vec![], ..base.clone() }, "the prompt is empty"),
        (
            Request { prompt_token_ids: vec![1; 2049], ..base.clone() },
            "2049 tokens, more than the context length of 2048",
        ),
        (Request { prompt_token_ids: vec![1; 257], ..base.clone() }, "257 tokens, more than the 256 that the pages"),
        (Request { stop: vec![String::new()], ..base.clone() }, "an empty stop string"),
        (Request { sampling: Sampling { top_p: 0.0, ..Sampling::default() }, ..base.clone() }, "top-p 0 is not"),
        (Request { sampling: warm(1), prompt_token_ids: vec![512], ..base.clone() }, "token id 512"),
    ];
    for (request, part) in cases {
        let cancel = StopsAt::new(usize::MAX);
        let error = generate(&mut runner, None, &request, &cancel, |_| ControlFlow::Continue(()));
        let error = error.expect_err("refused").to_string();
        assert_eq!(cancel.asked.into_inner(), 0, "something ran: {error}");
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
    // A prompt that fills all there is room for still gets its one token, and so does one as long as the context.
    let request = Request { prompt_token_ids: vec![1; 256], max_new_tokens: 9, ..base };
    let (generation, _) = run(&mut runner, &checkpoint, &request);
    assert_eq!((generation.token_ids.len(), generation.finish_reason), (1, FinishReason::Length));
    let limits = runner.limits();
    let mut runner = runner.rebuild(RunnerLimits { context_length: Some(20), ..limits }).expect("shorter");
    let request = Request { prompt_token_ids: vec![1; 20], ..request };
    let (generation, _) = run(&mut runner, &checkpoint, &request);
    assert_eq!((generation.token_ids.len(), generation.finish_reason), (1, FinishReason::Length));
}

#[test]
fn sizes_that_no_runner_can_have_are_refused_by_name() {
    let checkpoint = open(&models().join("llama"));
    let good = RunnerLimits { page_size: 4, pool_pages: 4, chunked_prefill_size: 8, context_length: None };
    let own = checkpoint.config().context_length;
    let token_len = checkpoint.config().kv_size();
    let too_long = format!("context length {} is not within 1..={own}, the model's own", own + 1);
    let cases = [
        (RunnerLimits { page_size: 0, ..good }, "page size and chunked prefill size must be at least 1"),
        (RunnerLimits { chunked_prefill_size: 0, ..good }, "page size and chunked prefill size must be at least 1"),
        (RunnerLimits { context_length: Some(0), ..good }, "context length 0 is not within 1..="),
        (RunnerLimits { context_length: Some(own + 1), ..good }, &too_long),
        (RunnerLimits { pool_pages: 1 << 32, ..good }, "4294967296 pages are more than 4294967295"),
        (RunnerLimits { page_size: usize::MAX, ..good }, "do not fit into memory (lower --max-total-tokens)"),
        (RunnerLimits { page_size: usize::MAX / token_len, pool_pages: 1, ..good }, "do not fit into memory"),
    ];
    for (limits, part) in cases {
        let workers = support::workers();
        let model = checkpoint.load(&workers).unwrap_or_else(|e| panic!("{e}"));
        let said = Runner::new(model, workers, limits).err().expect("refused").to_string();
        assert!(said.contains(part), "{limits:?}: {said}");
        let said = runner(&checkpoint, 16, 16).rebuild(limits).err().expect("refused").to_string();
        assert!(said.contains(part), "{limits:?}: {said}");
    }
}

#[test]
fn tokens_that_cannot_be_run_are_refused_and_their_sequence_is_as_it_was() {
    let checkpoint = open(&models().join("llama"));
    let workers = support::workers();
    let model = checkpoint.load(&workers).unwrap_or_else(|e| panic!("{e}"));
    let limits = RunnerLimits { page_size: 4, pool_pages: 4, chunked_prefill_size: 8, context_length: Some(14) };
    let mut runner = Runner::new(model, workers, limits).unwrap_or_else(|e| panic!("{e}"));
    let (mut one, mut other) = (runner.start(), runner.start());
    runner.extend(&mut one, &[1; 6], Logits::Nowhere).unwrap_or_else(|e| panic!("{e}"));
    let cases = [
        (vec![], "no tokens to run"),
        (vec![1, 512], "token id 512 is beyond the model's vocabulary of 512"),
        (vec![1; 9], "15 tokens are more than the context length of 14"),
    ];
    for (tokens, part) in cases {
        let said = runner.extend(&mut one, &tokens, Logits::All).expect_err("refused").to_string();
        assert!(said.contains(part), "{said}");
        assert_eq!((one.tokens(), runner.available_pages()), (6, 2));
    }
    let said = runner.extend(&mut other, &[1; 9], Logits::All).expect_err("two pages are free").to_string();
    assert!(said.contains("pages"), "{said}");
    assert_eq!((other.tokens(), runner.available_pages()), (0, 2));
    assert!(runner.takes_pages_of(3) && !runner.is_lost(), "the CPU takes pages of any size and is never lost");
    // As long as the context is allowed.
    runner.extend(&mut one, &[1; 8], Logits::Last).unwrap_or_else(|e| panic!("{e}"));
    runner.release(one).unwrap_or_else(|e| panic!("{e}"));
    runner.release(other).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(runner.available_pages(), 4);
}
