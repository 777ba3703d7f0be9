//! The likeliest token of every row of logits.

use cudarc::driver::{CudaFunction, CudaViewMut, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During, require};
use super::floats::Floats;
use super::nvrtc::{KernelSource, Program};
use super::rows::require_rows;

const THREADS: u32 = 512;

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

/// The kernel, compiled and loaded on a device.
#[derive(Debug)]
pub struct Argmax {
    /// By logits, bf16 and f32.
    functions: [CudaFunction; 2],
    /// The compiler's messages.
    pub log: String,
}

impl Argmax {
    /// The kernel's source.
    pub const SOURCE: KernelSource = KernelSource::embedded("argmax.cu", include_str!("../../cu/argmax.cu"));

    /// Compiles the kernel.
    pub fn compile(device: &CudaDevice) -> Result<Self, CudaError> {
        Self::compile_source(device, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(device: &CudaDevice, source: KernelSource) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(source))?;
        Ok(Self { functions: [module.function("argmax_bf16")?, module.function("argmax_f32")?], log: module.log })
    }

    /// A source of this kernel; it has no sizes.
    #[must_use]
    pub fn program(source: KernelSource) -> Program {
        Program { source, defines: Vec::new() }
    }
}

impl CudaDevice {
    /// Launches the choice of the likeliest tokens.
    pub fn argmax(&self, kernel: &Argmax, args: ArgmaxArgs<'_>) -> Result<(), CudaError> {
        let ArgmaxArgs { logits, stride, vocabulary, mut tokens } = args;
        let rows = tokens.len();
        require_rows(rows)?;
        require("vocabulary", vocabulary, (1..=1 << 30).contains(&vocabulary), || "1 to 1073741824".to_owned())?;
        require("stride of logits", stride, stride >= vocabulary, || format!("at least {vocabulary}"))?;
        let needed = rows.checked_sub(1).map_or(Some(0), |others| others.checked_mul(stride)?.checked_add(vocabulary));
        require("length of logits", logits.len(), needed.is_some_and(|needed| needed <= logits.len()), || {
            format!("at least {rows} rows of {vocabulary}, each {stride} after the one before")
        })?;
        if rows == 0 {
            return Ok(());
        }
        let (stride, vocabulary) = (stride as i64, vocabulary as i32);
        let mut launch = self.launch_builder(&kernel.functions[usize::from(logits.is_f32())]);
        logits.push(&mut launch);
        launch.arg(&stride).arg(&vocabulary).arg(&mut tokens);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (rows as u32, 1, 1),
                block_dim: (THREADS, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching the choice of the likeliest tokens")?;
        Ok(())
    }
}
