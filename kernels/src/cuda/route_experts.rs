//! Which experts each token goes to.

use cudarc::driver::{CudaFunction, CudaView, CudaViewMut, LaunchConfig, PushKernelArg};

use super::device::CudaDevice;
use super::error::{CudaError, During, require, require_size, require_supported};
use super::floats::Floats;
use super::nvrtc::{KernelSource, Program};
use super::rows::require_rows;

/// The sizes that the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteExpertsShape {
    /// Experts to choose from: 1 to 1024.
    pub experts: usize,
    /// Experts that each token goes to, up to all.
    pub chosen: usize,
    /// Whether the weights of a token sum to one; otherwise each is its probability among all experts.
    pub renormalise: bool,
}

/// The most experts that the kernels for experts take.
pub(super) const MAX_EXPERTS: usize = 1024;
const WARPS: usize = 4;

impl RouteExpertsShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        require_supported("experts", self.experts, (1..=MAX_EXPERTS).contains(&self.experts), "1 to 1024")?;
        require_supported("chosen", self.chosen, (1..=self.experts).contains(&self.chosen), "1 to experts")
    }
}

/// The arguments of one launch, on the device.
#[derive(Debug)]
pub struct RouteExpertsArgs<'a> {
    /// `[tokens, stride]`, of which the first `experts` are looked at. NaN counts as minus infinity.
    pub logits: Floats<'a>,
    /// Logits from the start of a token's row to that of the next.
    pub stride: usize,
    /// `[tokens]`. A token with a negative position is padding: its experts are -1 and its weights 0.
    pub positions: CudaView<'a, i32>,
    /// `[tokens, chosen]`: the likeliest first, of equally likely ones that of the lower number.
    pub experts: CudaViewMut<'a, i32>,
    /// `[tokens, chosen]`: how much each of them counts. All 0 where every logit is minus infinity.
    pub weights: CudaViewMut<'a, f32>,
}

/// The kernel, compiled for a shape and loaded on a device.
#[derive(Debug)]
pub struct RouteExperts {
    shape: RouteExpertsShape,
    /// By logits, bf16 and f32.
    functions: [CudaFunction; 2],
    /// The compiler's messages.
    pub log: String,
}

impl RouteExperts {
    /// The kernel's source.
    pub const SOURCE: KernelSource =
        KernelSource::embedded("route_experts.cu", include_str!("../../cu/route_experts.cu"));

    /// Compiles the kernel for a shape.
    pub fn compile(device: &CudaDevice, shape: RouteExpertsShape) -> Result<Self, CudaError> {
        Self::compile_source(device, shape, Self::SOURCE)
    }

    /// Compiles another text of the kernel, such as a deliberately broken one in a test of the checks.
    pub fn compile_source(
        device: &CudaDevice,
        shape: RouteExpertsShape,
        source: KernelSource,
    ) -> Result<Self, CudaError> {
        let module = device.load(&Self::program(shape, source)?)?;
        let functions = [module.function("route_experts_bf16")?, module.function("route_experts_f32")?];
        Ok(Self { shape, functions, log: module.log })
    }

    /// A source of this kernel with the sizes of a shape.
    pub fn program(shape: RouteExpertsShape, source: KernelSource) -> Result<Program, CudaError> {
        shape.check()?;
        let renormalise = usize::from(shape.renormalise);
        let defines = vec![("EXPERTS", shape.experts), ("CHOSEN", shape.chosen), ("RENORMALISE", renormalise)];
        Ok(Program { source, defines })
    }

    /// The shape it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &RouteExpertsShape {
        &self.shape
    }
}

impl CudaDevice {
    /// Launches the choice of experts.
    pub fn route_experts(&self, kernel: &RouteExperts, args: RouteExpertsArgs<'_>) -> Result<(), CudaError> {
        let RouteExpertsShape { experts: count, chosen, .. } = kernel.shape;
        let RouteExpertsArgs { logits, stride, positions, mut experts, mut weights } = args;
        let tokens = positions.len();
        require_rows(tokens)?;
        require("stride of logits", stride, stride >= count, || format!("at least {count}"))?;
        let needed = tokens.checked_sub(1).map_or(Some(0), |others| others.checked_mul(stride)?.checked_add(count));
        require("length of logits", logits.len(), needed.is_some_and(|needed| needed <= logits.len()), || {
            format!("at least {tokens} rows of {count}, each {stride} after the one before")
        })?;
        require_size("length of experts", experts.len(), tokens * chosen)?;
        require_size("length of weights", weights.len(), tokens * chosen)?;
        if tokens == 0 {
            return Ok(());
        }
        let (stride, token_count) = (stride as i64, tokens as i32);
        let mut launch = self.launch_builder(&kernel.functions[usize::from(logits.is_f32())]);
        logits.push(&mut launch);
        launch.arg(&stride).arg(&positions).arg(&token_count).arg(&mut experts).arg(&mut weights);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe {
            launch.launch(LaunchConfig {
                grid_dim: (tokens.div_ceil(WARPS) as u32, 1, 1),
                block_dim: (WARPS as u32 * 32, 1, 1),
                shared_mem_bytes: 0,
            })
        }
        .during("launching the choice of experts")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_shapes_say_what_is_supported() {
        let good = RouteExpertsShape { experts: 128, chosen: 8, renormalise: true };
        good.check().unwrap();
        let bad = [
            (RouteExpertsShape { experts: 0, ..good }, "experts is 0; supported: 1 to 1024"),
            (RouteExpertsShape { experts: 1025, ..good }, "experts is 1025; supported: 1 to 1024"),
            (RouteExpertsShape { chosen: 129, ..good }, "chosen is 129; supported: 1 to experts"),
            (RouteExpertsShape { chosen: 0, ..good }, "chosen is 0; supported: 1 to experts"),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }
}
