//! The topology as built: ranks and groups of one running process. Not configuration, and no accessor in common with it.
//!
//! `parallel.tp_size` is what was asked for; a [`Topology`] is what there is. It is built from a published context, and
//! only if every identity between the two holds.

use std::fmt;

use crate::args::ArgsPin;
use crate::parallel::ParallelBag;

/// The members of a process group, by world rank.
pub type Group = Vec<usize>;

/// Where a launcher put this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Rank among all processes, those of the engine joined included.
    pub world_rank: usize,
    /// Rank among replicas, if there are several.
    pub dp_rank: Option<usize>,
    /// The device of this process.
    pub gpu_id: Option<usize>,
}

/// Where this process stands in each kind of parallelism.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each name says which rank it is")]
pub struct Ranks {
    pub tp: usize,
    pub pp: usize,
    pub moe_ep: usize,
    pub moe_dp: usize,
    pub moe_tp: usize,
    pub attn_tp: usize,
    pub attn_cp: usize,
    pub attn_dp: usize,
    pub dcp: usize,
    pub attn_dcp: usize,
    pub dp: Option<usize>,
    pub launch_world: usize,
}

/// The process groups that were built.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "each name says which group it is")]
pub struct Groups {
    pub world: Group,
    pub tp: Group,
    pub pp: Group,
    pub moe_ep: Group,
    pub moe_dp: Group,
    pub moe_tp: Group,
    pub attn_tp: Group,
    pub attn_cp: Group,
    pub shared_experts_tp: Group,
    pub dcp: Group,
}

/// The ranks and groups of a running process.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// 12 ranks.
    pub ranks: Ranks,
    /// 10 groups.
    pub groups: Groups,
    /// The device of this process.
    pub gpu_id: Option<usize>,
}

/// Every identity that does not hold, each with its numbers.
#[derive(Debug, PartialEq)]
pub struct Mismatch {
    /// What was being done.
    pub operation: String,
    /// One line per identity.
    pub violations: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the topology does not fit the configuration", self.operation)?;
        self.violations.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

impl std::error::Error for Mismatch {}

impl Ranks {
    /// The ranks that follow from a place in the world.
    ///
    /// Inside tensor parallelism the order is attention DP, CP, TP, the last one fastest; for experts it is DP, EP, TP.
    #[must_use]
    pub fn of(widths: &ParallelBag, placement: &Placement) -> Self {
        let launched = placement.world_rank.saturating_sub(widths.ep_join_rank_offset());
        let (tp, pp) = (launched % widths.tp_size(), launched / widths.tp_size());
        let (attn_tp_size, attn_cp_size) = (*widths.attn_tp_size(), widths.attn_cp_size());
        let (moe_tp_size, moe_ep_size) = (*widths.moe_tp_size(), *widths.moe_ep_size());
        let attn_cp = tp / attn_tp_size % attn_cp_size;
        // A replica of experts narrower than a context-parallel group follows that group.
        let moe_dp = if widths.moe_dp_size() < attn_cp_size { attn_cp } else { tp / moe_tp_size / moe_ep_size };
        Self {
            tp,
            pp,
            moe_ep: tp / moe_tp_size % moe_ep_size,
            moe_dp,
            moe_tp: tp % moe_tp_size,
            attn_tp: tp % attn_tp_size,
            attn_cp,
            attn_dp: tp / attn_tp_size / attn_cp_size,
            dcp: tp % widths.dcp_size(),
            attn_dcp: if *widths.dcp_enabled() { tp % widths.dcp_size() } else { 0 },
            dp: placement.dp_rank,
            launch_world: placement.world_rank,
        }
    }
}

impl Topology {
    /// The topology of a process, if it fits the published configuration.
    ///
    /// # Errors
    /// Every identity that does not hold.
    pub fn build(now: &ArgsPin, placement: &Placement, groups: Groups) -> Result<Self, Mismatch> {
        let ranks = Ranks::of(now.parallel(), placement);
        Self::stated("building the topology", now, ranks, groups, placement.gpu_id)
    }

    /// A topology whose ranks are stated, for a runner that lays itself out.
    ///
    /// # Errors
    /// Every identity that does not hold.
    pub fn stated(
        operation: &str,
        now: &ArgsPin,
        ranks: Ranks,
        groups: Groups,
        gpu_id: Option<usize>,
    ) -> Result<Self, Mismatch> {
        let violations = violations(now.parallel(), &ranks, &groups);
        if violations.is_empty() {
            Ok(Self { ranks, groups, gpu_id })
        } else {
            Err(Mismatch { operation: operation.to_owned(), violations })
        }
    }
}

fn violations(widths: &ParallelBag, ranks: &Ranks, groups: &Groups) -> Vec<String> {
    let mut found = Vec::new();
    let (attn_tp_size, attn_dp_size, attn_cp_size) =
        (*widths.attn_tp_size(), widths.attn_dp_size(), widths.attn_cp_size());
    let moe_ep_size = *widths.moe_ep_size();
    let bounded = [
        ("tp", ranks.tp, widths.tp_size()),
        ("pp", ranks.pp, widths.pp_size()),
        ("attn_tp", ranks.attn_tp, attn_tp_size),
        ("attn_dp", ranks.attn_dp, attn_dp_size),
        ("attn_cp", ranks.attn_cp, attn_cp_size),
        ("moe_ep", ranks.moe_ep, moe_ep_size),
    ];
    found.extend(
        bounded
            .iter()
            .filter(|(_, rank, size)| rank >= size)
            .map(|(name, rank, size)| format!("{name}_rank = {rank} is not below {name}_size = {size}")),
    );
    // That the widths of attention and of experts multiply to tp_size is a rule of the settings, so it holds here.
    let composed = (ranks.attn_dp * attn_cp_size + ranks.attn_cp) * attn_tp_size + ranks.attn_tp;
    if ranks.tp != composed {
        found.push(format!(
            "tp_rank = {} is not (attn_dp_rank·attn_cp + attn_cp_rank)·attn_tp + attn_tp_rank = ({}·{attn_cp_size} + \
             {})·{attn_tp_size} + {}",
            ranks.tp, ranks.attn_dp, ranks.attn_cp, ranks.attn_tp
        ));
    }
    let built = [
        ("tp", &groups.tp, widths.tp_size()),
        ("pp", &groups.pp, widths.pp_size()),
        ("attn_tp", &groups.attn_tp, attn_tp_size),
        ("attn_cp", &groups.attn_cp, attn_cp_size),
        ("moe_ep", &groups.moe_ep, moe_ep_size),
    ];
    found.extend(
        built
            .iter()
            .filter(|(_, group, size)| group.len() != *size)
            .map(|(name, group, size)| format!("group {name} has {} members, {name}_size = {size}", group.len())),
    );
    found
}
