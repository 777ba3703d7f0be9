//! What a token's logits do not depend on: how its prompt was cut, where its pages are, and who else uses the device.

use engine::bench::correctness::ways_agree;
use engine::model::DecodeKernel;
use kernel_tests::Emulator;

use super::{Reference, all_logits, limits, logits_of, open, runner, runner_with};

fn bits(logits: Vec<f32>) -> Vec<u32> {
    logits.into_iter().map(f32::to_bits).collect()
}

#[test]
fn chunks_and_pages_change_no_bit_of_the_logits() {
    for model in ["mistral", "qwen3"] {
        let reference = Reference::of(model);
        let tokens = &reference.prompt[..40];
        let runner = runner_with(DecodeKernel::Paged, &open(model), 16, 64);
        let mut runner = runner.unwrap_or_else(|error| panic!("{model}: {error}"));
        let whole = bits(all_logits(&mut runner, tokens));
        for (page_size, chunk) in [(16, 1), (1, 7), (64, 7), (64, 64), (1, 33)] {
            runner = runner.rebuild(limits(page_size, chunk)).unwrap_or_else(|error| panic!("{model}: {error}"));
            // A sequence before this one: the pages of the other are not the first, and have been used.
            all_logits(&mut runner, &tokens[..9]);
            let other = bits(all_logits(&mut runner, tokens));
            assert!(other == whole, "{model}, pages of {page_size}, chunks of {chunk}");
        }
    }
}

/// The kernel of single tokens is used for them: it adds in another order, and the pages change nothing there either.
#[test]
fn pages_change_no_bit_of_the_logits_of_single_tokens() {
    let reference = Reference::of("mistral");
    let tokens = &reference.prompt[..40];
    let parts = || std::iter::once(&tokens[..20]).chain(tokens[20..].chunks(1));
    let mut runner = runner(&open("mistral"), 16, 64).unwrap_or_else(|error| panic!("{error}"));
    let whole = bits(all_logits(&mut runner, tokens));
    let singly = bits(logits_of(&mut runner, parts()));
    assert!(singly != whole, "the kernel of prompts has run");
    for page_size in [1, 64] {
        runner = runner.rebuild(limits(page_size, 64)).unwrap_or_else(|error| panic!("{error}"));
        all_logits(&mut runner, &tokens[..9]);
        assert!(bits(logits_of(&mut runner, parts())) == singly, "pages of {page_size}");
    }
}

#[test]
fn two_engines_on_one_device_do_not_disturb_each_other() {
    let (one, other) = (Reference::of("llama"), Reference::of("qwen2"));
    let open_runner = |model| runner(&open(model), 4, 8).unwrap_or_else(|error| panic!("{model}: {error}"));
    let alone = |model, tokens: &[u32]| bits(all_logits(&mut open_runner(model), tokens));
    let (one, other) = (&one.prompt[..24], &other.prompt[..24]);
    let wanted = [alone("llama", one), alone("qwen2", other)];
    let mut runners = [open_runner("llama"), open_runner("qwen2")];
    let mut sequences = [runners[0].start(), runners[1].start()];
    let mut got = [Vec::new(), Vec::new()];
    for at in (0..24).step_by(6) {
        for (engine, tokens) in [one, other].into_iter().enumerate() {
            let part = &tokens[at..at + 6];
            let logits = runners[engine].extend(&mut sequences[engine], part, engine::runner::Logits::All);
            got[engine].extend(bits(logits.unwrap_or_else(|error| panic!("{error}"))));
        }
    }
    assert!(got == wanted);
    for (runner, sequence) in runners.iter_mut().zip(sequences) {
        runner.release(sequence).expect("it held its pages");
    }
}

#[test]
fn two_engines_on_two_threads_answer_as_alone() {
    let models = ["llama", "qwen2"];
    let prompts = models.map(|model| Reference::of(model).prompt[..12].to_vec());
    let run = |index: usize| {
        let mut runner = runner(&open(models[index]), 16, 5).unwrap_or_else(|error| panic!("{error}"));
        bits(all_logits(&mut runner, &prompts[index]))
    };
    let alone = [run(0), run(1)];
    let together = std::thread::scope(|scope| {
        let threads = [0, 1].map(|index| scope.spawn(move || run(index)));
        threads.map(|thread| thread.join().expect("it does not panic"))
    });
    assert!(together == alone);
}

/// A step that read something before it was there, or overwrote what was still to be read, would be seen. Other tests of this
/// process may run deferred meanwhile, which must not matter to them either.
#[test]
fn when_the_device_does_its_work_changes_no_bit() {
    let emulator = Emulator::open();
    let prompt = &Reference::of("qwen3_moe").prompt[..12];
    let open_runner = || runner(&open("qwen3_moe"), 16, 5).unwrap_or_else(|error| panic!("{error}"));
    let at_once = bits(all_logits(&mut open_runner(), prompt));
    emulator.defer(1);
    let mut runner = open_runner();
    for seed in [2, 3, 4] {
        emulator.defer(seed);
        let deferred = bits(all_logits(&mut runner, prompt));
        assert!(deferred == at_once, "seed {seed}");
    }
    emulator.defer(0);
}

/// On the CPU all ways have the same bits, so whether the test of them sees a difference is tried here.
#[test]
fn the_correctness_test_names_the_ways_that_differ() {
    let runner = runner(&open("llama"), 16, 5).unwrap_or_else(|error| panic!("{error}"));
    let (runner, found) = ways_agree(runner, 20, 1, 0.0).expect("there is room");
    let found: Vec<String> = found.into_iter().map(|disagreement| disagreement.what).collect();
    // The kernel of single tokens adds in another order than that of prompts; the pages and the other chunks change nothing.
    let wanted = [
        "a prompt of 20 tokens and 8 decode steps, against one prefill",
        "pages of 16 and chunks of 1, against one prefill",
    ];
    assert_eq!(found, wanted);
    let (_, found) = ways_agree(runner, 20, 1, 0.5).expect("there is room");
    assert_eq!(found, []);
}
