//! `cp.async`: copies from global to shared memory that happen as late as they may, at the wait.

use super::{Run, Slot, Table};
use crate::block::{Cx, Who};
use crate::check::race::Write;
use crate::error::{Checked, FaultKind, RawFault};
use crate::program::Args;
use crate::regs::{LANES, lanes};
use crate::ty::{Space, Ty};

/// Copies that a warp has started.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pending: Vec<Copy>,
    /// Empty between instructions; kept for its capacity.
    later: Vec<Copy>,
    /// Groups that each lane has committed.
    committed: [u32; LANES],
}

#[derive(Debug, Clone, Copy)]
struct Copy {
    lane: u8,
    /// Its group, once committed, is the lane's this-many-th.
    group: u32,
    to: u64,
    from: u64,
    bytes: u8,
    /// Bytes read; zeros fill the rest.
    filled: u8,
    pc: u32,
}

impl Copies {
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.committed = [0; LANES];
    }
}

pub(super) fn register(table: &mut Table) {
    for space in ["shared", "shared::cta"] {
        for (cache, sizes) in [("ca", [4, 8, 16].as_slice()), ("cg", &[16])] {
            for hint in ["", ".L2::64B", ".L2::128B", ".L2::256B"] {
                let name = format!("cp.async.{cache}.{space}.global{hint}");
                for &bytes in sizes {
                    let plain = [Slot::Addr, Slot::Addr, Slot::Exactly(bytes)];
                    let sized = [Slot::Addr, Slot::Addr, Slot::Exactly(bytes), Slot::Src(Ty::U32)];
                    let (whole, part): (super::Access, super::Access) = match bytes {
                        4 => (start::<4, false>, start::<4, true>),
                        8 => (start::<8, false>, start::<8, true>),
                        _ => (start::<16, false>, start::<16, true>),
                    };
                    table.add_access(&name, &plain, Space::Shared, bytes, Run::Access(whole));
                    table.add_access(&name, &sized, Space::Shared, bytes, Run::Access(part));
                }
            }
        }
    }
    table.add(
        "cp.async.commit_group",
        &[],
        Run::Access(|cx, _, mask| {
            for lane in lanes(mask) {
                cx.core.copies.committed[lane] += 1;
            }
            Ok(())
        }),
    );
    table.add(
        "cp.async.wait_group",
        &[Slot::Int],
        Run::Access(|cx, args, mask| {
            let keep = args.imm[0] as u32;
            let committed = cx.core.copies.committed;
            finish(cx, mask, |copy| {
                // A group not yet committed is never waited for.
                copy.group.saturating_add(keep) < committed[usize::from(copy.lane)]
            })
        }),
    );
    table.add("cp.async.wait_all", &[], Run::Access(|cx, _, mask| finish(cx, mask, |_| true)));
}

fn start<const N: usize, const PART: bool>(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    let to = cx.core.regs.addresses(args, 0, args.imm[0]);
    let from = cx.core.regs.addresses(args, 1, args.imm[1]);
    cx.block.count_shared(&to, mask, N as u32);
    for lane in lanes(mask) {
        Cx::aligned(lane, to[lane], N, Space::Shared)?;
        Cx::aligned(lane, from[lane], N, Space::Global)?;
        let filled = if PART { cx.core.regs.lane::<u32>(args.r[2], lane) } else { N as u32 };
        if filled as usize > N {
            let message = format!("cp.async of {N} bytes with a source size of {filled}");
            return Err(RawFault::at_lane(FaultKind::OutOfBounds, lane, message));
        }
        cx.block.shared_touch(cx.who(lane), to[lane], N, Write::CopyIssue)?;
        if filled > 0 {
            cx.block.global_check(lane, from[lane], filled as usize)?;
        }
        let group = cx.core.copies.committed[lane];
        cx.core.copies.pending.push(Copy {
            lane: lane as u8,
            group,
            to: to[lane],
            from: from[lane],
            bytes: N as u8,
            filled: filled as u8,
            pc: cx.pc,
        });
    }
    Ok(())
}

/// Makes the copies of the lanes in `mask` that are `due`, in the order in which they were started.
fn finish(cx: &mut Cx<'_, '_>, mask: u32, due: impl Fn(&Copy) -> bool) -> Checked {
    let mut copies = std::mem::take(&mut cx.core.copies.pending);
    for copy in copies.drain(..) {
        if mask >> copy.lane & 1 == 0 || !due(&copy) {
            cx.core.copies.later.push(copy);
            continue;
        }
        let who = Who { warp: cx.core.id, lane: usize::from(copy.lane), pc: copy.pc };
        match (copy.bytes, copy.filled) {
            (16, 16) => make::<16>(cx, who, &copy)?,
            (8, 8) => make::<8>(cx, who, &copy)?,
            (4, 4) => make::<4>(cx, who, &copy)?,
            (bytes, filled) => {
                let mut data = [0; 16];
                cx.block.global_copy(who.lane, copy.from, &mut data[..usize::from(filled)])?;
                cx.block.shared_put(who, copy.to, &data[..usize::from(bytes)])?;
            }
        }
    }
    // What is left waits for its turn; the emptied list is kept for the next wait.
    cx.core.copies.pending = std::mem::replace(&mut cx.core.copies.later, copies);
    Ok(())
}

#[inline]
fn make<const N: usize>(cx: &mut Cx<'_, '_>, who: Who, copy: &Copy) -> Checked {
    cx.block.stats.global_load_bytes += N as u64;
    let data: [u8; N] = cx.block.global_load(who.lane, copy.from)?;
    cx.block.shared_put(who, copy.to, &data)
}
