//! `ld`, `st` and the parameter loads.

use super::{Run, Slot, Table, order_of};
use crate::block::Cx;
use crate::check::blocks::Order;
use crate::error::{Checked, FaultKind, RawFault};
use crate::memory::Units;
use crate::program::Args;
use crate::regs::{FULL, LANES, Regs, Row, lanes};
use crate::ty::{Space, Ty};
use crate::vector::{Access, access};

const TYPES: [Ty; 15] = [
    Ty::B8,
    Ty::U8,
    Ty::S8,
    Ty::B16,
    Ty::U16,
    Ty::S16,
    Ty::B32,
    Ty::U32,
    Ty::S32,
    Ty::F32,
    Ty::B64,
    Ty::U64,
    Ty::S64,
    Ty::F64,
    Ty::F16,
];

/// Ordering qualifiers that stand before the state space. Blocks run one after another, so they matter only to what is
/// taken for a race.
const LOAD_ORDERS: [&str; 11] = [
    "",
    ".volatile",
    ".weak",
    ".relaxed.cta",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".acquire.cta",
    ".acquire.gpu",
    ".acquire.sys",
    ".mmio.relaxed.sys",
    ".relaxed.cluster",
];
const STORE_ORDERS: [&str; 9] = [
    "",
    ".volatile",
    ".weak",
    ".relaxed.cta",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".release.cta",
    ".release.gpu",
    ".release.sys",
];

/// Cache hints; they do not change what is read.
const LOAD_HINTS: [&str; 12] = [
    "",
    ".ca",
    ".cg",
    ".cs",
    ".lu",
    ".cv",
    ".nc",
    ".L1::no_allocate",
    ".nc.L1::no_allocate",
    ".nc.L2::128B",
    ".nc.L1::no_allocate.L2::128B",
    ".L2::128B",
];
const STORE_HINTS: [&str; 6] = ["", ".wb", ".cg", ".cs", ".wt", ".L1::no_allocate"];

pub(super) fn register(table: &mut Table) {
    for (infix, space) in spaces() {
        for ty in TYPES {
            for count in [1, 2, 4] {
                let bytes = ty.bytes() * u32::from(count);
                if bytes > 16 {
                    continue;
                }
                let suffix = suffix(ty, count);
                let (load, store) = (load_of(ty, bytes), store_of(ty, bytes));
                for (order, hint) in combinations(&LOAD_ORDERS, &LOAD_HINTS, space) {
                    let name = format!("ld{order}{infix}{hint}{suffix}");
                    let slots = [destination(ty, count), Slot::Addr];
                    table.add_ordered(name, &slots, (space, bytes), order_of(order), Run::Access(load));
                }
                if space == Space::Const {
                    continue;
                }
                for (order, hint) in combinations(&STORE_ORDERS, &STORE_HINTS, space) {
                    let name = format!("st{order}{infix}{hint}{suffix}");
                    let slots = [Slot::Addr, source(ty, count)];
                    table.add_ordered(name, &slots, (space, bytes), order_of(order), Run::Access(store));
                }
            }
        }
    }
    for ty in TYPES {
        for count in [1, 2, 4] {
            let bytes = ty.bytes() * u32::from(count);
            let slots = [destination(ty, count), Slot::Param(bytes)];
            table.add(format!("ld.param{}", suffix(ty, count)), &slots, Run::Access(param_of(ty)));
        }
    }
}

