//! Devices and contexts.

use std::ffi::{c_char, c_int, c_uint};

use super::{Handle, store};
use crate::code::Code;
use crate::driver::{current, driver, in_context, set_current};

/// As long as the driver API 13.0.
const VERSION: c_int = 13_000;
const NAME: &[u8] = b"PTX interpreter\0";

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> Code {
    driver().initialise();
    Code::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    // SAFETY: this function's contract is `store`'s.
    unsafe { store(version, Ok(VERSION)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    let answer = driver().check_device(ordinal).map(|()| ordinal);
    // SAFETY: as above.
    unsafe { store(device, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    let answer = driver().check_device(0).map(|()| 1);
    // SAFETY: as above.
    unsafe { store(count, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> Code {
    if let Err(code) = driver().check_device(device) {
        return code;
    }
    let room = usize::try_from(length).unwrap_or(0);
    if name.is_null() || room < NAME.len() {
        return Code::INVALID_VALUE;
    }
    // SAFETY: the caller's buffer has `length` bytes, which is enough.
    unsafe {
        name.cast::<u8>().copy_from_nonoverlapping(NAME.as_ptr(), NAME.len());
    };
    Code::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> Code {
    let answer = driver().check_device(device).map(|()| *b"ptx-interpreter0");
    // SAFETY: as above; a CUuuid is 16 bytes.
    unsafe { store(uuid, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Code {
    let driver = driver();
    let answer = driver.check_device(device).map(|()| driver.memory() as usize);
    // SAFETY: as above.
    unsafe { store(bytes, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Code {
    let answer = driver().check_device(device).and_then(|()| attribute_value(attribute).ok_or(Code::INVALID_VALUE));
    // SAFETY: as above.
    unsafe { store(value, answer) }
}

/// The value of a `CU_DEVICE_ATTRIBUTE_…`: an `sm_80` device's, with one multiprocessor, and 0 for what it does not have.
fn attribute_value(attribute: c_int) -> Option<c_int> {
    const KNOWN: [(c_int, c_int); 20] = [
        // Threads of a block, and its extents.
        (1, 1024),
        (2, 1024),
        (3, 1024),
        (4, 64),
        // Extents of a grid.
        (5, c_int::MAX),
        (6, 65_535),
        (7, 65_535),
        // Shared memory of a block that does not opt in to more; constant memory.
        (8, 48 << 10),
        (9, 64 << 10),
        // Lanes of a warp.
        (10, 32),
        // Registers of a block, and of a multiprocessor.
        (12, 64 << 10),
        (82, 64 << 10),
        // Multiprocessors, and their threads.
        (16, 1),
        (39, 2048),
        // Unified addressing; memory pools.
        (41, 1),
        (115, 1),
        // Compute capability 8.0.
        (75, 8),
        (76, 0),
        // Shared memory of a multiprocessor, and of a block that opts in.
        (81, 164 << 10),
        (97, 163 << 10),
    ];
    let known = KNOWN.iter().find(|(number, _)| *number == attribute);
    match known {
        Some((_, value)) => Some(*value),
        None => (1..=150).contains(&attribute).then_some(0),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Code {
    let mut driver = driver();
    let answer = driver.check_device(device).map(|()| driver.retain());
    // SAFETY: as above.
    unsafe { store(context, answer) }
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code {
    let mut driver = driver();
    let answer = driver.check_device(device).and_then(|()| driver.release());
    answer.into()
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    set_current(context).into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> Code {
    // SAFETY: as above.
    unsafe { store(context, Ok(current())) }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    in_context(|context, console| {
        context.streams.refuse_wait_for_all()?;
        context.finish_all(console)
    })
    .into()
}
