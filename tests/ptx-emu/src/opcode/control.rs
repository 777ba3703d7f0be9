//! Branches, barriers and fences.

use super::{Members, Run, Slot, Table};
use crate::error::{FaultKind, RawFault};
use crate::ty::Ty;
use crate::vector::Access;

pub(super) fn register(table: &mut Table) {
    for name in ["bra", "bra.uni"] {
        table.add(name, &[Slot::Label], Run::Branch);
    }
    for name in ["ret", "ret.uni", "exit"] {
        table.add(name, &[], Run::Exit);
    }
    table.add(
        "trap",
        &[],
        Run::Access(Access::plain(|_, _, _| Err(RawFault::of_warp(FaultKind::Trap, "trap".to_owned())))),
    );
    barriers(table);
    fences_and_hints(table);
}

fn barriers(table: &mut Table) {
    for name in [
        "bar.sync",
        "bar.cta.sync",
        "barrier.sync",
        "barrier.sync.aligned",
        "barrier.cta.sync",
        "barrier.cta.sync.aligned",
    ] {
        table.add(name, &[Slot::Int], Run::Barrier);
        table.add(name, &[Slot::Int, Slot::Int], Run::Barrier);
    }
    table.add(
        "bar.warp.sync",
        &[Slot::Src(Ty::B32)],
        Run::Collective(
            Members::Operand(0),
            Access::plain(|cx, _, _| {
                cx.block.meet_lanes(cx.core.id);
                Ok(())
            }),
        ),
    );
}

/// What orders memory accesses or gives hints: execution here is in order anyway, but a fence is told to the watch over
/// races between blocks.
fn fences_and_hints(table: &mut Table) {
    let nothing = Access::plain(|_, _, _| Ok(()));
    let fence = Access::plain(|cx, _, _| {
        cx.block.memory.fence();
        Ok(())
    });
    for (level, run) in [("cta", nothing), ("gl", fence), ("sys", fence)] {
        table.add(format!("membar.{level}"), &[], Run::Access(run));
    }
    for (scope, run) in [("cta", nothing), ("gpu", fence), ("sys", fence)] {
        for order in ["sc", "acq_rel"] {
            table.add(format!("fence.{order}.{scope}"), &[], Run::Access(run));
        }
    }
    for name in ["griddepcontrol.wait", "griddepcontrol.launch_dependents"] {
        table.add(name, &[], Run::Access(nothing));
    }
    table.add("nanosleep.u32", &[Slot::Src(Ty::U32)], Run::Access(nothing));
    for space in ["", ".global"] {
        for level in ["L1", "L2"] {
            table.add(format!("prefetch{space}.{level}"), &[Slot::Addr], Run::Access(nothing));
        }
    }
}
