//! What a step reads from the host: a batch, in a buffer that stays where it is, so that the step itself is kernels alone.

use std::ops::Range;

use kernels::cuda::{CudaDevice, CudaError, CudaSlice, CudaView, PinnedBuffer};

use super::state::CudaSizes;
use crate::error::{Error, Result};
use crate::model::decoder::Batch;

/// The sizes of a step, which decide what is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepShape {
    pub(super) tokens: usize,
    pub(super) sequences: usize,
    /// No sequence is longer.
    pub(super) max_context: usize,
    /// Every sequence has one token in the step.
    pub(super) is_decode: bool,
}

impl StepShape {
    pub(super) fn of(batch: Batch<'_>) -> Self {
        let sequences = batch.sequences;
        Self {
            tokens: batch.token_ids.len(),
            sequences: sequences.len(),
            max_context: sequences.iter().map(|span| span.cached + span.new).max().unwrap_or(0),
            is_decode: sequences.iter().all(|span| span.new == 1),
        }
    }
}

/// Where the numbers of a step are among those that go to the device together. It follows from the step's shape, so that what is
/// captured finds them again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Layout {
    token_ids: Range<usize>,
    positions: Range<usize>,
    places: Range<usize>,
    slots: Range<usize>,
    query_starts: Range<usize>,
    context: Range<usize>,
    wanted: Range<usize>,
    block_table: Range<usize>,
    /// Pages that a row of the block table has room for.
    table_width: usize,
    length: usize,
}

impl Layout {
    /// For a step with so many tokens whose logits are wanted, which come last: of a captured step they are all.
    fn of(shape: StepShape, wanted: usize, page_size: usize) -> Self {
        /// Parts begin where a line of the device's memory does: 128 bytes.
        const LINE: usize = 32;
        let StepShape { tokens, sequences, max_context, .. } = shape;
        let table_width = max_context.div_ceil(page_size).max(1);
        let mut length = 0;
        let mut part = |count: usize| {
            let start = length;
            length = (start + count).next_multiple_of(LINE);
            start..start + count
        };
        let (token_ids, positions, places) = (part(tokens), part(tokens), part(tokens));
        let (slots, query_starts, context) = (part(sequences), part(sequences + 1), part(sequences));
        let (block_table, wanted) = (part(sequences * table_width), part(wanted));
        Self { token_ids, positions, places, slots, query_starts, context, wanted, block_table, table_width, length }
    }

    /// The longest of a runner.
    fn longest(sizes: CudaSizes) -> Self {
        let CudaSizes { page_size, step_tokens, context_length, sequences, .. } = sizes;
        let shape = StepShape { tokens: step_tokens, sequences, max_context: context_length, is_decode: false };
        Self::of(shape, step_tokens, page_size)
    }
}

/// A batch as the kernels read it.
pub(super) struct StepInputs {
    /// What a step reads, in one piece.
    numbers: CudaSlice<i32>,
    /// The same on its way.
    staged: PinnedBuffer<i32>,
    /// Of the latest step.
    layout: Layout,
}

/// Bytes of it on the device.
pub(super) fn bytes(sizes: CudaSizes) -> usize {
    Layout::longest(sizes).length * size_of::<i32>()
}

/// Writes numbers, and `filler` after them.
fn write(to: &mut [i32], numbers: impl IntoIterator<Item = usize>, filler: i32) {
    let mut numbers = numbers.into_iter();
    // Positions and places are below the tokens of a pool, which are refused from 2^31 on.
    to.fill_with(|| numbers.next().map_or(filler, |number| number as i32));
}

impl StepInputs {
    pub(super) fn new(device: &CudaDevice, sizes: CudaSizes) -> std::result::Result<Self, CudaError> {
        let length = Layout::longest(sizes).length;
        Ok(Self { numbers: device.zeros(length)?, staged: device.pinned(length)?, layout: Layout::default() })
    }

