//! What a step reads from the host: a batch, in buffers that stay where they are, so that the step itself is kernels alone.

use kernels::cuda::{CudaDevice, CudaError, CudaSlice};

use super::LOGIT_ROWS;
use super::state::CudaSizes;
use crate::error::{Error, Result};
use crate::model::decoder::Batch;

/// The sizes of a step, which decide what is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepShape {
    pub(super) tokens: usize,
    pub(super) sequences: usize,
    /// No sequence is longer.
    pub(super) max_context: usize,
    /// Every sequence has one token in the step.
    pub(super) is_decode: bool,
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
            slots: device.upload(&as_i32(0..sequences))?,
            query_starts: device.zeros(sequences + 1)?,
            context: device.zeros(sequences)?,
            wanted: device.zeros(wanted)?,
        })
    }

    /// Takes a batch over, which has to fit `sizes`.
    pub(super) fn set(&mut self, device: &CudaDevice, sizes: CudaSizes, batch: Batch<'_>) -> Result<StepShape> {
        let (tokens, sequences) = (batch.token_ids.len(), batch.sequences);
        if tokens > sizes.step_tokens || sequences.len() > sizes.sequences {
            return Err(Error::Request(format!(
                "a step of {tokens} tokens of {} sequences, and there is room for {} of {}",
                sequences.len(),
                sizes.step_tokens,
                sizes.sequences
            )));
        }
        let mut block_table = Vec::with_capacity(sequences.len() * self.table_width);
        let mut starts = vec![0];
        for (row, span) in sequences.iter().enumerate() {
            block_table.extend(span.block_table.iter().take(self.table_width).map(|&page| page.cast_signed()));
            // Entries past a context are not read.
            block_table.resize((row + 1) * self.table_width, -1);
            starts.push(starts[row] + span.new);
        }
        let contexts = || sequences.iter().map(|span| span.cached + span.new);
        device.overwrite(&mut self.token_ids, batch.token_ids)?;
        device.overwrite(&mut self.positions, &as_i32(batch.positions.iter().copied()))?;
        device.overwrite(&mut self.places, &as_i32(batch.slots.iter().copied()))?;
        device.overwrite(&mut self.block_table, &block_table)?;
        device.overwrite(&mut self.query_starts, &as_i32(starts))?;
        device.overwrite(&mut self.context, &as_i32(contexts()))?;
        Ok(StepShape {
            tokens,
            sequences: sequences.len(),
            max_context: contexts().max().unwrap_or(0),
            is_decode: sequences.iter().all(|span| span.new == 1),
        })
    }

    /// Says whose logits are wanted, of at most [`LOGIT_ROWS`] of the step's tokens.
    pub(super) fn want(&mut self, device: &CudaDevice, rows: &[usize]) -> std::result::Result<(), CudaError> {
        device.overwrite(&mut self.wanted, &as_i32(rows.iter().copied()))
    }
}
