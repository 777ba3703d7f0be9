//! Steps of single tokens that are captured: launched as a whole, in the smallest prepared size that holds them.

use std::collections::BTreeMap;

use kernels::cuda::{CudaError, CudaGraph};

use super::inputs::StepShape;
use super::state::CudaSizes;
use super::{CudaChoices, DecodeKernel, LOGIT_ROWS};
use crate::sizing::capture_sizes::{self, Decode};

/// What became of capturing the steps of single tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphUse {
    /// The key of the settings that they are captured for; see [`CudaChoices::settings_key`].
    pub settings_key: u128,
    /// The number of the table of blocks that their products are computed in; 0 with the built-in ones.
    pub tiles_id: u64,
    /// Sizes that have been captured.
    pub captured: usize,
    /// Steps that were launched as a whole.
    pub launched: usize,
    /// Why a size could not be captured. Since then, steps are launched kernel by kernel.
    pub failure: Option<String>,
}

impl GraphUse {
    /// What a user should know: that steps are launched kernel by kernel, and why.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let why = self.failure.as_ref()?;
        Some(format!("steps of single tokens are launched kernel by kernel, since they could not be captured: {why}"))
    }
}

/// The captured steps of a state. They have the addresses of its buffers, and go with it.
pub(super) struct DecodeGraphs {
    /// Sequences of prepared steps, ascending; none where nothing is captured.
    sizes: Vec<usize>,
    /// Tokens of a context that one block reads, where the kernel divides contexts.
    split_tokens: Option<usize>,
    context_length: usize,
    /// By the shape that they were launched with. Nothing: it has run once, so its kernels are loaded.
    steps: BTreeMap<StepShape, Option<CudaGraph>>,
    report: GraphUse,
}

/// How to launch a step of a prepared size.
pub(super) enum Launch {
    /// Kernel by kernel.
    Kernels,
    /// Capture it, and then launch that.
    Capture,
    /// As it has been captured; to be given back with [`DecodeGraphs::keep`].
    Graph(CudaGraph),
}

impl DecodeGraphs {
    pub(super) fn new(sizes: CudaSizes, choices: CudaChoices) -> Self {
        let wanted = if choices.graphs { sizes.sequences } else { 0 };
        // All their logits are computed together.
        let rows = sizes.sequences.min(sizes.step_tokens).min(LOGIT_ROWS);
        Self {
            sizes: capture_sizes::fitted(&capture_sizes::wanted_decode(Decode::Plain, wanted, true), rows, 1, 1),
            split_tokens: match choices.decode {
                DecodeKernel::Paged => None,
                DecodeKernel::SplitKv { tokens } => Some(tokens),
            },
            context_length: sizes.context_length,
            steps: BTreeMap::new(),
            report: GraphUse { settings_key: choices.settings_key, ..GraphUse::default() },
        }
    }

    /// Says in the blocks of which table the products of steps are computed.
    pub(super) fn set_tiles(&mut self, id: u64) {
        self.report.tiles_id = id;
    }

    /// The prepared shape that a step runs in, if there is one. Its longest context makes a power of two of splits, or is the longest
    /// there is: the number of blocks is captured, and there is not one graph for every number of splits.
    pub(super) fn prepared(&self, step: StepShape) -> Option<StepShape> {
        if !step.is_decode || step.sequences == 0 || self.report.failure.is_some() {
            return None;
        }
        let sequences = capture_sizes::bucket(&self.sizes, step.sequences)?;
        let max_context = match self.split_tokens {
            None => self.context_length,
            Some(tokens) => step.max_context.div_ceil(tokens).next_power_of_two().saturating_mul(tokens),
        };
        Some(StepShape { tokens: sequences, sequences, max_context: max_context.min(self.context_length), ..step })
    }

