//! Results between two bands of known values.

use std::ops::Range;

use cudarc::driver::{CudaSlice, CudaViewMut, DeviceRepr, ValidAsZeroBits};

use super::noise::BF16_NAN;
use crate::cuda::device::CudaDevice;
use crate::cuda::error::CudaError;

/// Bytes of a band; a multiple of what any kernel wants as alignment.
const BAND: usize = 256;

/// A number of a result: what fills it before the kernel runs, and what fills the bands.
pub(super) trait Element: DeviceRepr + ValidAsZeroBits + Copy + PartialEq {
    /// NaN, or a number that is no result, so that an element the kernel forgot is noticed.
    const POISON: Self;
    /// Equal to itself, which NaN is not.
    const BAND: Self;
}

impl Element for u16 {
    const POISON: Self = BF16_NAN;
    const BAND: Self = 0xa5a5;
}

impl Element for f32 {
    const POISON: Self = f32::NAN;
    const BAND: Self = -1.25e30;
}

impl Element for i32 {
    const POISON: Self = i32::MIN + 0x0bad;
    const BAND: Self = 0x5a5a_5a5a;
}

/// A result on the device, poisoned, with a band before and after it.
pub(super) struct Guarded<T> {
    buffer: CudaSlice<T>,
    length: usize,
}

impl<T: Element> Guarded<T> {
    pub(super) fn new(device: &CudaDevice, length: usize) -> Result<Self, CudaError> {
        Self::with(device, &vec![T::POISON; length])
    }

    /// Not poisoned, for what a kernel reads before it writes it.
    pub(super) fn with(device: &CudaDevice, values: &[T]) -> Result<Self, CudaError> {
        let band = [T::BAND].repeat(Self::band());
        Ok(Self { buffer: device.upload(&[&band, values, &band].concat())?, length: values.len() })
    }

    /// Poisoned in these pieces, and zeros between them: for more than this machine has room for.
    pub(super) fn in_pieces(
        device: &CudaDevice,
        length: usize,
        pieces: impl Iterator<Item = Range<usize>>,
    ) -> Result<Self, CudaError> {
        let mut guarded = Self { buffer: device.zeros(length + 2 * Self::band())?, length };
        for band in guarded.bands() {
            device.overwrite(&mut guarded.buffer.slice_mut(band), &vec![T::BAND; Self::band()])?;
        }
        for piece in pieces {
            let poison = vec![T::POISON; piece.len()];
            device.overwrite(&mut guarded.view_mut().slice_mut(piece), &poison)?;
        }
        Ok(guarded)
    }

    const fn band() -> usize {
        BAND / size_of::<T>()
    }

    pub(super) fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.buffer.slice_mut(Self::band()..Self::band() + self.length)
    }

    fn bands(&self) -> [Range<usize>; 2] {
        [0..Self::band(), Self::band() + self.length..self.length + 2 * Self::band()]
    }

    /// Pieces of the result one after another, and whether both bands are as they were.
    pub(super) fn read_pieces(
        &self,
        device: &CudaDevice,
        pieces: impl Iterator<Item = Range<usize>>,
    ) -> Result<(Vec<T>, bool), CudaError> {
        let mut values = Vec::new();
        for piece in pieces {
            let of_buffer = Self::band() + piece.start..Self::band() + piece.end;
            values.extend(device.download(&self.buffer.slice(of_buffer))?);
        }
        let mut intact = true;
        for band in self.bands() {
            intact &= device.download(&self.buffer.slice(band))?.iter().all(|value| *value == T::BAND);
        }
        Ok((values, intact))
    }

    /// The result, and whether both bands are as they were.
    pub(super) fn read(&self, device: &CudaDevice) -> Result<(Vec<T>, bool), CudaError> {
        let values = device.download(&self.buffer)?;
        let (before, rest) = values.split_at(Self::band());
        let (result, after) = rest.split_at(self.length);
        let intact = before.iter().chain(after).all(|value| *value == T::BAND);
        Ok((result.to_vec(), intact))
    }
}
