//! Drawing the next token.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, require_size};
use super::kernel::{Grid, KernelCode, SizelessKernel, start};
use super::nvrtc::KernelSource;
use super::shape_logits::check_logits;

const THREADS: usize = 1024;

/// The arguments of one launch, on the device. What is not as described for a row gives a token of the row that was
/// possible, or none; never one outside the vocabulary.
#[derive(Debug)]
pub struct SampleArgs<'a> {
    /// `[rows, stride]`, of which the first `vocabulary` logits of every row are looked at.
    pub logits: CudaView<'a, f32>,
    /// Logits from the start of a row to that of the next.
    pub stride: usize,
    /// Tokens that can be chosen.
    pub vocabulary: usize,
    /// `[rows]`: what logits are divided by. At 0 the likeliest token is taken, of several the first.
    pub temperature: CudaView<'a, f32>,
    /// `[rows]`: how many of the likeliest tokens stay; 0 for all.
    pub top_k: CudaView<'a, i32>,
    /// `[rows]`: of those, the fewest likeliest stay that have this share of their probability; 1 for all.
    pub top_p: CudaView<'a, f32>,
    /// `[rows]`: of those, the ones stay that are this likely as a share of the likeliest one's probability; 0 for all.
    pub min_p: CudaView<'a, f32>,
    /// `[rows]`: where the random numbers of a row's request start.
    pub seeds: CudaView<'a, u64>,
    /// `[rows]`: the position of the token that is chosen. With the seed it decides the random number.
    pub positions: CudaView<'a, i32>,
    /// `[rows]`: the token. -1 where a logit is NaN or infinity, or all are minus infinity.
    pub tokens: CudaViewMut<'a, i32>,
}

/// The kernel's source.
#[derive(Debug)]
pub struct SampleCode;

impl KernelCode for SampleCode {
    const SOURCE: KernelSource = KernelSource::embedded("sample.cu", include_str!("../../cu/sample.cu"));
    const FUNCTIONS: &'static [&'static str] = &["sample"];
}

/// The kernel, compiled and loaded on a device.
pub type Sample = SizelessKernel<SampleCode>;

impl CudaDevice {
    /// Launches the draw of the next tokens.
    pub fn sample(&self, kernel: &Sample, args: SampleArgs<'_>) -> Result<(), CudaError> {
        let SampleArgs { logits, stride, vocabulary, temperature, top_k, top_p, min_p, seeds, positions, mut tokens } =
            args;
        let rows = tokens.len();
        check_logits(logits.len(), rows, stride, vocabulary)?;
        for (what, length) in [
            ("length of temperature", temperature.len()),
            ("length of top_k", top_k.len()),
            ("length of top_p", top_p.len()),
            ("length of min_p", min_p.len()),
            ("length of seeds", seeds.len()),
            ("length of positions", positions.len()),
        ] {
            require_size(what, length, rows)?;
        }
        if rows == 0 {
            return Ok(());
        }
        let (stride, vocabulary) = (stride as i64, vocabulary as i32);
        let mut launch = self.launch_builder(kernel.function(0))?;
        launch
            .arg(&logits)
            .arg(&stride)
            .arg(&vocabulary)
            .arg(&temperature)
            .arg(&top_k)
            .arg(&top_p)
            .arg(&min_p)
            .arg(&seeds)
            .arg(&positions)
            .arg(&mut tokens);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, Grid::new([rows, 1, 1], THREADS), "launching the draw of tokens") }
    }
}
