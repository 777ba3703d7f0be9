//! Streams and events.

use std::ffi::{c_int, c_uint};

use super::{Handle, store};
use crate::code::Code;
use crate::console::Call;
use crate::driver::in_context;

/// `CU_STREAM_NON_BLOCKING`: the stream does not wait for the legacy stream, nor that for it.
const NON_BLOCKING: c_uint = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Code {
    let answer = in_context(|context, _| match flags {
        0 | NON_BLOCKING => Ok(context.create_stream(flags == 0)),
        _ => Err(Code::INVALID_VALUE),
    });
    // SAFETY: this function's contract is `store`'s.
    unsafe { store(stream, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, _priority: c_int) -> Code {
    // SAFETY: the contracts are the same.
    unsafe { cuStreamCreate(stream, flags) }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    in_context(|context, _| context.streams.destroy(stream)).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    in_context(|context, console| {
        console.allow(Call::Wait)?;
        context.streams.refuse_wait(stream)?;
        context.finish_stream(console, stream)
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    in_context(|context, console| {
        context.streams.refuse_wait(stream)?;
        let tail = context.streams.tail(stream)?;
        context.ask(console, &tail)
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> Code {
    in_context(|context, _| context.streams.wait(stream, event)).into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut Handle, _flags: c_uint) -> Code {
    // SAFETY: as above.
    unsafe { store(event, in_context(|context, _| Ok(context.create_event()))) }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    in_context(|context, console| {
        console.allow(Call::Record)?;
        context.record(console, event, stream)
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    in_context(|context, console| {
        console.allow(Call::Wait)?;
        let point = context.streams.point(event)?;
        context.streams.refuse_unseen()?;
        context.finish(console, point.as_slice())
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: Handle) -> Code {
    in_context(|context, console| {
        let point = context.streams.point(event)?;
        context.streams.refuse_unseen()?;
        context.ask(console, point.as_slice())
    })
    .into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) -> Code {
    let answer = in_context(|context, _| {
        let start = context.streams.reached(start)?;
        let end = context.streams.reached(end)?;
        Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
    });
    // SAFETY: as above.
    unsafe { store(milliseconds, answer) }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    in_context(|context, _| context.streams.destroy_event(event)).into()
}
