//! Root-mean-square normalisation, with or without the addition before it.

use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During, require_size};
use super::floats::Floats;
use super::nvrtc::{KernelSource, Program};
use super::rows::{Rows, RowsMut, require_rows, require_width, row_names, threads, vector};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RmsNormShape {
    /// Elements of a row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
}

impl RmsNormShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)
    }
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct RmsNormArgs<'a> {
    /// `[rows, width]`.
    pub input: Rows<'a>,
    /// `[rows, width]`: a residual stream to which the input is added first. The sum, rounded to bf16, is written back and
    /// is what is normalised.
    pub residual: Option<RowsMut<'a>>,
    /// `[width]`.
    pub weight: Floats<'a>,
    /// Added to the mean of the squares.
    pub epsilon: f32,
    /// Rows to normalise.
    pub rows: usize,
    /// `[rows, width]`.
    pub output: RowsMut<'a>,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct RmsNorm {
    shape: RmsNormShape,
    /// By weight, bf16 and f32.
    plain: [CudaFunction; 2],
    /// With the addition.
    adding: [CudaFunction; 2],
    /// The compiler's messages.
    pub log: String,
}

impl RmsNorm {
    /// The kernel's source.
    pub const SOURCE: KernelSource = KernelSource::embedded("rms_norm.cu", include_str!("../../cu/rms_norm.cu"));

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: RmsNormShape) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, shape: RmsNormShape, source: KernelSource) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(shape, source)?)?;
        Ok(Self {
            shape,
            plain: [module.function("rms_norm_bf16")?, module.function("rms_norm_f32")?],
            adding: [module.function("add_rms_norm_bf16")?, module.function("add_rms_norm_f32")?],
            log: module.log,
        })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: RmsNormShape, source: KernelSource) -> Result<Program, CudaError> {
        shape.check()?;
        let width = shape.width;
        let defines = vec![("WIDTH", width), ("VECTOR", vector(width)), ("THREADS", threads(width))];
        Ok(Program { source, defines })
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &RmsNormShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches a normalisation.
    pub fn rms_norm(&self, kernel: &RmsNorm, args: RmsNormArgs<'_>) -> Result<(), CudaError> {
        let size = (args.rows, kernel.shape.width);
        require_rows(args.rows)?;
        self.check_rows(&row_names!("input"), &args.input.values, args.input.stride, size, 1)?;
        self.check_rows(&row_names!("output"), &args.output.values, args.output.stride, size, 1)?;
        if let Some(residual) = &args.residual {
            self.check_rows(&row_names!("residual"), &residual.values, residual.stride, size, 1)?;
        }
        require_size("length of weight", args.weight.len(), kernel.shape.width)?;
        if vector(kernel.shape.width) > 1 {
            require_size("the address of weight modulo 16", args.weight.misalignment(self), 0)?;
        }
        if args.rows == 0 {
            return Ok(());
        }
        let RmsNormArgs { input, mut residual, weight, epsilon, rows, mut output } = args;
        let functions = if residual.is_some() { &kernel.adding } else { &kernel.plain };
        let function = &functions[usize::from(weight.is_f32())];
        let strides = [input.stride, residual.as_ref().map_or(0, |rows| rows.stride), output.stride];
        let strides = strides.map(|stride| stride as i64);
        let nowhere = 0_u64;
        let mut launch = self.launch_builder(function);
        launch.arg(&input.values).arg(&strides[0]);
        match &mut residual {
            Some(residual) => launch.arg(&mut residual.values),
            None => launch.arg(&nowhere),
        };
        launch.arg(&strides[1]);
        weight.push(&mut launch);
        launch.arg(&mut output.values).arg(&strides[2]).arg(&epsilon);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (rows as u32, 1, 1),
                block_dim: (threads(size.1) as u32, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching a normalisation")?;
        Ok(())
    }
}
