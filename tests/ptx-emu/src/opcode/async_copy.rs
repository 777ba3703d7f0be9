//! `cp.async`: copies from global to shared memory that happen as late as they may, at the wait.

use std::collections::VecDeque;

use super::{Run, Slot, Table};
use crate::access::Cx;
use crate::check::race::{Accesses, Write};
use crate::error::{Checked, FaultKind, RawFault};
use crate::program::Args;
use crate::regs::{FULL, LANES, Row, lanes, mask_of};
use crate::ty::{Space, Ty};
use crate::vector::{Access, access};

/// Copies that a warp has started, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pending: VecDeque<Copy>,
    /// Groups that each lane has committed.
    committed: Row<u32>,
}

/// The copies of one instruction, or of those of its lanes that have committed as many groups.
#[derive(Debug, Clone, Copy)]
struct Copy {
    /// Lanes whose copies have not been made yet.
    mask: u32,
    /// Lanes that copy all of their bytes.
    whole: u32,
    /// Its group, once committed, is the lanes' this-many-th.
    group: u32,
    bytes: u32,
    pc: u32,
    to: Row<u64>,
    from: Row<u64>,
    /// Bytes read; zeros fill the rest.
    filled: Row<u8>,
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
                    let run = match bytes {
                        4 => access!(start::<4, false>, start::<4, true>),
                        8 => access!(start::<8, false>, start::<8, true>),
                        _ => access!(start::<16, false>, start::<16, true>),
                    };
                    table.add_access(&name, &plain, Space::Shared, bytes, Run::Access(run));
                    table.add_access(&name, &sized, Space::Shared, bytes, Run::Access(run));
                }
            }
        }
    }
    table.add(
        "cp.async.commit_group",
        &[],
        Run::Access(Access::plain(|cx, _, mask| {
            for lane in lanes(mask) {
                cx.core.copies.committed[lane] += 1;
            }
            Ok(())
        })),
    );
    table.add("cp.async.wait_group", &[Slot::Int], Run::Access(access!(wait_group)));
    table.add("cp.async.wait_all", &[], Run::Access(access!(wait_all)));
}

/// Checks copies of `N` bytes, of all lanes together where that is possible if `TOGETHER`, and notes them down.
#[inline(always)]
fn start<const N: usize, const TOGETHER: bool>(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    let to = cx.core.regs.addresses(args, 0, args.imm[0]);
    let from = cx.core.regs.addresses(args, 1, args.imm[1]);
    cx.block.count_shared(&to, mask, N as u32);
    let is_sized = args.operands > 2;
    let filled = if is_sized { cx.core.regs.get::<u32>(args.r[2]) } else { [N as u32; LANES] };
    let whole = mask & mask_of(|lane| filled[lane] == N as u32);
    if !(TOGETHER && check_together::<N>(cx, args, mask, whole, [&to, &from], &filled)?) {
        check_each::<N>(cx, args, mask, &to, &from, &filled)?;
    }
    let copies = &mut cx.core.copies;
    let mut left = mask;
    while left != 0 {
        let group = copies.committed[left.trailing_zeros() as usize];
        let together = left & mask_of(|lane| copies.committed[lane] == group);
        // No lane in the mask has more bytes than `N`.
        let filled = filled.map(|bytes| bytes as u8);
        copies.pending.push_back(Copy { mask: together, whole, group, bytes: N as u32, pc: cx.pc, to, from, filled });
        left &= !together;
    }
    Ok(())
}

/// Most lanes copy all or nothing, and all from one place; these are checked together, and fetched soon. Of others this says
/// false.
#[inline(always)]
fn check_together<const N: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    whole: u32,
    [to, from]: [&Row<u64>; 2],
    filled: &Row<u32>,
) -> Checked<bool> {
    let rest = mask & !whole;
    if rest != 0 && rest & mask_of(|lane| filled[lane] != 0 || !from[lane].is_multiple_of(N as u64)) != 0 {
        return Ok(false);
    }
    if cx.block.shared_units::<N>(to, mask).is_none() {
        return Ok(false);
    }
    let touch = cx.touch(args, false);
    let check_written = cx.block.options.uninitialised_global;
    if whole != 0 && cx.block.memory.prefetch_units::<N>(from, whole, check_written, touch).is_none() {
        return Ok(false);
    }
    let accesses = Accesses { warp: cx.core.id, pc: cx.pc, at: to, mask };
    cx.block.shared_touch_units::<N>(&accesses, Write::CopyIssue)?;
    Ok(true)
}

/// Checks the copies lane by lane, and says which lane may not.
#[inline(never)]
fn check_each<const N: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    to: &Row<u64>,
    from: &Row<u64>,
    filled: &Row<u32>,
) -> Checked {
    for lane in lanes(mask) {
        Cx::aligned(lane, to[lane], N, Space::Shared)?;
        Cx::aligned(lane, from[lane], N, Space::Global)?;
        let bytes = filled[lane] as usize;
        if bytes > N {
            let message = format!("cp.async of {N} bytes with a source size of {bytes}");
            return Err(RawFault::at_lane(FaultKind::OutOfBounds, lane, message));
        }
        cx.block.shared_touch(cx.who(lane), to[lane], N, Write::CopyIssue)?;
        if bytes > 0 {
            cx.block.global_check(lane, from[lane], bytes)?;
            cx.watch(args, lane, from[lane], bytes, true, false)?;
        }
    }
    Ok(())
}

/// Makes the copies of the lanes in `mask` that are due, in the order in which they were started: those of all groups that
/// have been committed but the last `keep` ones, or, without that, of all.
#[inline(always)]
fn finish(cx: &mut Cx<'_, '_>, mask: u32, keep: Option<u32>) -> Checked {
    let committed = cx.core.copies.committed;
    let mut copies = std::mem::take(&mut cx.core.copies.pending);
    for copy in &mut copies {
        // A group not yet committed is never waited for.
        let due = keep.map_or(FULL, |keep| mask_of(|lane| copy.group.saturating_add(keep) < committed[lane]));
        let now = copy.mask & mask & due;
        if now == 0 {
            continue;
        }
        copy.mask &= !now;
        match copy.bytes {
            16 => make::<16>(cx, copy, now)?,
            8 => make::<8>(cx, copy, now)?,
            _ => make::<4>(cx, copy, now)?,
        }
    }
    while copies.front().is_some_and(|copy| copy.mask == 0) {
        copies.pop_front();
    }
    cx.core.copies.pending = copies;
    Ok(())
}

/// Makes the copies of the lanes in `mask`, which have been checked when they were started.
#[inline(always)]
fn make<const N: usize>(cx: &mut Cx<'_, '_>, copy: &Copy, mask: u32) -> Checked {
    cx.block
        .shared_touch_units::<N>(&Accesses { warp: cx.core.id, pc: copy.pc, at: &copy.to, mask }, Write::CopyDone)?;
    // Two lanes with one target are a race, so it is no matter which of them comes last.
    let whole = mask & copy.whole;
    let copied = if whole != 0 && cx.block.shared_copy::<N>(&copy.to, &copy.from, whole) { whole } else { 0 };
    for lane in lanes(mask & !copied) {
        let mut data = [0; N];
        cx.block.global_copy(lane, copy.from[lane], &mut data[..usize::from(copy.filled[lane])])?;
        cx.block.shared_put(copy.to[lane], data);
    }
    Ok(())
}

#[inline(always)]
fn wait_group(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    finish(cx, mask, Some(args.imm[0] as u32))
}

#[inline(always)]
fn wait_all(cx: &mut Cx<'_, '_>, _: &Args, mask: u32) -> Checked {
    finish(cx, mask, None)
}
