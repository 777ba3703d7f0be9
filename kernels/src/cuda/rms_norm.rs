//! Root-mean-square normalisation, with or without the addition before it.

use cudarc::driver::PushKernelArg;

use super::device::CudaDevice;
use super::error::CudaError;
use super::floats::Floats;
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;
use super::rows::{Rows, RowsMut, require_rows, require_width, row_macros, row_names, threads};

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

impl KernelCode for RmsNormShape {
    const SOURCE: KernelSource = KernelSource::embedded("rms_norm.cu", include_str!("../../cu/rms_norm.cu"));
    const FUNCTIONS: &'static [&'static str] =
        &["rms_norm_bf16", "rms_norm_f32", "add_rms_norm_bf16", "add_rms_norm_f32"];
}

impl KernelShape for RmsNormShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok([row_macros(self.width), vec![("THREADS", threads(self.width))]].concat())
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
pub type RmsNorm = Kernel<RmsNormShape>;

impl CudaDevice {
    /// Launches a normalisation.
    pub fn rms_norm(&self, kernel: &RmsNorm, args: RmsNormArgs<'_>) -> Result<(), CudaError> {
        let size = (args.rows, kernel.shape().width);
        require_rows(args.rows)?;
        self.check_rows(&row_names!("input"), &args.input.values, args.input.stride, size, 1)?;
        self.check_rows(&row_names!("output"), &args.output.values, args.output.stride, size, 1)?;
        if let Some(residual) = &args.residual {
            self.check_rows(&row_names!("residual"), &residual.values, residual.stride, size, 1)?;
        }
        let names = ("length of weight", "the address of weight modulo 16");
        self.check_row_weight(names, &args.weight, kernel.shape().width)?;
        if args.rows == 0 {
            return Ok(());
        }
        let RmsNormArgs { input, mut residual, weight, epsilon, rows, mut output } = args;
        let function = kernel.function(2 * usize::from(residual.is_some()) + usize::from(weight.is_f32()));
        let strides = [input.stride, residual.as_ref().map_or(0, |rows| rows.stride), output.stride];
        let strides = strides.map(|stride| stride as i64);
        let nowhere = 0_u64;
        let mut launch = self.launch_builder(function)?;
        launch.arg(&input.values).arg(&strides[0]);
        match &mut residual {
            Some(residual) => launch.arg(&mut residual.values),
            None => launch.arg(&nowhere),
        };
        launch.arg(&strides[1]);
        weight.push(&mut launch);
        launch.arg(&mut output.values).arg(&strides[2]).arg(&epsilon);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::new([rows, 1, 1], threads(size.1)), "launching a normalisation") }
    }
}
