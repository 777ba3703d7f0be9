//! Stores.

use super::elements;
use crate::access::Cx;
use crate::check::blocks::Order;
use crate::error::Checked;
use crate::program::Args;
use crate::regs::{FULL, Row, lanes};
use crate::ty::Space;
use crate::vector::{Access, access};

/// A store of `bytes` bytes per lane.
pub(super) fn of(bytes: u32) -> Access {
    match bytes {
        1 => access!(store::<1, false>, store::<1, true>),
        2 => access!(store::<2, false>, store::<2, true>),
        4 => access!(store::<4, false>, store::<4, true>),
        8 => access!(store::<8, false>, store::<8, true>),
        _ => access!(store::<16, false>, store::<16, true>),
    }
}

/// `N` bytes per lane, of all lanes together where that is possible if `TOGETHER`.
#[inline(always)]
fn store<const N: usize, const TOGETHER: bool>(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    let addresses = cx.core.regs.addresses(args, 0, args.imm[0]);
    if args.space == Space::Shared {
        cx.block.count_shared(&addresses, mask, N as u32);
    }
    let data = elements::take::<N>(&cx.core.regs, args);
    if !(TOGETHER && store_together(cx, args, mask, &addresses, &data)) {
        for lane in lanes(mask) {
            cx.store(args, lane, addresses[lane], data[lane])?;
        }
    }
    check_kept(cx, args, mask, &addresses, &data)
}

/// Most accesses of a warp are alike in all lanes, and these are checked and made together; of others this says false, and
/// does nothing.
#[inline(always)]
fn store_together<const N: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
    data: &Row<[u8; N]>,
) -> bool {
    if args.space != Space::Global || args.order.reaches_blocks() || cx.block.kernel.has_constants() {
        return false;
    }
    let touch = cx.touch(args, true);
    let stored = cx.block.memory.store_units::<N>(addresses, mask, touch, data);
    if stored {
        cx.block.stats.global_store_bytes += N as u64 * u64::from(mask.count_ones());
    }
    stored
}

/// An error if lanes of a weak store have left different values in one place.
///
/// Which of them stays is undefined. Of equal values it does not matter: the CUDA guide leaves open only which lane is the
/// last to write, and the memory model of PTX, to which this is a race of accesses of one size, that one of the values
/// written is read. Strong stores are no race, whatever they write.
#[inline(always)]
fn check_kept<const N: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
    data: &Row<[u8; N]>,
) -> Checked {
    let watched = cx.block.options.store_conflicts && args.order == Order::Weak;
    let global = matches!(args.space, Space::Global | Space::Generic);
    // Aligned accesses of one size are apart or the same, and lanes whose addresses rise are apart.
    if !watched || !global || rise(addresses, mask) {
        return Ok(());
    }
    find_lost(cx, args, mask, addresses, data)
}

/// Whether every lane in `mask` has a higher address than those before it.
#[inline(always)]
fn rise(addresses: &Row<u64>, mask: u32) -> bool {
    if mask == FULL {
        return addresses.windows(2).filter(|pair| pair[0] >= pair[1]).count() == 0;
    }
    let mut rest = lanes(mask).map(|lane| addresses[lane]);
    let Some(mut last) = rest.next() else { return true };
    rest.all(|address| std::mem::replace(&mut last, address) < address)
}

/// Looks in memory for a lane whose value is no longer there.
#[inline(never)]
fn find_lost<const N: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
    data: &Row<[u8; N]>,
) -> Checked {
    for lane in lanes(mask) {
        let (space, address) = args.space.resolve(addresses[lane]);
        if matches!(space, Space::Shared | Space::Local) {
            continue;
        }
        let there: [u8; N] = cx.block.global_load(lane, address)?;
        if there != data[lane] {
            let kept = lanes(mask).filter(|&other| addresses[other] == addresses[lane]).last().unwrap_or(lane);
            return Err(cx.block.store_conflict(lane, kept, address));
        }
    }
    Ok(())
}
