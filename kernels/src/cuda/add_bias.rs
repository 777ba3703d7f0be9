//! A bias for every row of a matrix product.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During, require_size};
use super::floats::Floats;
use super::nvrtc::{KernelSource, Program};
use super::rows::{RowsMut, require_rows, require_width, row_names, vector};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddBiasShape {
    /// Elements of a row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
}

const THREADS: usize = 128;

impl AddBiasShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)
    }
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct AddBiasArgs<'a> {
    /// `[rows, width]`, changed in place and rounded to bf16.
    pub values: RowsMut<'a>,
    /// Rows to change.
    pub rows: usize,
    /// `[width]`.
    pub bias: Floats<'a>,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct AddBias {
    shape: AddBiasShape,
    /// By bias, bf16 and f32.
    functions: [CudaFunction; 2],
    /// The compiler's messages.
    pub log: String,
}

impl AddBias {
    /// The kernel's source.
    pub const SOURCE: KernelSource = KernelSource::embedded("add_bias.cu", include_str!("../../cu/add_bias.cu"));

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: AddBiasShape) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, shape: AddBiasShape, source: KernelSource) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(shape, source)?)?;
        let functions = [module.function("add_bias_bf16")?, module.function("add_bias_f32")?];
        Ok(Self { shape, functions, log: module.log })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: AddBiasShape, source: KernelSource) -> Result<Program, CudaError> {
        shape.check()?;
        Ok(Program { source, defines: vec![("WIDTH", shape.width), ("VECTOR", vector(shape.width))] })
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &AddBiasShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches the addition of a bias.
    pub fn add_bias(&self, kernel: &AddBias, args: AddBiasArgs<'_>) -> Result<(), CudaError> {
        let width = kernel.shape.width;
        let AddBiasArgs { mut values, rows, bias } = args;
        require_rows(rows)?;
        self.check_rows(&row_names!("values"), &values.values, values.stride, (rows, width), 1)?;
        require_size("length of bias", bias.len(), width)?;
        if vector(width) > 1 {
            require_size("the address of bias modulo 16", bias.misalignment(self), 0)?;
        }
        if rows == 0 {
            return Ok(());
        }
        let stride = values.stride as i64;
        let mut launch = self.launch_builder(&kernel.functions[usize::from(bias.is_f32())]);
        launch.arg(&mut values.values).arg(&stride);
        bias.push(&mut launch);
        let pieces = width / vector(width);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (rows as u32, pieces.div_ceil(THREADS) as u32, 1),
                block_dim: (THREADS as u32, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching the addition of a bias")?;
        Ok(())
    }
}