    /// How to launch a step of a prepared shape.
    pub(super) fn next(&mut self, shape: StepShape) -> Launch {
        match self.steps.remove(&shape) {
            None => Launch::Kernels,
            Some(None) => Launch::Capture,
            Some(Some(graph)) => Launch::Graph(graph),
        }
    }

    /// Keeps what a step was launched with, for the next of its shape.
    pub(super) fn keep(&mut self, shape: StepShape, graph: Option<CudaGraph>) {
        self.report.launched += usize::from(graph.is_some());
        self.steps.insert(shape, graph);
        self.report.captured = self.steps.values().flatten().count();
    }

    /// Goes without from now on.
    pub(super) fn give_up(&mut self, error: &CudaError) {
        let way = if error.is_out_of_memory() {
            ": a lower --max-total-tokens leaves memory for them, --disable-cuda-graph makes do without"
        } else {
            ""
        };
        self.report.failure = Some(format!("{error}{way}"));
    }

    pub(super) fn report(&self) -> &GraphUse {
        &self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: CudaSizes =
        CudaSizes { page_size: 16, pages: 64, step_tokens: 32, sequences: 12, context_length: 1000 };
    const CHOICES: CudaChoices =
        CudaChoices { page_size: 16, decode: DecodeKernel::SplitKv { tokens: 64 }, graphs: true, settings_key: 5 };

    fn step(sequences: usize, max_context: usize) -> StepShape {
        StepShape { tokens: sequences, sequences, max_context, is_decode: true }
    }

    #[test]
    fn a_step_runs_in_the_smallest_size_that_holds_its_sequences_and_splits() {
        let graphs = DecodeGraphs::new(SIZES, CHOICES);
        let cases = [
            ((1, 1), Some((1, 64))),
            ((1, 64), Some((1, 64))),
            ((2, 65), Some((2, 128))),
            ((3, 129), Some((4, 256))),
            ((9, 512), Some((12, 512))),
            // Eight splits are not enough, and sixteen more than the longest context has.
            ((12, 513), Some((12, 1000))),
            ((13, 1), None),
        ];
        for ((sequences, context), expected) in cases {
            let expected = expected.map(|(sequences, context)| step(sequences, context));
            assert_eq!(graphs.prepared(step(sequences, context)), expected, "{sequences} {context}");
        }
        assert_eq!(graphs.prepared(StepShape { tokens: 2, is_decode: false, ..step(1, 9) }), None, "a prompt");
        let paged = DecodeGraphs::new(SIZES, CudaChoices { decode: DecodeKernel::Paged, ..CHOICES });
        assert_eq!(paged.prepared(step(5, 9)), Some(step(8, 1000)));
        let off = DecodeGraphs::new(SIZES, CudaChoices { graphs: false, ..CHOICES });
        assert_eq!(off.prepared(step(1, 9)), None);
        // No more sequences than a step has tokens.
        let narrow = DecodeGraphs::new(CudaSizes { step_tokens: 3, ..SIZES }, CHOICES);
        assert_eq!(
            [2, 3, 4].map(|count| narrow.prepared(step(count, 9)).map(|step| step.tokens)),
            [Some(2), Some(3), None]
        );
    }

    #[test]
    fn after_a_failure_nothing_is_prepared_and_the_report_says_why() {
        let mut graphs = DecodeGraphs::new(SIZES, CHOICES);
        let shape = graphs.prepared(step(1, 9)).expect("a size");
        assert!(matches!(graphs.next(shape), Launch::Kernels));
        graphs.keep(shape, None);
        assert!(matches!(graphs.next(shape), Launch::Capture));
        let error = CudaError::NoDevice { ordinal: 0, devices: 0 };
        graphs.give_up(&error);
        assert_eq!(graphs.prepared(step(1, 9)), None);
        let expected = GraphUse { settings_key: 5, failure: Some(error.to_string()), ..GraphUse::default() };
        assert_eq!(*graphs.report(), expected);
        assert!(expected.warning().is_some_and(|warning| warning.ends_with(&error.to_string())));
    }
}
