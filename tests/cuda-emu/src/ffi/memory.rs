//! Device and pinned memory, and copies between them.

use std::ffi::{c_uint, c_void};

use super::{Handle, store};
use crate::code::{Answer, Code};
use crate::context::{Context, memory_code};
use crate::driver::in_context;
use crate::host::HostRange;
use crate::streams::{CaptureStatus, LEGACY, Submitted};
use crate::work::{Source, Work};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    let answer = in_context(|context, _| Ok(context.memory_info()));
    // SAFETY: this function's contract is `store`'s.
    unsafe {
        match store(free, answer.map(|(free, _)| free)) {
            Code::SUCCESS => store(total, answer.map(|(_, total)| total)),
            code => code,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Code {
    let answer = in_context(|context, console| {
        context.streams.refuse_unseen()?;
        context.alloc(console, bytes)
    });
    // SAFETY: as above.
    unsafe { store(address, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle) -> Code {
    let answer = in_context(|context, console| match context.streams.capture_status(stream)? {
        CaptureStatus::None => context.alloc(console, bytes),
        CaptureStatus::Invalidated => Err(Code::CAPTURE_INVALIDATED),
        CaptureStatus::Active => {
            console.report("an allocation in a capture, which this driver cannot make a node of the graph".to_owned());
            context.streams.spoil(stream);
            Err(Code::NOT_SUPPORTED)
        }
    });
    // SAFETY: as above.
    unsafe { store(address, answer) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> Code {
    in_context(|context, console| {
        context.streams.refuse_unseen()?;
        // What may still use it is done first.
        context.finish_all(console)?;
        match address {
            0 => Ok(()),
            _ => context.memory.free(address).map_err(|error| memory_code(&error)),
        }
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> Code {
    in_context(|context, console| match context.streams.capture_status(stream)? {
        CaptureStatus::None if address == 0 => Ok(()),
        CaptureStatus::None => context.submit(console, stream, Work::Free { address }).map(drop),
        CaptureStatus::Invalidated => Err(Code::CAPTURE_INVALIDATED),
        // A graph frees only what it has allocated.
        CaptureStatus::Active => {
            context.streams.spoil(stream);
            Err(Code::INVALID_VALUE)
        }
    })
    .into()
}

/// Whether the program waits for a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// It does; the copy is the legacy stream's.
    Blocking,
    Async(Handle),
}

impl Call {
    /// The stream, unless a capture forbids to wait for it.
    fn stream(self, context: &mut Context) -> Answer<Handle> {
        match self {
            Self::Blocking => context.streams.refuse_wait(LEGACY).map(|()| LEGACY),
            Self::Async(stream) => context.streams.check(stream).map(|()| stream),
        }
    }
}

/// # Safety
///
/// `from` is valid for reads of `bytes` bytes, as [`HostRange::new`] has it.
unsafe fn copy_in(to: u64, from: *const c_void, bytes: usize, call: Call) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    if from.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    in_context(|context, console| {
        let stream = call.stream(context)?;
        let is_pinned = context.is_pinned(from.addr(), bytes);
        // SAFETY: this function's contract.
        let range = unsafe { HostRange::new(from.cast_mut(), bytes, is_pinned) };
        let is_captured = context.streams.capture_status(stream)? != CaptureStatus::None;
        if call == Call::Blocking {
            context.finish_stream(console, stream)?;
        }
        let is_read_later = is_pinned || is_captured;
        let from = if is_read_later { Source::Host(range) } else { Source::Bytes(range.to_vec()) };
        context.submit(console, stream, Work::Write { to, from })?;
        console.copies_in += 1;
        if call == Call::Blocking && is_pinned { context.finish_stream(console, stream) } else { Ok(()) }
    })
}

/// # Safety
///
/// `to` is valid for writes of `bytes` bytes, as [`HostRange::new`] has it.
unsafe fn copy_out(to: *mut c_void, from: u64, bytes: usize, call: Call) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    if to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    in_context(|context, console| {
        let stream = call.stream(context)?;
        let is_pinned = context.is_pinned(to.addr(), bytes);
        // SAFETY: this function's contract.
        let to = unsafe { HostRange::new(to, bytes, is_pinned) };
        match context.submit(console, stream, Work::Read { to, from })? {
            // The driver cannot write to memory that is not pinned later on.
            Submitted::Queued(ticket) if call == Call::Blocking || !is_pinned => context.finish(console, &[ticket]),
            Submitted::Queued(_) | Submitted::Captured => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_in(to, from, bytes, Call::Blocking) }.into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_in(to, from, bytes, Call::Async(stream)) }.into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_out(to, from, bytes, Call::Blocking) }.into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_out(to, from, bytes, Call::Async(stream)) }.into()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> Code {
    cuMemcpyDtoDAsync_v2(to, from, bytes, LEGACY)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> Code {
    in_context(|context, console| context.submit(console, stream, Work::Copy { to, from, bytes }).map(drop)).into()
}

fn fill(to: u64, pattern: &[u8], count: usize, stream: Handle) -> Code {
    let work = Work::Fill { to, pattern: pattern.to_vec(), count };
    in_context(|context, console| context.submit(console, stream, work).map(drop)).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> Code {
    cuMemsetD8Async(to, value, count, LEGACY)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) -> Code {
    fill(to, &[value], count, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) -> Code {
    fill(to, &value.to_ne_bytes(), count, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) -> Code {
    fill(to, &value.to_ne_bytes(), count, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) -> Code {
    let answer = in_context(|context, _| {
        context.streams.refuse_unseen()?;
        context.alloc_host(bytes)
    });
    // SAFETY: as above.
    unsafe { store(pointer, answer.map(<*mut u8>::cast)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> Code {
    // Nothing says that the driver waits for copies that use it.
    in_context(|context, _| {
        context.streams.refuse_unseen()?;
        context.free_host(pointer.cast())
    })
    .into()
}
