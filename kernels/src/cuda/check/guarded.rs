//! Results between two bands of known values.

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

    const fn band() -> usize {
        BAND / size_of::<T>()
    }

    pub(super) fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.buffer.slice_mut(Self::band()..Self::band() + self.length)
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
