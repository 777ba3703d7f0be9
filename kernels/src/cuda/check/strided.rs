//! Rows with something between them that is not theirs.

use std::ops::Range;

use cudarc::driver::CudaSlice;

use super::guarded::Guarded;
use super::noise::{BF16_NAN, from_bf16};
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;
use crate::cuda::rows::{Rows, RowsMut};

/// From this many elements between rows on, what is between them is on the device alone.
const FAR: usize = 1 << 24;

/// How rows lie. Between them there is NaN; or there are zeros, where they lie so far apart that a program would have to
/// write gigabytes of it.
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

    fn is_far(&self) -> bool {
        self.stride >= FAR
    }

    /// Where the rows are.
    fn places(&self) -> impl Iterator<Item = Range<usize>> {
        let Self { rows, width, stride } = *self;
        (0..rows).map(move |row| row * stride..row * stride + width)
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
        if !layout.is_far() {
            return Ok(Self { layout, buffer: device.upload(&layout.spread(values))? });
        }
        let mut buffer = device.zeros(layout.length())?;
        for (place, row) in layout.places().zip(values.chunks_exact(layout.width)) {
            device.overwrite(&mut buffer.slice_mut(place), row)?;
        }
        Ok(Self { layout, buffer })
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
        let buffer = if layout.is_far() {
            Guarded::in_pieces(device, layout.length(), layout.places())?
        } else {
            Guarded::new(device, layout.length())?
        };
        Ok(Self { layout, buffer })
    }

    /// Rows that the kernel reads before it writes them.
    pub(super) fn with(device: &CudaDevice, layout: Layout, values: &[u16]) -> Result<Self, CudaError> {
        Ok(Self { layout, buffer: Guarded::with(device, &layout.spread(values))? })
    }

    pub(super) fn rows(&mut self) -> RowsMut<'_> {
        RowsMut { stride: self.layout.stride, values: self.buffer.view_mut() }
    }

    /// The rows, and whether everything around them and between them was left alone; of what is between rows that are far
    /// apart, nothing is said.
    pub(super) fn read(&self, device: &CudaDevice) -> Result<(Vec<u16>, bool), CudaError> {
        if self.layout.is_far() {
            return self.buffer.read_pieces(device, self.layout.places());
        }
        let (spread, bands_intact) = self.buffer.read(device)?;
        let (values, gaps_intact) = self.layout.gather(&spread);
        Ok((values, bands_intact && gaps_intact))
    }
}

/// The values of bf16 bits.
pub(super) fn widen(bits: &[u16]) -> Vec<f64> {
    bits.iter().map(|&bits| f64::from(from_bf16(bits))).collect()
}