fn spaces() -> [(&'static str, Space); 6] {
    [
        ("", Space::Generic),
        (".global", Space::Global),
        (".shared", Space::Shared),
        (".shared::cta", Space::Shared),
        (".local", Space::Local),
        (".const", Space::Const),
    ]
}

/// Orders go with all spaces but local and constant; hints go with plain global or generic accesses.
fn combinations(
    orders: &[&'static str],
    hints: &[&'static str],
    space: Space,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (ordered, hinted) =
        (!matches!(space, Space::Local | Space::Const), matches!(space, Space::Global | Space::Generic));
    let orders: Vec<_> = orders.iter().copied().filter(|order| ordered || order.is_empty()).collect();
    let hints: Vec<_> = hints.iter().copied().filter(|hint| hinted || hint.is_empty()).skip(1).collect();
    orders.into_iter().map(|order| (order, "")).chain(hints.into_iter().map(|hint| ("", hint)))
}

fn suffix(ty: Ty, count: u8) -> String {
    let vector = match count {
        1 => "",
        2 => ".v2",
        _ => ".v4",
    };
    format!("{vector}.{}", ty.name())
}

fn destination(ty: Ty, count: u8) -> Slot {
    if count == 1 { Slot::DstRelaxed(ty) } else { Slot::DstVecRelaxed(ty, count) }
}

fn source(ty: Ty, count: u8) -> Slot {
    if count == 1 { Slot::SrcRelaxed(ty) } else { Slot::SrcVecRelaxed(ty, count) }
}

fn load_of(ty: Ty, bytes: u32) -> Access {
    match (ty.bytes(), ty.signed(), bytes) {
        (1, false, 1) => Access::plain(load::<1, 1, false>),
        (1, false, 2) => Access::plain(load::<2, 1, false>),
        (1, false, _) => Access::plain(load::<4, 1, false>),
        (1, true, 1) => Access::plain(load::<1, 1, true>),
        (1, true, 2) => Access::plain(load::<2, 1, true>),
        (1, true, _) => Access::plain(load::<4, 1, true>),
        (2, false, 2) => access!(load::<2, 2, false>),
        (2, false, 4) => access!(load::<4, 2, false>),
        (2, false, _) => access!(load::<8, 2, false>),
        (2, true, 2) => Access::plain(load::<2, 2, true>),
        (2, true, 4) => Access::plain(load::<4, 2, true>),
        (2, true, _) => Access::plain(load::<8, 2, true>),
        (4, false, 4) => access!(load::<4, 4, false>),
        (4, false, 8) => access!(load::<8, 4, false>),
        (4, false, _) => access!(load::<16, 4, false>),
        (4, true, 4) => access!(load::<4, 4, true>),
        (4, true, 8) => Access::plain(load::<8, 4, true>),
        (4, true, _) => Access::plain(load::<16, 4, true>),
        (_, _, 8) => access!(load::<8, 8, false>),
        _ => access!(load::<16, 8, false>),
    }
}

fn store_of(ty: Ty, bytes: u32) -> Access {
    match (ty.bytes(), bytes) {
        (1, 1) => Access::plain(store::<1, 1>),
        (1, 2) => Access::plain(store::<2, 1>),
        (1, _) => Access::plain(store::<4, 1>),
        (2, 2) => access!(store::<2, 2>),
        (2, 4) => access!(store::<4, 2>),
        (2, _) => access!(store::<8, 2>),
        (4, 4) => access!(store::<4, 4>),
        (4, 8) => access!(store::<8, 4>),
        (4, _) => access!(store::<16, 4>),
        (_, 8) => access!(store::<8, 8>),
        _ => access!(store::<16, 8>),
    }
}

fn param_of(ty: Ty) -> Access {
    match (ty.bytes(), ty.signed()) {
        (1, false) => Access::plain(load_param::<1, false>),
        (1, true) => Access::plain(load_param::<1, true>),
        (2, false) => Access::plain(load_param::<2, false>),
        (2, true) => Access::plain(load_param::<2, true>),
        (4, false) => Access::plain(load_param::<4, false>),
        (4, true) => Access::plain(load_param::<4, true>),
        _ => Access::plain(load_param::<8, false>),
    }
}

/// Reads an element of `E` bytes, extended to 64 bits.
#[inline(always)]
fn element<const E: usize, const SIGNED: bool>(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..E].copy_from_slice(&bytes[..E]);
    let value = u64::from_le_bytes(wide);
    if SIGNED {
        let unused = 64 - 8 * E as u32;
        ((value << unused) as i64 >> unused) as u64
    } else {
        value
    }
}

#[inline(always)]
fn put_elements<const E: usize, const SIGNED: bool>(cx: &mut Cx<'_, '_>, args: &Args, lane: usize, data: &[u8]) {
    for (index, bytes) in data.chunks_exact(E).enumerate() {
        let value = element::<E, SIGNED>(bytes);
        if args.is_wide(index) {
            cx.core.regs.set_lane::<u64>(args.r[index], lane, value);
        } else {
            cx.core.regs.set_lane::<u32>(args.r[index], lane, value as u32);
        }
    }
}

#[inline(always)]
fn load<const N: usize, const E: usize, const SIGNED: bool>(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    let addresses = cx.core.regs.addresses(args, N / E, args.imm[0]);
    if args.space == Space::Shared {
        cx.block.count_shared(&addresses, mask, N as u32);
    }
    // Most accesses of a warp are alike in all lanes, and these are checked and made together.
    let fits_file = N == E || (0..N / E).all(|index| args.is_wide(index) == (E == 8));
    let units = match args.space {
        _ if !fits_file => None,
        Space::Shared => cx.block.shared_load_units::<N>(cx.core.id, cx.pc, &addresses, mask)?,
        Space::Global if !args.order.reaches_blocks() => {
            let touch = cx.touch(args, false);
            cx.block.memory.load_units::<N>(&addresses, mask, cx.block.options.uninitialised_global, touch)
        }
        _ => None,
    };
    if let Some(units) = units {
        put_units::<N, E, SIGNED>(&mut cx.core.regs, args, mask, &units);
        if args.space == Space::Global {
            cx.block.stats.global_load_bytes += N as u64 * u64::from(mask.count_ones());
        }
        return Ok(());
    }
    load_each::<N, E, SIGNED>(cx, args, mask, &addresses)
}

/// Puts what a warp has loaded into registers: several in the file of their elements, or one in either.
#[inline(always)]
fn put_units<const N: usize, const E: usize, const SIGNED: bool>(
    regs: &mut Regs,
    args: &Args,
    mask: u32,
    units: &Units<'_>,
) {
    if E == 8 || args.is_wide(0) {
        let mut out = [[0; LANES]; 2];
        for lane in 0..LANES {
            let data = &units.bytes[units.at[lane] as usize..][..N];
            for (row, bytes) in out.iter_mut().zip(data.chunks_exact(E)) {
                row[lane] = element::<E, SIGNED>(bytes);
            }
        }
        for (row, &reg) in out.iter().zip(&args.r[..N / E]) {
            regs.set::<u64>(reg, mask, row);
        }
    } else {
        let mut out = [[0; LANES]; 4];
        for lane in 0..LANES {
            let data = &units.bytes[units.at[lane] as usize..][..N];
            for (row, bytes) in out.iter_mut().zip(data.chunks_exact(E)) {
                row[lane] = element::<E, SIGNED>(bytes) as u32;
            }
        }
        for (row, &reg) in out.iter().zip(&args.r[..N / E]) {
            regs.set::<u32>(reg, mask, row);
        }
    }
}

/// Loads lane by lane, and says which lane may not.
#[inline(never)]
fn load_each<const N: usize, const E: usize, const SIGNED: bool>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
) -> Checked {
    for lane in lanes(mask) {
        let (space, address) = args.space.resolve(addresses[lane]);
        Cx::aligned(lane, address, N, space)?;
        let data: [u8; N] = match space {
            Space::Shared => cx.block.shared_load(cx.who(lane), address)?,
            Space::Local => {
                let range = cx.local_range(lane, address, N)?;
                let mut data = [0; N];
                data.copy_from_slice(&cx.core.local[range]);
                data
            }
            Space::Global | Space::Const | Space::Generic => {
                cx.block.stats.global_load_bytes += N as u64;
                cx.watch(args, lane, address, N, true, false)?;
                cx.block.global_load(lane, address)?
            }
        };
        put_elements::<E, SIGNED>(cx, args, lane, &data);
    }
    Ok(())
}

/// What a lane stores.
#[inline(always)]
fn stored<const N: usize, const E: usize>(regs: &Regs, args: &Args, lane: usize) -> [u8; N] {
    let mut data = [0; N];
    for (index, bytes) in data.chunks_exact_mut(E).enumerate() {
        let reg = args.r[index + 1];
        let value =
            if args.is_wide(index + 1) { regs.lane::<u64>(reg, lane) } else { u64::from(regs.lane::<u32>(reg, lane)) };
        bytes.copy_from_slice(&value.to_le_bytes()[..E]);
    }
    data
}

#[inline(always)]
fn store<const N: usize, const E: usize>(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    let addresses = cx.core.regs.addresses(args, 0, args.imm[0]);
    if args.space == Space::Shared {
        cx.block.count_shared(&addresses, mask, N as u32);
    }
    if args.space == Space::Global && !args.order.reaches_blocks() && !cx.block.kernel.has_constants() {
        let touch = cx.touch(args, true);
        let regs = &cx.core.regs;
        if cx.block.memory.store_units::<N>(&addresses, mask, touch, |lane| stored::<N, E>(regs, args, lane)) {
            cx.block.stats.global_store_bytes += N as u64 * u64::from(mask.count_ones());
            return check_kept::<N, E>(cx, args, mask, &addresses);
        }
    }
    store_each::<N, E>(cx, args, mask, &addresses)?;
    check_kept::<N, E>(cx, args, mask, &addresses)
}

/// An error if lanes of a weak store have left different values in one place.
///
/// Which of them stays is undefined. Of equal values it does not matter: the CUDA guide leaves open only which lane is the
/// last to write, and the memory model of PTX, to which this is a race of accesses of one size, that one of the values
/// written is read. Strong stores are no race, whatever they write.
#[inline(always)]
fn check_kept<const N: usize, const E: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
) -> Checked {
    let watched = cx.block.options.store_conflicts && args.order == Order::Weak;
    let global = matches!(args.space, Space::Global | Space::Generic);
    // Aligned accesses of one size are apart or the same, and lanes whose addresses rise are apart.
    if !watched || !global || rise(addresses, mask) {
        return Ok(());
    }
    find_lost::<N, E>(cx, args, mask, addresses)
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
fn find_lost<const N: usize, const E: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
) -> Checked {
    for lane in lanes(mask) {
        let (space, address) = args.space.resolve(addresses[lane]);
        if matches!(space, Space::Shared | Space::Local) {
            continue;
        }
        let there: [u8; N] = cx.block.global_load(lane, address)?;
        if there != stored::<N, E>(&cx.core.regs, args, lane) {
            let kept = lanes(mask).filter(|&other| addresses[other] == addresses[lane]).last().unwrap_or(lane);
            return Err(cx.block.store_conflict(lane, kept, address));
        }
    }
    Ok(())
}

