//! Host memory that the driver has pinned: the device copies from it while the program goes on, and to it without a detour.

use std::ffi::{c_uint, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, ValidAsZeroBits,
    result, sys,
};

use super::device::CudaDevice;
use super::error::{CudaError, During, require};

/// Memory that the driver has pinned, with room for one value at least.
struct PinnedMemory<T> {
    values: NonNull<T>,
    length: usize,
    context: Arc<CudaContext>,
    /// The latest copy, unless it is known to be done.
    copy: Option<Copying>,
}

// SAFETY: it owns its memory alone, which any thread may use and give back; a shared one gives access to nothing.
unsafe impl<T: Send> Send for PinnedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedMemory<T> {}

/// A copy that the device may not have done.
struct Copying {
    stream: Arc<CudaStream>,
    /// Reached when it is done. Without one, all work of the stream is waited for.
    done: Option<Arc<CudaEvent>>,
}

impl Copying {
    /// Waits until it is done, or says that nobody can tell.
    ///
    /// cudarc's own ways to wait first tell what has failed before where it could not be told, and then return without having
    /// waited.
    fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: stream and event are there, and so is their context, which any thread may use.
        unsafe {
            result::ctx::set_current(self.stream.context().cu_ctx())?;
            match &self.done {
                Some(event) => result::event::synchronize(event.cu_event()),
                None => result::stream::synchronize(self.stream.cu_stream()),
            }
        }
    }
}

impl<T> PinnedMemory<T> {
    /// Waits until no copy uses the memory. Where this fails, one may.
    fn settle(&mut self) -> Result<(), DriverError> {
        if let Some(copy) = &self.copy {
            copy.wait()?;
            self.copy = None;
        }
        Ok(())
    }
}

impl<T: DeviceRepr + ValidAsZeroBits> PinnedMemory<T> {
    /// Zero bits at first; `flags` are the driver's.
    fn new(context: &Arc<CudaContext>, length: usize, flags: c_uint) -> Result<Self, CudaError> {
        context.bind_to_thread().during("pinning host memory")?;
        let bytes = length.max(1).saturating_mul(size_of::<T>());
        // SAFETY: the memory is written below before anything reads it.
        let memory: *mut c_void =
            unsafe { result::malloc_host(bytes, flags) }.map_err(|source| CudaError::Pinned { bytes, source })?;
        // SAFETY: there are as many bytes, and a driver gives whole pages, which begin where a `T` may.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        let Some(values) = NonNull::new(memory.cast()) else { unreachable!("the driver has given memory") };
        Ok(Self { values, length, context: context.clone(), copy: None })
    }
}

impl<T> Drop for PinnedMemory<T> {
    fn drop(&mut self) {
        if self.settle().is_err() {
            // Nobody can tell whether the device still uses the memory, nor when it will not any more. So it is never given back:
            // what is written there once it is something else's would be worse than to have less.
            return;
        }
        // SAFETY: the context is there, and the memory is the driver's. No copy uses it any more.
        let freed = unsafe {
            result::ctx::set_current(self.context.cu_ctx())
                .and_then(|()| result::free_host(self.values.as_ptr().cast()))
        };
        self.context.record_err(freed);
    }
}

/// Values in pinned memory, which is made for writing: the processor reads it slowly.
///
/// It goes only when the device has copied what it had to.
pub struct PinnedBuffer<T> {
    memory: PinnedMemory<T>,
    /// Recorded behind each copy.
    copied: Arc<CudaEvent>,
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
        self.memory.settle().during("waiting for a copy to the device")?;
        // SAFETY: there are as many values, which were zero bits at first, and that is a value of every `T` that there are buffers
        // of. Nothing else uses them: the device has done what it was to do with them.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.memory.values.as_ptr(), self.memory.length) })
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
        // One that could not be waited for when it was asked for.
        self.memory.settle().during("waiting for a copy from the device")?;
        let (context, stream) = device.context_and_stream();
        context.bind_to_thread().during("copying from the device")?;
        let (address, guard) = from.device_ptr(stream);
        self.memory.copy = Some(Copying { stream: stream.clone(), done: None });
        if length > 0 {
            // SAFETY: both have as many values, and the target stays where it is, and nothing looks at it, until the copy is done.
            let copied = unsafe {
                let values = std::slice::from_raw_parts_mut(self.memory.values.as_ptr(), length);
                result::memcpy_dtoh_async(values, address, stream.cu_stream())
            };
            copied.during("copying from the device")?;
        }
        drop(guard);
        self.memory.settle().during("running kernels")?;
        // SAFETY: there are as many values, and zero bits are one, as are those that a device has of a `T` that there are buffers
        // of. Nothing else uses them: the copy is done.
        Ok(unsafe { std::slice::from_raw_parts(self.memory.values.as_ptr(), length) })
    }
}

impl CudaDevice {
    /// Pins memory for values on their way to the device, which are zero bits at first. There is room for one at least.
    pub fn pinned<T: DeviceRepr + ValidAsZeroBits>(&self, length: usize) -> Result<PinnedBuffer<T>, CudaError> {
        let (_, stream) = self.context_and_stream();
        let context = stream.context();
        let copied = Arc::new(context.new_event(None).during("creating an event")?);
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
        if from.memory.copy.as_ref().is_some_and(|copy| copy.stream != *stream) {
            // What stands for the copy below does not for one in another stream.
            from.memory.settle().during("waiting for a copy to the device")?;
        }
        let mut target = to.slice_mut(start..start + length);
        let (address, _guard) = target.device_ptr_mut(stream);
        from.memory.copy = Some(Copying { stream: stream.clone(), done: None });
        // SAFETY: nothing gives access to the values, or gives them back, before the copy is done. The target has as many.
        let copied = unsafe {
            let values = std::slice::from_raw_parts(from.memory.values.as_ptr(), length);
            result::memcpy_htod_async(address, values, stream.cu_stream())
        };
        copied.during("copying to the device")?;
        from.copied.record(stream).during("recording an event")?;
        from.memory.copy = Some(Copying { stream: stream.clone(), done: Some(from.copied.clone()) });
        Ok(())
    }
}
