//! The weighted sum of what a token's experts gave.

use cudarc::driver::{CudaFunction, CudaView, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During, require_size, require_supported};
use super::nvrtc::{KernelSource, Program};
use super::route_experts::MAX_EXPERTS;
use super::rows::{Rows, RowsMut, require_rows, require_width, row_names, vector};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CombineExpertsShape {
    /// Elements of a row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
    /// Experts of a token: 1 to 1024.
    pub chosen: usize,
}

const THREADS: usize = 128;

impl CombineExpertsShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)?;
        require_supported("chosen", self.chosen, (1..=MAX_EXPERTS).contains(&self.chosen), "1 to 1024")
    }
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct CombineExpertsArgs<'a> {
    /// `[tokens, chosen, width]`: what each expert gave.
    pub rows: Rows<'a>,
    /// `[tokens, chosen]`.
    pub weights: CudaView<'a, f32>,
    /// Tokens to compute.
    pub tokens: usize,
    /// `[tokens, width]`: the sum in the order of the choices, computed in f32.
    pub output: RowsMut<'a>,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct CombineExperts {
    shape: CombineExpertsShape,
    function: CudaFunction,
    /// The compiler's messages.
    pub log: String,
}

impl CombineExperts {
    /// The kernel's source.
    pub const SOURCE: KernelSource =
        KernelSource::embedded("combine_experts.cu", include_str!("../../cu/combine_experts.cu"));

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: CombineExpertsShape) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(
        device: &CudaDevice,
        shape: CombineExpertsShape,
        source: KernelSource,
    ) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(shape, source)?)?;
        Ok(Self { shape, function: module.function("combine_experts")?, log: module.log })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: CombineExpertsShape, source: KernelSource) -> Result<Program, CudaError> {
        shape.check()?;
        let width = shape.width;
        Ok(Program { source, defines: vec![("WIDTH", width), ("VECTOR", vector(width)), ("CHOSEN", shape.chosen)] })
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &CombineExpertsShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches the weighted sum of what experts gave.
    pub fn combine_experts(&self, kernel: &CombineExperts, args: CombineExpertsArgs<'_>) -> Result<(), CudaError> {
        let CombineExpertsShape { width, chosen } = kernel.shape;
        let CombineExpertsArgs { rows, weights, tokens, mut output } = args;
        require_rows(tokens)?;
        self.check_rows(&row_names!("rows"), &rows.values, rows.stride, (tokens * chosen, width), 1)?;
        self.check_rows(&row_names!("output"), &output.values, output.stride, (tokens, width), 1)?;
        require_size("length of weights", weights.len(), tokens * chosen)?;
        if tokens == 0 {
            return Ok(());
        }
        let strides = [rows.stride as i64, output.stride as i64];
        let mut launch = self.launch_builder(&kernel.function);
        launch.arg(&rows.values).arg(&strides[0]).arg(&weights).arg(&mut output.values).arg(&strides[1]);
        let pieces = width / vector(width);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (tokens as u32, pieces.div_ceil(THREADS) as u32, 1),
                block_dim: (THREADS as u32, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching the sum over experts")?;
        Ok(())
    }
}
