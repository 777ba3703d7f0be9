//! Host memory that the driver has pinned: the device copies from it while the program goes on.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use cudarc::driver::{CudaEvent, CudaSlice, DevicePtrMut, DeviceRepr, ValidAsZeroBits, result, sys};

use super::device::CudaDevice;
use super::error::{CudaError, During, require};

/// Values in pinned memory, which is made for writing: the processor reads it slowly.
///
/// It goes only when the device has copied what it had to.
pub struct PinnedBuffer<T> {
    values: NonNull<T>,
    length: usize,
    /// Reached when the latest copy is done.
    copied: CudaEvent,
}

// SAFETY: it owns its memory alone, which any thread may use and give back; a shared one gives access to nothing.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({})", self.length)
    }
}

impl<T> PinnedBuffer<T> {
    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The values, to be written over, once the device has copied what it had to of those that are there.
    pub fn values_mut(&mut self) -> Result<&mut [T], CudaError> {
        self.copied.synchronize().during("waiting for a copy to the device")?;
        // SAFETY: there are as many values, which were zero bits at first, and that is a value of every `T` that there are buffers
        // of. Nothing else uses them: the device has done what it was to do with them.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.values.as_ptr(), self.length) })
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let context = self.copied.context();
        context.record_err(self.copied.synchronize());
        // SAFETY: the memory is the driver's, and nothing uses it any more.
        context.record_err(unsafe { result::free_host(self.values.as_ptr().cast()) });
    }
}

impl CudaDevice {
    /// Pins memory for values, which are zero bits at first. There is room for one at least.
    pub fn pinned<T: DeviceRepr + ValidAsZeroBits>(&self, length: usize) -> Result<PinnedBuffer<T>, CudaError> {
        let (_, stream) = self.context_and_stream();
        let copied = stream.context().new_event(None).during("creating an event")?;
        let bytes = length.max(1).saturating_mul(size_of::<T>());
        let refused = |source| CudaError::Pinned { bytes, source };
        // SAFETY: the memory is written below before anything reads it. A new event has made the context current.
        let memory: *mut c_void =
            unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_WRITECOMBINED) }.map_err(refused)?;
        // SAFETY: there are as many bytes, and a driver gives whole pages, which begin where a `T` may.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        let Some(values) = NonNull::new(memory.cast()) else { unreachable!("the driver has given memory") };
        Ok(PinnedBuffer { values, length, copied })
    }

    /// Has the first `length` values of a buffer copied to `to`, from its element `start` on, after all work so far. Returns before
    /// that is done; whoever wants to change the values waits.
    pub fn copy_pinned<T: DeviceRepr>(
        &self,
        from: &mut PinnedBuffer<T>,
        length: usize,
        to: &mut CudaSlice<T>,
        start: usize,
    ) -> Result<(), CudaError> {
        require("values to copy", length, length <= from.length, || format!("at most {}", from.length))?;
        let end = start.checked_add(length).filter(|&end| end <= to.len());
        require("the end of a copy", start.saturating_add(length), end.is_some(), || format!("at most {}", to.len()))?;
        if length == 0 {
            return Ok(());
        }
        let (context, stream) = self.context_and_stream();
        context.bind_to_thread().during("copying to the device")?;
        let mut target = to.slice_mut(start..start + length);
        let (address, _guard) = target.device_ptr_mut(stream);
        // SAFETY: the values are there until the event is reached, which is recorded below: nothing gives access to them, or
        // gives them back, before that. The target has as many.
        let copied = unsafe {
            let values = std::slice::from_raw_parts(from.values.as_ptr(), length);
            result::memcpy_htod_async(address, values, stream.cu_stream())
        };
        copied.during("copying to the device")?;
        let recorded = from.copied.record(stream);
        if recorded.is_err() {
            // There is no event to wait for, so this waits.
            let _ = stream.synchronize();
        }
        recorded.during("recording an event")
    }
}
