//! Which experts each token goes to.

use cudarc::driver::{CudaView, CudaViewMut, PushKernelArg};

use super::device::{CudaDevice, LoadedFunction};
use super::error::{CudaError, require_size, require_supported};
use super::floats::Floats;
use super::kernel::{Grid, Kernel, KernelCode, KernelShape, push_optional, start};
use super::nvrtc::KernelSource;
use super::rows::require_logits;

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

/// The sizes of a choice by sigmoid, within groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteGroupsShape {
    /// Experts to choose from, how many, and whether their weights sum to one; otherwise each is the expert's score.
    pub experts: RouteExpertsShape,
    /// Groups of as many experts each, 1 to 32, of which each has two at least unless there is but one.
    pub groups: usize,
    /// Groups that a token's experts are chosen from, up to all.
    pub chosen_groups: usize,
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

    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        let renormalise = usize::from(self.renormalise);
        Ok(vec![("EXPERTS", self.experts), ("CHOSEN", self.chosen), ("RENORMALISE", renormalise)])
    }
}

impl RouteGroupsShape {
    /// Says what is wrong with a shape that the kernel does not support.
    pub fn check(&self) -> Result<(), CudaError> {
        self.experts.check()?;
        let RouteExpertsShape { experts, chosen, .. } = self.experts;
        let Self { groups, chosen_groups, .. } = *self;
        let holds =
            (1..=32).contains(&groups) && experts.is_multiple_of(groups) && (groups == 1 || experts >= 2 * groups);
        require_supported("groups", groups, holds, "1 to 32, of as many experts each, two or more")?;
        require_supported("chosen_groups", chosen_groups, (1..=groups).contains(&chosen_groups), "1 to groups")?;
        let most = chosen_groups * (experts / groups);
        require_supported("chosen", chosen, chosen <= most, "up to the experts of chosen_groups groups")
    }
}

const SOURCE: KernelSource = KernelSource::embedded("route_experts.cu", include_str!("../../cu/route_experts.cu"));
const FUNCTIONS: &[&str] = &["route_experts"];

impl KernelCode for RouteExpertsShape {
    const SOURCE: KernelSource = SOURCE;
    const FUNCTIONS: &'static [&'static str] = FUNCTIONS;
}

impl KernelCode for RouteGroupsShape {
    const SOURCE: KernelSource = SOURCE;
    const FUNCTIONS: &'static [&'static str] = FUNCTIONS;
}

impl KernelShape for RouteExpertsShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        let mut macros = self.macros()?;
        macros.extend([("SIGMOID", 0), ("GROUPS", 1), ("CHOSEN_GROUPS", 1)]);
        Ok(macros)
    }
}

impl KernelShape for RouteGroupsShape {
    fn macros(&self) -> Result<Vec<(&'static str, usize)>, CudaError> {
        self.check()?;
        let mut macros = self.experts.macros()?;
        macros.extend([("SIGMOID", 1), ("GROUPS", self.groups), ("CHOSEN_GROUPS", self.chosen_groups)]);
        Ok(macros)
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

/// What a choice by sigmoid has beside logits.
#[derive(Debug)]
pub struct ExpertScoring<'a> {
    /// `[experts]`, finite: added to scores for the choice, of groups and of experts, and not to weights.
    pub bias: Option<CudaView<'a, f32>>,
    /// A factor of all weights.
    pub scale: f32,
}

/// The kernel, compiled for a shape and loaded on a device.
pub type RouteExperts = Kernel<RouteExpertsShape>;

/// The kernel for a choice by sigmoid.
pub type RouteGroups = Kernel<RouteGroupsShape>;

impl CudaDevice {
    /// Launches the choice of experts.
    pub fn route_experts(&self, kernel: &RouteExperts, args: RouteExpertsArgs<'_>) -> Result<(), CudaError> {
        self.launch_routing(kernel.function(0), *kernel.shape(), args, None)
    }

    /// Launches the choice of experts by the sigmoid of their logits, within the best groups: those whose two best experts
    /// add up to most, of equal ones those with the lower number.
    pub fn route_groups(
        &self,
        kernel: &RouteGroups,
        args: RouteExpertsArgs<'_>,
        scoring: &ExpertScoring<'_>,
    ) -> Result<(), CudaError> {
        let shape = kernel.shape().experts;
        if let Some(bias) = &scoring.bias {
            require_size("length of bias", bias.len(), shape.experts)?;
        }
        self.launch_routing(kernel.function(0), shape, args, Some(scoring))
    }

    fn launch_routing(
        &self,
        function: &LoadedFunction,
        shape: RouteExpertsShape,
        args: RouteExpertsArgs<'_>,
        scoring: Option<&ExpertScoring<'_>>,
    ) -> Result<(), CudaError> {
        let RouteExpertsShape { experts: count, chosen, .. } = shape;
        let RouteExpertsArgs { logits, stride, positions, mut experts, mut weights } = args;
        let tokens = positions.len();
        require_logits(logits.len(), (tokens, count), stride)?;
        require_size("length of experts", experts.len(), tokens * chosen)?;
        require_size("length of weights", weights.len(), tokens * chosen)?;
        if tokens == 0 {
            return Ok(());
        }
        let (is_f32, stride, token_count) = (i32::from(logits.is_f32()), stride as i64, tokens as i32);
        let mut launch = self.launch_builder(function)?;
        logits.push(&mut launch);
        launch.arg(&is_f32).arg(&stride).arg(&positions).arg(&token_count);
        if let Some(scoring) = scoring {
            push_optional(&mut launch, scoring.bias.as_ref());
            launch.arg(&scoring.scale);
        }
        launch.arg(&mut experts).arg(&mut weights);
        let grid = Grid::new([tokens.div_ceil(WARPS), 1, 1], WARPS * 32);
        // SAFETY: the arguments are the kernel's, in order and type, and every size it relies on has been checked.
        unsafe { start(&mut launch, grid, "launching the choice of experts") }
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
        let good = RouteGroupsShape { experts: good, groups: 8, chosen_groups: 4 };
        good.check().unwrap();
        let experts = RouteExpertsShape { chosen: 65, ..good.experts };
        let groups = "1 to 32, of as many experts each, two or more";
        let bad = [
            (RouteGroupsShape { groups: 0, ..good }, format!("groups is 0; supported: {groups}")),
            (RouteGroupsShape { groups: 64, ..good }, format!("groups is 64; supported: {groups}")),
            (RouteGroupsShape { groups: 12, ..good }, format!("groups is 12; supported: {groups}")),
            (RouteGroupsShape { chosen_groups: 9, ..good }, "chosen_groups is 9; supported: 1 to groups".to_owned()),
            (
                RouteGroupsShape { experts, ..good },
                "chosen is 65; supported: up to the experts of chosen_groups groups".to_owned(),
            ),
        ];
        for (shape, message) in bad {
            assert_eq!(shape.check().unwrap_err().to_string(), message);
        }
    }
}
