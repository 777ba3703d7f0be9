//! Work of the stream that is written down once and then launched as a whole: one call of the driver instead of one per kernel.

use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode};

use super::device::CudaDevice;
use super::error::{CudaError, During};

/// Captured work of a device.
///
/// It has the addresses of the buffers and the kernels that it was captured with, and is only launched while these are there.
pub struct CudaGraph(cudarc::driver::CudaGraph);

// SAFETY: the driver has no rule about the thread that uses a graph, only that two do not at once, and it is used through
// `&mut` alone. cudarc makes the context current before every call.
unsafe impl Send for CudaGraph {}
// SAFETY: as above; nothing can be done with a shared one.
unsafe impl Sync for CudaGraph {}

impl fmt::Debug for CudaGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CudaGraph")
    }
}

impl CudaDevice {
    /// Writes down what `launch` launches. None of it runs.
    ///
    /// `launch` may neither allocate or free device memory nor wait for the device. If it does, or fails, that is the error, and
    /// the device is as it was before.
    pub fn capture(&self, launch: impl FnOnce() -> Result<(), CudaError>) -> Result<CudaGraph, CudaError> {
        const WHAT: &str = "capturing work";
        // Other threads may use the device meanwhile.
        let (context, stream) = self.context_and_stream();
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).during(WHAT)?;
        let launched = launch();
        let ended = stream.end_capture(CUgraphInstantiate_flags(0)).during(WHAT);
        if launched.is_err() || ended.is_err() {
            // What cudarc could not tell when something was dropped meanwhile; it would be the next call's failure.
            let _ = context.check_err();
        }
        launched?;
        let none = DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        ended?.map(CudaGraph).ok_or(CudaError::Driver { action: WHAT, source: none })
    }

    /// Launches captured work.
    pub fn launch_graph(&self, graph: &mut CudaGraph) -> Result<(), CudaError> {
        graph.0.launch().during("launching captured work")
    }
}
