//! Large values on their way to the device, through pinned memory: a part is prepared while the one before is copied.

use cudarc::driver::{CudaSlice, DeviceRepr, ValidAsZeroBits};

use super::device::CudaDevice;
use super::error::{CudaError, require};
use super::pinned::PinnedBuffer;

/// Two buffers that take turns.
#[derive(Debug)]
pub struct Staging<T> {
    buffers: [PinnedBuffer<T>; 2],
}

impl<T: DeviceRepr + ValidAsZeroBits> Staging<T> {
    /// With room for `length` values in each buffer.
    pub fn new(device: &CudaDevice, length: usize) -> Result<Self, CudaError> {
        Ok(Self { buffers: [device.pinned(length)?, device.pinned(length)?] })
    }

    /// Values that fit a part.
    #[must_use]
    pub fn part(&self) -> usize {
        self.buffers[0].len()
    }

    /// Puts `length` values on the device, of which `fill` writes a part at a time: it is told the number of its first value.
    /// Each part but the last has the same length, a multiple of `unit`.
    pub fn upload(
        &mut self,
        device: &CudaDevice,
        (length, unit): (usize, usize),
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Result<CudaSlice<T>, CudaError> {
        let part = self.part() / unit.max(1) * unit;
        require("values of a part", unit, part > 0, || format!("1 to {}", self.part()))?;
        let mut to = device.unwritten(length)?;
        for start in (0..length).step_by(part) {
            let count = part.min(length - start);
            let [buffer, _] = &mut self.buffers;
            fill(start, &mut buffer.values_mut()?[..count]);
            device.copy_pinned(buffer, count, &mut to, start)?;
            // The other is written next: its copy has had the time that this part took.
            self.buffers.swap(0, 1);
        }
        Ok(to)
    }
}

impl<T: DeviceRepr + ValidAsZeroBits + Copy> Staging<T> {
    /// Copies values that are there to the device.
    pub fn copy(&mut self, device: &CudaDevice, values: &[T]) -> Result<CudaSlice<T>, CudaError> {
        self.upload(device, (values.len(), 1), |start, part| part.copy_from_slice(&values[start..][..part.len()]))
    }
}
