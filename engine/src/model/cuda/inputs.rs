//! What a step reads from the host: a batch, in buffers that stay where they are, so that the step itself is kernels alone.

use kernels::cuda::{CudaDevice, CudaError, CudaSlice};

use super::LOGIT_ROWS;
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

/// A batch as the kernels read it.
pub(super) struct StepInputs {
    pub(super) token_ids: CudaSlice<u32>,
    pub(super) positions: CudaSlice<i32>,
    /// Where the keys and values of each token go.
    pub(super) places: CudaSlice<i32>,
    /// `[sequences, table_width]`
    pub(super) block_table: CudaSlice<i32>,
    pub(super) table_width: usize,
    /// Rows of the block table.
    pub(super) slots: CudaSlice<i32>,
    pub(super) query_starts: CudaSlice<i32>,
    pub(super) context: CudaSlice<i32>,
    /// The tokens whose logits are wanted.
    pub(super) wanted: CudaSlice<i32>,
}

/// Pages that a row of the block table has room for.
fn table_width(context_length: usize, page_size: usize) -> usize {
    context_length.div_ceil(page_size)
}

/// Bytes of all of it.
pub(super) fn bytes(sizes: CudaSizes) -> usize {
    let CudaSizes { page_size, step_tokens, context_length, sequences, .. } = sizes;
    let wanted = LOGIT_ROWS.min(step_tokens);
    let table = sequences * table_width(context_length, page_size);
    (3 * step_tokens + table + 3 * sequences + 1 + wanted) * size_of::<i32>()
}

fn as_i32(numbers: impl IntoIterator<Item = usize>) -> Vec<i32> {
    // Positions and places are below the tokens of a pool, which are refused from 2^31 on.
    numbers.into_iter().map(|number| number as i32).collect()
}

/// With as many of `filler` as make it so long.
fn padded<T: Clone>(numbers: impl IntoIterator<Item = T>, length: usize, filler: T) -> Vec<T> {
    let mut numbers: Vec<T> = numbers.into_iter().collect();
    numbers.resize(length, filler);
    numbers
}

impl StepInputs {
    pub(super) fn new(device: &CudaDevice, sizes: CudaSizes) -> std::result::Result<Self, CudaError> {
        let CudaSizes { page_size, step_tokens, context_length, sequences, .. } = sizes;
        let table_width = table_width(context_length, page_size);
        let wanted = LOGIT_ROWS.min(step_tokens);
        Ok(Self {
            token_ids: device.zeros(step_tokens)?,
            positions: device.zeros(step_tokens)?,
            places: device.zeros(step_tokens)?,
            block_table: device.zeros(sequences * table_width)?,
            table_width,
            slots: device.zeros(sequences)?,
            query_starts: device.zeros(sequences + 1)?,
            context: device.zeros(sequences)?,
            wanted: device.zeros(wanted)?,
        })
    }

    /// Takes a batch over, which has to fit `sizes`. What `shape` has room for besides are sequences of one token that reads
    /// nothing and is kept nowhere.
    pub(super) fn set(
        &mut self,
        device: &CudaDevice,
        sizes: CudaSizes,
        batch: Batch<'_>,
        shape: StepShape,
    ) -> Result<()> {
        let StepShape { tokens, sequences, .. } = shape;
        if tokens > sizes.step_tokens || sequences > sizes.sequences {
            return Err(Error::Request(format!(
                "a step of {tokens} tokens of {sequences} sequences, and there is room for {} of {}",
                sizes.step_tokens, sizes.sequences
            )));
        }
        let mut block_table = Vec::with_capacity(sequences * self.table_width);
        let mut starts = vec![0];
        for (row, span) in batch.sequences.iter().enumerate() {
            block_table.extend(span.block_table.iter().take(self.table_width).map(|&page| page.cast_signed()));
            // Entries past a context are not read.
            block_table.resize((row + 1) * self.table_width, -1);
            starts.push(starts[row] + span.new);
        }
        block_table.resize(sequences * self.table_width, -1);
        starts.extend(starts[batch.sequences.len()] + 1..=tokens);
        let token_ids: Vec<u32> = padded(batch.token_ids.iter().copied(), tokens, 0);
        let numbers = |numbers: &[usize], length| padded(as_i32(numbers.iter().copied()), length, -1);
        let contexts = as_i32(batch.sequences.iter().map(|span| span.cached + span.new));
        device.overwrite(&mut self.token_ids, &token_ids)?;
        device.overwrite(&mut self.positions, &numbers(batch.positions, tokens))?;
        device.overwrite(&mut self.places, &numbers(batch.slots, tokens))?;
        device.overwrite(&mut self.block_table, &block_table)?;
        device.overwrite(&mut self.slots, &padded(as_i32(0..batch.sequences.len()), sequences, -1))?;
        device.overwrite(&mut self.query_starts, &as_i32(starts))?;
        device.overwrite(&mut self.context, &padded(contexts, sequences, 0))?;
        Ok(())
    }

    /// Says whose logits are wanted, of at most [`LOGIT_ROWS`] of the step's tokens.
    pub(super) fn want(&mut self, device: &CudaDevice, rows: &[usize]) -> std::result::Result<(), CudaError> {
        device.overwrite(&mut self.wanted, &as_i32(rows.iter().copied()))
    }
}
