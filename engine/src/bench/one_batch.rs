//! Times of one batch: a prefill, then one decode step after another.

use std::time::{Duration, Instant};

use super::{likeliest, random_tokens};
use crate::error::{Error, Result};
use crate::runner::{Logits, Runner, Sequence};

/// How large a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences.
    pub batch_size: usize,
    /// Tokens of each prompt.
    pub input_len: usize,
    /// Tokens to generate for each sequence, the one that the prefill gives included.
    pub output_len: usize,
}

impl Shape {
    /// All combinations, the batch size varying slowest.
    #[must_use]
    pub fn product(batch_sizes: &[usize], input_lens: &[usize], output_lens: &[usize]) -> Vec<Self> {
        let of_batch = |&batch_size| {
            input_lens.iter().flat_map(move |&input_len| {
                output_lens.iter().map(move |&output_len| Self { batch_size, input_len, output_len })
            })
        };
        batch_sizes.iter().flat_map(of_batch).collect()
    }

    /// Refuses what `runner` cannot run.
    pub fn check(self, runner: &Runner) -> Result<()> {
        let Self { batch_size, input_len, output_len } = self;
        if batch_size == 0 || input_len == 0 || output_len == 0 {
            return Err(Error::Request(format!("{self}: batch size and lengths must be at least 1")));
        }
        if batch_size > 1 {
            return Err(Error::Request(format!(
                "{self}: a step takes one sequence in this version, so the batch size must be 1"
            )));
        }
        // The last token is chosen and never run.
        let needed = input_len.saturating_add(output_len - 1);
        let (context, capacity) = (runner.context_length(), runner.capacity());
        if needed > context {
            return Err(Error::Request(format!(
                "{self}: {needed} tokens are more than the context length of {context}"
            )));
        }
        if needed > capacity {
            return Err(Error::Request(format!(
                "{self}: {needed} tokens are more than the {capacity} that there is room for: raise --max-total-tokens"
            )));
        }
        Ok(())
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "batch {}, input {}, output {}", self.batch_size, self.input_len, self.output_len)
    }
}

/// One run of a batch.
#[derive(Clone, Debug)]
pub struct Run {
    /// From the prompt to the first token.
    pub prefill: Duration,
    /// Each further token.
    pub steps: Vec<Duration>,
}

/// The middle of several runs of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was run.
    pub shape: Shape,
    /// How many times.
    pub repeats: usize,
    /// Seconds of the whole, the median of all runs.
    pub latency: f64,
    /// Seconds of the prefill, the median of all runs.
    pub prefill: f64,
    /// Seconds of one decode step, the median of all steps of all runs; nothing when there were none.
    pub decode_step: Option<f64>,
    /// Prompt tokens per second of the median prefill.
    pub prefill_rate: f64,
    /// Tokens per second of the decode steps of a run, the median of all runs; nothing when there were none.
    pub decode_rate: Option<f64>,
}

/// Runs a shape `repeats` times on random tokens, once more before that to warm up, and takes the middle.
///
/// Every run has a prompt of its own, and every token fed is the likeliest by the model: nothing is measured on zeros.
pub fn measure(runner: &mut Runner, shape: Shape, repeats: usize, seed: u64) -> Result<Measured> {
    shape.check(runner)?;
    let warm_up = Shape { output_len: shape.output_len.min(4), ..shape };
    run(runner, warm_up, seed)?;
    let each = |index: usize| run(runner, shape, seed.wrapping_add(1 + index as u64));
    let runs = (0..repeats.max(1)).map(each).collect::<Result<Vec<_>>>()?;
    Ok(summary(shape, &runs))
}

fn run(runner: &mut Runner, shape: Shape, seed: u64) -> Result<Run> {
    let prompt = random_tokens(runner, seed, shape.input_len);
    let mut sequence = runner.start();
    let timed = timed(runner, &mut sequence, &prompt, shape.output_len);
    runner.release(sequence)?;
    timed
}

fn timed(runner: &mut Runner, sequence: &mut Sequence, prompt: &[u32], output_len: usize) -> Result<Run> {
    let start = Instant::now();
    let mut logits = runner.extend(sequence, prompt, Logits::Last)?;
    let prefill = start.elapsed();
    let mut steps = Vec::with_capacity(output_len - 1);
    for _ in 1..output_len {
        let start = Instant::now();
        let id =
            likeliest(&logits).ok_or_else(|| Error::Request("the model gives logits that are no numbers".into()))?;
        logits = runner.extend(sequence, &[id], Logits::Last)?;
        steps.push(start.elapsed());
    }
    Ok(Run { prefill, steps })
}

/// The middle of runs of one shape, of which there is at least one.
fn summary(shape: Shape, runs: &[Run]) -> Measured {
    let steps_of = |run: &Run| run.steps.iter().sum::<Duration>().as_secs_f64();
    let prefill = median(runs.iter().map(|run| run.prefill.as_secs_f64())).unwrap_or_default();
    let tokens = |count: usize| (shape.batch_size * count) as f64;
    let rates = runs.iter().filter(|run| !run.steps.is_empty()).map(|run| tokens(run.steps.len()) / steps_of(run));
    Measured {
        shape,
        repeats: runs.len(),
        latency: median(runs.iter().map(|run| run.prefill.as_secs_f64() + steps_of(run))).unwrap_or_default(),
        prefill,
        decode_step: median(runs.iter().flat_map(|run| &run.steps).map(Duration::as_secs_f64)),
        prefill_rate: tokens(shape.input_len) / prefill,
        decode_rate: median(rates),
    }
}

/// The middle of some numbers, or the mean of the two in the middle; nothing of none.
fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    Some(if numbers.len() % 2 == 1 { upper } else { f64::midpoint(numbers[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_all_combinations_in_order() {
        let shapes = Shape::product(&[1, 2], &[8, 16], &[4]);
        let texts: Vec<String> = shapes.iter().map(ToString::to_string).collect();
        let wanted = [
            "batch 1, input 8, output 4",
            "batch 1, input 16, output 4",
            "batch 2, input 8, output 4",
            "batch 2, input 16, output 4",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn the_middle_of_runs_by_hand() {
        let seconds = |numbers: &[u64]| numbers.iter().copied().map(Duration::from_secs).collect::<Vec<_>>();
        let run = |prefill, steps: &[u64]| Run { prefill: Duration::from_secs(prefill), steps: seconds(steps) };
        let shape = Shape { batch_size: 1, input_len: 12, output_len: 3 };
        // One slow run moves no figure.
        let measured = summary(shape, &[run(2, &[1, 1]), run(100, &[100, 100]), run(3, &[2, 2])]);
        let wanted = Measured {
            shape,
            repeats: 3,
            latency: 7.0,
            prefill: 3.0,
            decode_step: Some(2.0),
            prefill_rate: 4.0,
            decode_rate: Some(0.5),
        };
        assert_eq!(measured, wanted);
        let without_decode = summary(Shape { output_len: 1, ..shape }, &[run(2, &[]), run(4, &[])]);
        assert_eq!((without_decode.prefill, without_decode.decode_step, without_decode.decode_rate), (3.0, None, None));
    }
}
