//! The gated activation of a feed-forward block.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During};
use super::nvrtc::{KernelSource, Program};
use super::rows::{Rows, RowsMut, require_rows, require_width, row_names, vector};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiluMulShape {
    /// Elements of an output row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
}

const THREADS: usize = 128;

impl SiluMulShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)
    }
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct SiluMulArgs<'a> {
    /// `[rows, 2 * width]`: the gates of a row, then its ups.
    pub gate_up: Rows<'a>,
    /// Rows to compute.
    pub rows: usize,
    /// `[rows, width]`.
    pub output: RowsMut<'a>,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct SiluMul {
    shape: SiluMulShape,
    function: CudaFunction,
    /// The compiler's messages.
    pub log: String,
}

impl SiluMul {
    /// The kernel's source.
    pub const SOURCE: KernelSource = KernelSource::embedded("silu_mul.cu", include_str!("../../cu/silu_mul.cu"));

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: SiluMulShape) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, shape: SiluMulShape, source: KernelSource) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(shape, source)?)?;
        Ok(Self { shape, function: module.function("silu_mul")?, log: module.log })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: SiluMulShape, source: KernelSource) -> Result<Program, CudaError> {
        shape.check()?;
        Ok(Program { source, defines: vec![("WIDTH", shape.width), ("VECTOR", vector(shape.width))] })
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &SiluMulShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches the activation.
    pub fn silu_mul(&self, kernel: &SiluMul, args: SiluMulArgs<'_>) -> Result<(), CudaError> {
        let width = kernel.shape.width;
        let SiluMulArgs { gate_up, rows, mut output } = args;
        require_rows(rows)?;
        self.check_rows(&row_names!("gate_up"), &gate_up.values, gate_up.stride, (rows, width), 2)?;
        self.check_rows(&row_names!("output"), &output.values, output.stride, (rows, width), 1)?;
        if rows == 0 {
            return Ok(());
        }
        let strides = [gate_up.stride as i64, output.stride as i64];
        let mut launch = self.launch_builder(&kernel.function);
        launch.arg(&gate_up.values).arg(&strides[0]).arg(&mut output.values).arg(&strides[1]);
        let pieces = width / vector(width);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (rows as u32, pieces.div_ceil(THREADS) as u32, 1),
                block_dim: (THREADS as u32, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching a gated activation")?;
        Ok(())
    }
}
