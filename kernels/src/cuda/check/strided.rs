//! Rows with something between them that is not theirs.

use cudarc::driver::CudaSlice;

use super::guarded::Guarded;
use super::noise::{BF16_NAN, from_bf16};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::rows::{Rows, RowsMut};

/// How rows lie. Between them there is NaN.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

impl Layout {
    fn length(&self) -> usize {
        self.rows.checked_sub(1).map_or(0, |others| others * self.stride + self.width)
    }

    /// Lays out rows.
    fn spread(&self, values: &[u16]) -> Vec<u16> {
        let mut spread = vec![BF16_NAN; self.length()];
        for (to, from) in spread.chunks_mut(self.stride).zip(values.chunks_exact(self.width)) {
            to[..self.width].copy_from_slice(from);
        }
        spread
    }

    /// The rows, and whether what lies between them is NaN still.
    fn gather(&self, spread: &[u16]) -> (Vec<u16>, bool) {
        let mut values = Vec::with_capacity(self.rows * self.width);
        let mut intact = true;
        for row in spread.chunks(self.stride) {
            let (row, gap) = row.split_at(self.width);
            values.extend_from_slice(row);
            intact &= gap.iter().all(|&bits| bits == BF16_NAN);
        }
        (values, intact)
    }
}

/// Rows that a kernel reads.
pub(super) struct StridedInput {
    layout: Layout,
    buffer: CudaSlice<u16>,
}

impl StridedInput {
    pub(super) fn new(device: &CudaDevice, layout: Layout, values: &[u16]) -> Result<Self, CudaError> {
        Ok(Self { layout, buffer: device.upload(&layout.spread(values))? })
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { values: self.buffer.slice(..self.layout.length()), stride: self.layout.stride }
    }
}

/// Rows that a kernel writes.
pub(super) struct StridedOutput {
    layout: Layout,
    buffer: Guarded<u16>,
}

impl StridedOutput {
    /// Poisoned rows.
    pub(super) fn new(device: &CudaDevice, layout: Layout) -> Result<Self, CudaError> {
        Ok(Self { layout, buffer: Guarded::new(device, layout.length())? })
    }

    /// Rows that the kernel reads before it writes them.
    pub(super) fn with(device: &CudaDevice, layout: Layout, values: &[u16]) -> Result<Self, CudaError> {
        Ok(Self { layout, buffer: Guarded::with(device, &layout.spread(values))? })
    }

    pub(super) fn rows(&mut self) -> RowsMut<'_> {
        RowsMut { stride: self.layout.stride, values: self.buffer.view_mut() }
    }

    /// The rows, and whether everything around them and between them was left alone.
    pub(super) fn read(&self, device: &CudaDevice) -> Result<(Vec<u16>, bool), CudaError> {
        let (spread, bands_intact) = self.buffer.read(device)?;
        let (values, gaps_intact) = self.layout.gather(&spread);
        Ok((values, bands_intact && gaps_intact))
    }
}

/// The values of bf16 bits.
pub(super) fn widen(bits: &[u16]) -> Vec<f64> {
    bits.iter().map(|&bits| f64::from(from_bf16(bits))).collect()
}
