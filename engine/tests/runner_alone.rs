//! A runner built in a process in which nothing else of the engine is alive: no settings, no context, no second thread of ours.
//!
//! This is the only test of its program, so nothing has run before it that it could lean on.

mod support;

use engine::bench::one_batch::{Shape, measure};
use support::{greedy, ids, json, models, open, runner};

#[test]
fn a_runner_needs_nothing_but_its_model() {
    let folder = models().join("llama");
    let reference = json(&folder.join("reference.json"));
    let mut runner = runner(&open(&folder), 16, 64);
    assert_eq!(greedy(&mut runner, &ids(&reference["prompt_ids"]), 32), ids(&reference["greedy_ids"]));
    let shape = Shape { batch_size: 1, input_len: 8, output_len: 4 };
    let measured = measure(&mut runner, shape, 2, 1).expect("it fits");
    assert!(measured.decode_rate.is_some_and(f64::is_normal), "{measured:?}");
    assert_eq!(measure(&mut runner, shape, 0, 1).expect("it fits").repeats, 1, "a figure is of one run at least");
    assert!(measure(&mut runner, Shape { output_len: 0, ..shape }, 1, 1).is_err());
    assert_eq!(runner.available_pages() * 16, runner.capacity());
}
