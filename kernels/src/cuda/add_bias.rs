//! A bias for every row of a matrix product.

use cudarc::driver::PushKernelArg;

use super::device::CudaDevice;
use super::error::CudaError;
use super::floats::Floats;
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;
use super::rows::{RowsMut, require_rows, require_width, row_macros, row_names};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddBiasShape {
    /// Elements of a row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
}

impl AddBiasShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)
    }
}

impl KernelCode for AddBiasShape {
    const SOURCE: KernelSource = KernelSource::embedded("add_bias.cu", include_str!("../../cu/add_bias.cu"));
    const FUNCTIONS: &'static [&'static str] = &["add_bias_bf16", "add_bias_f32"];
}

impl KernelShape for AddBiasShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok(row_macros(self.width))
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
pub type AddBias = Kernel<AddBiasShape>;

impl CudaDevice {
    /// Launches the addition of a bias.
    pub fn add_bias(&self, kernel: &AddBias, args: AddBiasArgs<'_>) -> Result<(), CudaError> {
        let width = kernel.shape().width;
        let AddBiasArgs { mut values, rows, bias } = args;
        require_rows(rows)?;
        self.check_rows(&row_names!("values"), &values.values, values.stride, (rows, width), 1)?;
        self.check_row_weight(("length of bias", "the address of bias modulo 16"), &bias, width)?;
        if rows == 0 {
            return Ok(());
        }
        let stride = values.stride as i64;
        let mut launch = self.launch_builder(kernel.function(usize::from(bias.is_f32())));
        launch.arg(&mut values.values).arg(&stride);
        bias.push(&mut launch);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::of_pieces(rows, width), "launching the addition of a bias") }
    }
}