    /// Takes a batch over, which has to fit `sizes`, and the tokens whose logits are wanted. What `shape` has room for besides are
    /// sequences of one token that reads nothing and is kept nowhere.
    ///
    /// All of it goes to the device in one copy, before what is launched after this.
    pub(super) fn set(
        &mut self,
        device: &CudaDevice,
        sizes: CudaSizes,
        (batch, shape): (Batch<'_>, StepShape),
        wanted: &[usize],
    ) -> Result<()> {
        let StepShape { tokens, sequences, .. } = shape;
        if tokens > sizes.step_tokens || sequences > sizes.sequences || wanted.len() > sizes.step_tokens {
            return Err(Error::Request(format!(
                "a step of {tokens} tokens of {sequences} sequences with {} logits, and there is room for {} of {}",
                wanted.len(),
                sizes.step_tokens,
                sizes.sequences
            )));
        }
        let longest = StepShape::of(batch).max_context;
        if longest > sizes.context_length {
            let most = sizes.context_length;
            return Err(Error::Request(format!("a sequence of {longest} tokens, and there is room for {most}")));
        }
        if let Some(row) = batch.logit_rows.iter().find(|row| **row >= batch.token_ids.len()) {
            let tokens = batch.token_ids.len();
            return Err(Error::Request(format!("logits of token {row} are wanted, and the step has {tokens}")));
        }
        let layout = Layout::of(shape, wanted.len(), sizes.page_size);
        let spans = batch.sequences;
        let numbers = self.staged.values_mut()?;
        let mut part = |range: &Range<usize>, values: &mut dyn Iterator<Item = usize>, filler| {
            write(&mut numbers[range.clone()], values, filler);
        };
        part(&layout.token_ids, &mut batch.token_ids.iter().map(|&id| id as usize), 0);
        part(&layout.positions, &mut batch.positions.iter().copied(), -1);
        part(&layout.places, &mut batch.slots.iter().copied(), -1);
        part(&layout.slots, &mut (0..spans.len()), -1);
        part(&layout.context, &mut spans.iter().map(|span| span.cached + span.new), 0);
        part(&layout.wanted, &mut wanted.iter().copied(), -1);
        // Sequences that there are not have a token each.
        let lengths = spans.iter().map(|span| span.new).chain(std::iter::repeat(1));
        let starts = lengths.scan(0, |end, new| {
            let start = *end;
            *end += new;
            Some(start)
        });
        part(&layout.query_starts, &mut starts.take(sequences + 1), -1);
        let table = &mut numbers[layout.block_table.clone()];
        table.fill(-1);
        for (row, span) in table.chunks_exact_mut(layout.table_width).zip(spans) {
            // Entries past a context are not read.
            for (entry, page) in row.iter_mut().zip(span.block_table) {
                *entry = page.cast_signed();
            }
        }
        device.copy_pinned(&mut self.staged, layout.length, &mut self.numbers, 0)?;
        self.layout = layout;
        Ok(())
    }

    fn part(&self, range: &Range<usize>) -> CudaView<'_, i32> {
        self.numbers.slice(range.clone())
    }

    pub(super) fn token_ids(&self) -> CudaView<'_, i32> {
        self.part(&self.layout.token_ids)
    }

    /// `[tokens]`
    pub(super) fn positions(&self) -> CudaView<'_, i32> {
        self.part(&self.layout.positions)
    }

    /// Where the keys and values of each token go.
    pub(super) fn places(&self) -> CudaView<'_, i32> {
        self.part(&self.layout.places)
    }

    /// `[sequences, table_width]`
    pub(super) fn block_table(&self) -> CudaView<'_, i32> {
        self.part(&self.layout.block_table)
    }

    pub(super) fn table_width(&self) -> usize {
        self.layout.table_width
    }

    /// Rows of the block table.
    pub(super) fn slots(&self) -> CudaView<'_, i32> {
        self.part(&self.layout.slots)
    }

    pub(super) fn query_starts(&self) -> CudaView<'_, i32> {
        self.part(&self.layout.query_starts)
    }

    pub(super) fn context(&self) -> CudaView<'_, i32> {
        self.part(&self.layout.context)
    }

    /// Those of the tokens whose logits are wanted that are in `range`.
    pub(super) fn wanted(&self, range: &Range<usize>) -> CudaView<'_, i32> {
        let start = self.layout.wanted.start;
        self.part(&(start + range.start..start + range.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_of_a_runner_needs_more_room_than_the_longest() {
        let sizes = CudaSizes { page_size: 16, pages: 64, step_tokens: 40, sequences: 3, context_length: 1000 };
        let longest = Layout::longest(sizes).length;
        for (tokens, sequences, max_context) in [(1, 1, 1), (40, 3, 1000), (3, 3, 17), (33, 1, 999)] {
            let shape = StepShape { tokens, sequences, max_context, is_decode: tokens == sequences };
            for wanted in [0, 1, tokens] {
                let layout = Layout::of(shape, wanted, sizes.page_size);
                assert!(layout.length <= longest, "{layout:?}");
                assert_eq!(layout.block_table.len(), sequences * max_context.div_ceil(16));
                let parts = [
                    &layout.token_ids,
                    &layout.positions,
                    &layout.places,
                    &layout.slots,
                    &layout.query_starts,
                    &layout.context,
                    &layout.block_table,
                    &layout.wanted,
                ];
                assert!(parts.is_sorted_by(|one, next| one.end <= next.start) && layout.wanted.end <= layout.length);
            }
        }
    }
}
