//! Device and pinned memory, and copies between them. The asynchronous functions are the synchronous ones: they are
//! done when they return.

use std::ffi::{c_uint, c_void};

use super::{Handle, store};
use crate::code::{Answer, Code};
use crate::context::memory_code;
use crate::driver::in_context;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    let answer = in_context(|context| Ok(context.memory_info()));
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
    // SAFETY: as above.
    unsafe { store(address, in_context(|context| context.alloc(bytes))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle) -> Code {
    let answer = in_context(|context| {
        context.check_stream(stream)?;
        context.alloc(bytes)
    });
    // SAFETY: as above.
    unsafe { store(address, answer) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> Code {
    in_context(|context| context.free(address)).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, stream: Handle) -> Code {
    in_context(|context| {
        context.check_stream(stream)?;
        context.free(address)
    })
    .into()
}

/// # Safety
///
/// `from` is valid for reads of `bytes` bytes.
unsafe fn copy_in(to: u64, from: *const c_void, bytes: usize, stream: Handle) -> Answer {
    // SAFETY: this function's contract.
    let data = unsafe { host_slice(from, bytes) }?;
    in_context(|context| {
        context.check_stream(stream)?;
        let written = context.memory.write(to, data);
        written.map_err(|error| memory_code(&error))
    })
}

/// # Safety
///
/// `to` is valid for writes of `bytes` bytes.
unsafe fn copy_out(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    if to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let data = in_context(|context| {
        context.check_stream(stream)?;
        let mut data = vec![0; bytes];
        let read = context.memory.read(from, &mut data);
        read.map(|()| data).map_err(|error| memory_code(&error))
    })?;
    // SAFETY: `data` has `bytes` bytes, `to` is valid for as many. Not made a slice: it may be uninitialised.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), bytes);
    };
    Ok(())
}

/// # Safety
///
/// `from` is null or valid for reads of `bytes` bytes for as long as the slice is used.
unsafe fn host_slice<'a>(from: *const c_void, bytes: usize) -> Answer<&'a [u8]> {
    if bytes == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and valid by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(from.cast(), bytes) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_in(to, from, bytes, 0) }.into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_in(to, from, bytes, stream) }.into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_out(to, from, bytes, 0) }.into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { copy_out(to, from, bytes, stream) }.into()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> Code {
    cuMemcpyDtoDAsync_v2(to, from, bytes, 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> Code {
    in_context(|context| {
        context.check_stream(stream)?;
        let copied = context.memory.copy(to, from, bytes);
        copied.map_err(|error| memory_code(&error))
    })
    .into()
}

fn fill(to: u64, pattern: &[u8], count: usize, stream: Handle) -> Answer {
    in_context(|context| {
        context.check_stream(stream)?;
        let filled = context.memory.fill(to, pattern, count);
        filled.map_err(|error| memory_code(&error))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> Code {
    cuMemsetD8Async(to, value, count, 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) -> Code {
    fill(to, &[value], count, stream).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) -> Code {
    fill(to, &value.to_ne_bytes(), count, stream).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) -> Code {
    fill(to, &value.to_ne_bytes(), count, stream).into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) -> Code {
    let answer = in_context(|context| context.alloc_host(bytes));
    // SAFETY: as above.
    unsafe { store(pointer, answer.map(<*mut u8>::cast)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> Code {
    in_context(|context| context.free_host(pointer.cast())).into()
}
