//! The buffers of launches that several tests make, and the arguments of them.

use kernels::cuda::{CudaDevice, CudaError, CudaSlice, GroupedGemmArgs, RowGroups, SampleArgs};

/// How the tokens of some rows are drawn, on a device: of each kind one number for each row, as in [`SampleArgs`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of the arguments")]
pub struct DrawSettings {
    pub temperature: CudaSlice<f32>,
    pub top_k: CudaSlice<i32>,
    pub top_p: CudaSlice<f32>,
    pub min_p: CudaSlice<f32>,
    pub seeds: CudaSlice<u64>,
    pub positions: CudaSlice<i32>,
}

impl DrawSettings {
    /// Rows that are cut alike, at temperature one and without min-p, each with a seed and a position of its own.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn cut_at(device: &CudaDevice, rows: usize, top_k: i32, top_p: f32) -> Result<Self, CudaError> {
        Ok(Self {
            temperature: device.upload(&vec![1.0; rows])?,
            top_k: device.upload(&vec![top_k; rows])?,
            top_p: device.upload(&vec![top_p; rows])?,
            min_p: device.upload(&vec![0.0; rows])?,
            seeds: device.upload(&(4..4 + rows as u64).collect::<Vec<_>>())?,
            positions: device.upload(&(1..=rows as i32).collect::<Vec<_>>())?,
        })
    }

    /// The arguments of a draw from rows of `vocabulary` logits that are `stride` apart.
    pub fn draw<'a>(
        &'a self,
        logits: &'a CudaSlice<f32>,
        (vocabulary, stride): (usize, usize),
        tokens: &'a mut CudaSlice<i32>,
    ) -> SampleArgs<'a> {
        SampleArgs {
            logits: logits.as_view(),
            stride,
            vocabulary,
            temperature: self.temperature.as_view(),
            top_k: self.top_k.as_view(),
            top_p: self.top_p.as_view(),
            min_p: self.min_p.as_view(),
            seeds: self.seeds.as_view(),
            positions: self.positions.as_view(),
            tokens: tokens.as_view_mut(),
        }
    }
}

/// Rows sorted by the expert that they go to, on a device, as in [`GroupedGemmArgs`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of the arguments")]
pub struct SortedRows {
    pub sorted_rows: CudaSlice<i32>,
    pub block_expert: CudaSlice<i32>,
    pub used_rows: CudaSlice<i32>,
}

impl SortedRows {
    /// As the host has sorted them.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn upload(device: &CudaDevice, groups: &RowGroups) -> Result<Self, CudaError> {
        Ok(Self {
            sorted_rows: device.upload(&groups.sorted_rows)?,
            block_expert: device.upload(&groups.block_expert)?,
            used_rows: device.upload(&[groups.sorted_rows.len() as i32])?,
        })
    }

    /// The arguments of their product with their experts' weights, of which `rows` rows come.
    pub fn product<'a>(
        &'a self,
        input: &'a CudaSlice<u16>,
        weights: &'a CudaSlice<u16>,
        rows: usize,
        output: &'a mut CudaSlice<u16>,
    ) -> GroupedGemmArgs<'a> {
        GroupedGemmArgs {
            input: input.as_view(),
            weights: weights.as_view(),
            sorted_rows: self.sorted_rows.as_view(),
            block_expert: self.block_expert.as_view(),
            used_rows: self.used_rows.as_view(),
            rows,
            output: output.as_view_mut(),
        }
    }
}
