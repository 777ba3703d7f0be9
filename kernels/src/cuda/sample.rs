//! Drawing the next token.

use cudarc::driver::{CudaFunction, CudaView, CudaViewMut, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During, require_size};
use super::nvrtc::{KernelSource, Program};
use super::shape_logits::check_logits;

const THREADS: u32 = 1024;

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

/// The kernel, compiled and loaded on a device.
#[derive(Debug)]
pub struct Sample {
    function: CudaFunction,
    /// The compiler's messages.
    pub log: String,
}

impl Sample {
    /// The kernel's source.
    pub const SOURCE: KernelSource = KernelSource::embedded("sample.cu", include_str!("../../cu/sample.cu"));

    /// Compiles the kernel.
    pub fn compile(device: &CudaDevice) -> Result<Self, CudaError> {
        Self::compile_source(device, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, source: KernelSource) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(source))?;
        Ok(Self { function: module.function("sample")?, log: module.log })
    }

    /// A source of this kernel; it has no sizes.
    #[must_use]
    pub fn program(source: KernelSource) -> Program {
        Program { source, defines: Vec::new() }
    }
}

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
        let mut launch = self.launch_builder(&kernel.function);
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
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (rows as u32, 1, 1),
                block_dim: (THREADS, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching the draw of tokens")?;
        Ok(())
    }
}
