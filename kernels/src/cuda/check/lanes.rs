//! Kernels that give every lane some words and take some back, to see what single instructions do.

use cudarc::driver::{LaunchConfig, PushKernelArg};

use crate::cuda::device::{CudaDevice, LoadedFunction};
use crate::cuda::error::{CudaError, require};
use crate::cuda::nvrtc::{KernelSource, Program};

/// Lanes of a block.
const LANES: usize = 32;

/// A kernel `run(const unsigned *in, unsigned *out)` of blocks of one warp. Lane `i` of all reads the words from
/// `in[i * inputs]` on and writes those from `out[i * outputs]` on.
#[derive(Debug)]
pub struct LaneKernel {
    function: LoadedFunction,
    inputs: usize,
    outputs: usize,
}

impl LaneKernel {
    /// Compiles a source that reads `inputs` words and writes `outputs`.
    pub fn compile(
        device: &CudaDevice,
        source: KernelSource,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, CudaError> {
        let module = device.load(&Program { source, defines: Vec::new() })?;
        Ok(Self { function: module.function("run")?, inputs, outputs })
    }
}

impl CudaDevice {
    /// What the lanes make of `words`, which are for whole warps.
    pub fn run_lanes(&self, kernel: &LaneKernel, words: &[u32]) -> Result<Vec<u32>, CudaError> {
        let of_warp = LANES * kernel.inputs;
        require("words", words.len(), words.len().is_multiple_of(of_warp), || format!("a multiple of {of_warp}"))?;
        let warps = words.len() / of_warp;
        if warps == 0 {
            return Ok(Vec::new());
        }
        let input = self.upload(words)?;
        let mut output = self.zeros::<u32>(warps * LANES * kernel.outputs)?;
        let mut launch = self.launch_builder(&kernel.function)?;
        launch.arg(&input).arg(&mut output);
        // SAFETY: both buffers have the words of as many lanes as are launched.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (warps as u32, 1, 1),
                block_dim: (LANES as u32, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .map_err(|source| CudaError::Driver { action: "launching lanes", source })?;
        self.download(&output)
    }
}
