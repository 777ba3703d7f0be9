//! Branches, barriers and fences.

use super::{Access, Members, Run, Slot, Table};
use crate::error::{FaultKind, RawFault};
use crate::ty::Ty;

pub(super) fn register(table: &mut Table) {
    for name in ["bra", "bra.uni"] {
        table.add(name, &[Slot::Label], Run::Branch);
    }
    for name in ["ret", "ret.uni", "exit"] {
        table.add(name, &[], Run::Exit);
    }
    table.add("trap", &[], Run::Access(|_, _, _| Err(RawFault::of_warp(FaultKind::Trap, "trap".to_owned()))));
    barriers(table);
    nothing_to_do(table);
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
        Run::Collective(Members::Operand(0), |cx, _, _| {
            cx.block.meet_lanes(cx.core.id);
            Ok(())
        }),
    );
}

/// What orders memory accesses or gives hints: execution here is in order anyway.
fn nothing_to_do(table: &mut Table) {
    let nothing: Access = |_, _, _| Ok(());
    for level in ["cta", "gl", "sys"] {
        table.add(format!("membar.{level}"), &[], Run::Access(nothing));
    }
    for scope in ["cta", "gpu", "sys"] {
        for order in ["sc", "acq_rel"] {
            table.add(format!("fence.{order}.{scope}"), &[], Run::Access(nothing));
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
