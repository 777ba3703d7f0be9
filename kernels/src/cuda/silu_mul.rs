//! The gated activation of a feed-forward block.

use cudarc::driver::PushKernelArg;

use super::device::CudaDevice;
use super::error::CudaError;
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;
use super::rows::{Rows, RowsMut, require_rows, require_width, row_macros, row_names};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiluMulShape {
    /// Elements of an output row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
}

impl SiluMulShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)
    }
}

impl KernelCode for SiluMulShape {
    const SOURCE: KernelSource = KernelSource::embedded("silu_mul.cu", include_str!("../../cu/silu_mul.cu"));
    const FUNCTIONS: &'static [&'static str] = &["silu_mul"];
}

impl KernelShape for SiluMulShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok(row_macros(self.width))
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
pub type SiluMul = Kernel<SiluMulShape>;

impl CudaDevice {
    /// Launches the activation.
    pub fn silu_mul(&self, kernel: &SiluMul, args: SiluMulArgs<'_>) -> Result<(), CudaError> {
        let width = kernel.shape().width;
        let SiluMulArgs { gate_up, rows, mut output } = args;
        require_rows(rows)?;
        self.check_rows(&row_names!("gate_up"), &gate_up.values, gate_up.stride, (rows, width), 2)?;
        self.check_rows(&row_names!("output"), &output.values, output.stride, (rows, width), 1)?;
        if rows == 0 {
            return Ok(());
        }
        let strides = [gate_up.stride as i64, output.stride as i64];
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&gate_up.values).arg(&strides[0]).arg(&mut output.values).arg(&strides[1]);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::of_pieces(rows, width), "launching a gated activation") }
    }
}