/// Stores lane by lane, and says which lane may not.
#[inline(always)]
fn store_each<const N: usize, const E: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
) -> Checked {
    for lane in lanes(mask) {
        let (space, address) = args.space.resolve(addresses[lane]);
        Cx::aligned(lane, address, N, space)?;
        let data = stored::<N, E>(&cx.core.regs, args, lane);
        match space {
            Space::Shared => cx.block.shared_store(cx.who(lane), address, data)?,
            Space::Local => {
                let range = cx.local_range(lane, address, N)?;
                cx.core.local[range].copy_from_slice(&data);
            }
            Space::Global | Space::Const | Space::Generic => {
                if cx.block.kernel.is_constant(address) {
                    let message = format!("store to constant memory at {address:#x}");
                    return Err(RawFault::at_lane(FaultKind::ReadOnly, lane, message));
                }
                cx.block.stats.global_store_bytes += N as u64;
                cx.watch(args, lane, address, N, false, true)?;
                cx.block.global_store(lane, address, data)?;
            }
        }
    }
    Ok(())
}

/// The whole warp reads one parameter; its bounds were checked when the module was loaded.
#[expect(clippy::unnecessary_wraps, reason = "the signature is that of all accesses")]
fn load_param<const E: usize, const SIGNED: bool>(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    let [start, bytes] = args.imm;
    let params = cx.block.params;
    for lane in lanes(mask) {
        put_elements::<E, SIGNED>(cx, args, lane, &params[start as usize..][..bytes as usize]);
    }
    Ok(())
}
