//! The weighted sum of what a token's experts gave.

use cudarc::driver::{CudaView, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require_size, require_supported};
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, start};
use super::nvrtc::KernelSource;
use super::route_experts::MAX_EXPERTS;
use super::rows::{Rows, RowsMut, require_rows, require_width, row_macros, row_names};

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CombineExpertsShape {
    /// Elements of a row: 1 to 1048576. A multiple of 8 is read and written 16 bytes at a time.
    pub width: usize,
    /// Experts of a token: 1 to 1024.
    pub chosen: usize,
}

impl CombineExpertsShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_width("width", self.width)?;
        require_supported("chosen", self.chosen, (1..=MAX_EXPERTS).contains(&self.chosen), "1 to 1024")
    }
}

impl KernelCode for CombineExpertsShape {
    const SOURCE: KernelSource =
        KernelSource::embedded("combine_experts.cu", include_str!("../../cu/combine_experts.cu"));
    const FUNCTIONS: &'static [&'static str] = &["combine_experts"];
}

impl KernelShape for CombineExpertsShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        Ok([row_macros(self.width), vec![("CHOSEN", self.chosen)]].concat())
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
pub type CombineExperts = Kernel<CombineExpertsShape>;

impl CudaDevice {
    /// Launches the weighted sum of what experts gave.
    pub fn combine_experts(&self, kernel: &CombineExperts, args: CombineExpertsArgs<'_>) -> Result<(), CudaError> {
        let CombineExpertsShape { width, chosen } = *kernel.shape();
        let CombineExpertsArgs { rows, weights, tokens, mut output } = args;
        require_rows(tokens)?;
        self.check_rows(&row_names!("rows"), &rows.values, rows.stride, (tokens * chosen, width), 1)?;
        self.check_rows(&row_names!("output"), &output.values, output.stride, (tokens, width), 1)?;
        require_size("length of weights", weights.len(), tokens * chosen)?;
        if tokens == 0 {
            return Ok(());
        }
        let strides = [rows.stride as i64, output.stride as i64];
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch.arg(&rows.values).arg(&strides[0]).arg(&weights).arg(&mut output.values).arg(&strides[1]);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::of_pieces(tokens, width), "launching the sum over experts") }
    }
}
