//! Capture and graphs.

use std::ffi::{c_int, c_ulonglong};

use super::{Handle, store};
use crate::capture::Mode;
use crate::code::{Answer, Code};
use crate::console::Call;
use crate::driver::in_context;
use crate::streams::CaptureStatus;

/// Flags of an instantiation. A graph here has no memory of its own that a launch could free, and no priorities, so that
/// two of them mean nothing.
const AUTO_FREE_ON_LAUNCH: c_ulonglong = 1;
const DEVICE_LAUNCH: c_ulonglong = 4;
const USE_NODE_PRIORITY: c_ulonglong = 8;

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int) -> Code {
    let mode = match mode {
        0 => Mode::Global,
        1 => Mode::ThreadLocal,
        2 => Mode::Relaxed,
        _ => return Code::INVALID_VALUE,
    };
    in_context(|context, _| context.streams.begin_capture(stream, mode)).into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> Code {
    let answer = in_context(|context, _| {
        let captured = context.streams.end_capture(stream)?;
        Ok(context.keep_graph(captured))
    });
    // SAFETY: this function's contract is `store`'s. Without a graph there is none: 0.
    unsafe {
        if answer.is_err() && !graph.is_null() {
            graph.write(0);
        }
        store(graph, answer)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) -> Code {
    let answer = in_context(|context, _| {
        context.streams.check_asked(stream)?;
        Ok(match context.streams.capture_status(stream)? {
            CaptureStatus::None => 0,
            CaptureStatus::Active => 1,
            CaptureStatus::Invalidated => 2,
        })
    });
    // SAFETY: as above.
    unsafe { store(status, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(runnable: *mut Handle, graph: Handle, flags: c_ulonglong) -> Code {
    let answer = check_flags(flags).and_then(|()| {
        in_context(
            |context, console| {
                if console.refuses_graphs { Err(Code::OUT_OF_MEMORY) } else { context.instantiate(graph) }
            },
        )
    });
    // SAFETY: as above.
    unsafe { store(runnable, answer) }
}

fn check_flags(flags: c_ulonglong) -> Answer {
    if flags & !(AUTO_FREE_ON_LAUNCH | USE_NODE_PRIORITY) == 0 {
        Ok(())
    } else if flags & !(DEVICE_LAUNCH | USE_NODE_PRIORITY) == 0 {
        // The device would have to launch it.
        Err(Code::NOT_SUPPORTED)
    } else {
        Err(Code::INVALID_VALUE)
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(runnable: Handle, stream: Handle) -> Code {
    in_context(|context, console| {
        console.allow(Call::LaunchGraph)?;
        context.launch_graph(console, runnable, stream)
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(runnable: Handle, stream: Handle) -> Code {
    in_context(|context, _| {
        context.streams.check(stream)?;
        context.check_runnable_graph(runnable)
    })
    .into()
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(runnable: Handle) -> Code {
    in_context(|context, _| context.destroy_runnable_graph(runnable)).into()
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> Code {
    in_context(|context, _| context.destroy_graph(graph)).into()
}
