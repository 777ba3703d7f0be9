//! The likeliest token of every row of logits.

use cudarc::driver::{CudaViewMut, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require};
use super::floats::Floats;
use super::kernel::{Grid, KernelCode, SizelessKernel, start};
use super::nvrtc::KernelSource;
use super::rows::require_logits;

const THREADS: usize = 512;

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct ArgmaxArgs<'a> {
    /// `[rows, stride]`, of which the first `vocabulary` logits of every row are looked at.
    pub logits: Floats<'a>,
    /// Logits from the start of a row to that of the next.
    pub stride: usize,
    /// Tokens that can be chosen.
    pub vocabulary: usize,
    /// `[rows]`: the token with the highest logit, of several the first. -1 where a logit is NaN or infinity, or all are
    /// minus infinity.
    pub tokens: CudaViewMut<'a, i32>,
}

/// The kernel's source.
#[derive(Debug)]
pub struct ArgmaxCode;

impl KernelCode for ArgmaxCode {
    const SOURCE: KernelSource = KernelSource::embedded("argmax.cu", include_str!("../../cu/argmax.cu"));
    const FUNCTIONS: &'static [&'static str] = &["argmax_bf16", "argmax_f32"];
}

/// The kernel, compiled and loaded on a device.
pub type Argmax = SizelessKernel<ArgmaxCode>;

impl CudaDevice {
    /// Launches the choice of the likeliest tokens.
    pub fn argmax(&self, kernel: &Argmax, args: ArgmaxArgs<'_>) -> Result<(), CudaError> {
        let ArgmaxArgs { logits, stride, vocabulary, mut tokens } = args;
        let rows = tokens.len();
        require("vocabulary", vocabulary, (1..=1 << 30).contains(&vocabulary), || "1 to 1073741824".to_owned())?;
        require_logits(logits.len(), (rows, vocabulary), stride)?;
        if rows == 0 {
            return Ok(());
        }
        let (stride, vocabulary) = (stride as i64, vocabulary as i32);
        let mut launch = self.launch_builder(kernel.function(usize::from(logits.is_f32())))?;
        logits.push(&mut launch);
        launch.arg(&stride).arg(&vocabulary).arg(&mut tokens);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::new([rows, 1, 1], THREADS), "launching the choice of the likeliest tokens") }
    }
}
