//! Streams and events. All work is done when it is submitted, so there is nothing to wait for.

use std::ffi::{c_int, c_uint};

use super::{Handle, store};
use crate::code::Code;
use crate::driver::in_context;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, _flags: c_uint) -> Code {
    // SAFETY: this function's contract is `store`'s.
    unsafe { store(stream, in_context(|context| Ok(context.create_stream()))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, _priority: c_int) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { cuStreamCreate(stream, flags) }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    in_context(|context| context.destroy_stream(stream)).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    in_context(|context| context.check_stream(stream)).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> Code {
    in_context(|context| {
        context.check_stream(stream)?;
        context.event(event).map(drop)
    })
    .into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut Handle, _flags: c_uint) -> Code {
    // SAFETY: as above.
    unsafe { store(event, in_context(|context| Ok(context.create_event()))) }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    in_context(|context| {
        context.check_stream(stream)?;
        context.event(event)?.record();
        Ok(())
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    in_context(|context| context.event(event).map(drop)).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> Code {
    cuEventSynchronize(event)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) -> Code {
    let answer = in_context(|context| {
        let start = context.event(start)?.recorded()?;
        let end = context.event(end)?.recorded()?;
        Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
    });
    // SAFETY: as above.
    unsafe { store(milliseconds, answer) }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    in_context(|context| context.destroy_event(event)).into()
}
