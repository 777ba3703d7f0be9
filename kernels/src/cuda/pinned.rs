//! Host memory that the driver has pinned: the device copies from it while the program goes on, and to it without a detour.

use std::ffi::{c_uint, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits, result, sys,
};

use super::device::CudaDevice;
use super::error::{CudaError, During, require};

/// Memory that the driver has pinned, with room for one value at least.
struct PinnedMemory<T> {
    values: NonNull<T>,
    length: usize,
    context: Arc<CudaContext>,
}

// SAFETY: it owns its memory alone, which any thread may use and give back; a shared one gives access to nothing.
unsafe impl<T: Send> Send for PinnedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedMemory<T> {}

impl<T: DeviceRepr + ValidAsZeroBits> PinnedMemory<T> {
    /// Zero bits at first; `flags` are the driver's.
    fn new(context: &Arc<CudaContext>, length: usize, flags: c_uint) -> Result<Self, CudaError> {
        let bytes = length.max(1).saturating_mul(size_of::<T>());
        let refused = |source| CudaError::Pinned { bytes, source };
        context.bind_to_thread().map_err(refused)?;
        // SAFETY: the memory is written below before anything reads it.
        let memory: *mut c_void = unsafe { result::malloc_host(bytes, flags) }.map_err(refused)?;
        // SAFETY: there are as many bytes, and a driver gives whole pages, which begin where a `T` may.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        let Some(values) = NonNull::new(memory.cast()) else { unreachable!("the driver has given memory") };
        Ok(Self { values, length, context: context.clone() })
    }
}

impl<T> Drop for PinnedMemory<T> {
    fn drop(&mut self) {
        self.context.record_err(self.context.bind_to_thread());
        // SAFETY: the memory is the driver's. Who owns this has waited for the copies, so nothing uses it any more.
        self.context.record_err(unsafe { result::free_host(self.values.as_ptr().cast()) });
    }
}

/// Values in pinned memory, which is made for writing: the processor reads it slowly.
///
/// It goes only when the device has copied what it had to.
pub struct PinnedBuffer<T> {
    memory: PinnedMemory<T>,
    /// Reached when the latest copy is done.
    copied: CudaEvent,
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({})", self.len())
    }
}

impl<T> PinnedBuffer<T> {
    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, to be written over, once the device has copied what it had to of those that are there.
    pub fn values_mut(&mut self) -> Result<&mut [T], CudaError> {
        self.copied.synchronize().during("waiting for a copy to the device")?;
        // SAFETY: there are as many values, which were zero bits at first, and that is a value of every `T` that there are buffers
        // of. Nothing else uses them: the device has done what it was to do with them.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.memory.values.as_ptr(), self.memory.length) })
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        self.copied.context().record_err(self.copied.synchronize());
    }
}

/// Values on their way from the device, in pinned memory: they come without another copy that the driver would make.
pub struct Readback<T> {
    memory: PinnedMemory<T>,
}

impl<T> fmt::Debug for Readback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Readback({})", self.memory.length)
    }
}

impl<T: DeviceRepr> Readback<T> {
    /// Copies values from the device, after all work so far, and waits for them. They are there until others are read.
    pub fn read(&mut self, device: &CudaDevice, from: &impl DevicePtr<T>) -> Result<&[T], CudaError> {
        let (length, room) = (from.len(), self.memory.length);
        require("values to copy", length, length <= room, || format!("at most {room}"))?;
        // SAFETY: there are as many values, and zero bits are one, as are those that a device has of a `T` that there are buffers
        // of. Nothing else uses them: every copy so far has been waited for.
        let values = unsafe { std::slice::from_raw_parts_mut(self.memory.values.as_ptr(), length) };
        if length > 0 {
            let (context, stream) = device.context_and_stream();
            context.bind_to_thread().during("copying from the device")?;
            let (address, guard) = from.device_ptr(stream);
            // SAFETY: the source has as many values, and the target stays where it is until they are there: what follows waits.
            let copied = unsafe { result::memcpy_dtoh_async(values, address, stream.cu_stream()) };
            drop(guard);
            copied.during("copying from the device")?;
        }
        device.synchronize()?;
        Ok(values)
    }
}

impl CudaDevice {
    /// Pins memory for values on their way to the device, which are zero bits at first. There is room for one at least.
    pub fn pinned<T: DeviceRepr + ValidAsZeroBits>(&self, length: usize) -> Result<PinnedBuffer<T>, CudaError> {
        let (_, stream) = self.context_and_stream();
        let context = stream.context();
        let copied = context.new_event(None).during("creating an event")?;
        let memory = PinnedMemory::new(context, length, sys::CU_MEMHOSTALLOC_WRITECOMBINED)?;
        Ok(PinnedBuffer { memory, copied })
    }

    /// Pins memory for as many values on their way from the device.
    pub fn readback<T: DeviceRepr + ValidAsZeroBits>(&self, length: usize) -> Result<Readback<T>, CudaError> {
        let (_, stream) = self.context_and_stream();
        let context = stream.context();
        Ok(Readback { memory: PinnedMemory::new(context, length, 0)? })
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
        require("values to copy", length, length <= from.len(), || format!("at most {}", from.len()))?;
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
            let values = std::slice::from_raw_parts(from.memory.values.as_ptr(), length);
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
