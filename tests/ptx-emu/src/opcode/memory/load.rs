//! Loads.

use super::elements;
use crate::access::Cx;
use crate::error::Checked;
use crate::program::Args;
use crate::regs::{LANES, Row, lanes};
use crate::ty::Space;
use crate::vector::{Access, access};

/// A load of `bytes` bytes per lane, extended by the sign if `signed`.
pub(super) fn of(bytes: u32, signed: bool) -> Access {
    macro_rules! load {
        ($bytes:literal) => {
            if signed {
                access!(load::<$bytes, true, false>, load::<$bytes, true, true>)
            } else {
                access!(load::<$bytes, false, false>, load::<$bytes, false, true>)
            }
        };
    }
    match bytes {
        1 => load!(1),
        2 => load!(2),
        4 => load!(4),
        8 => load!(8),
        _ => load!(16),
    }
}

/// `N` bytes per lane, of all lanes together where that is possible if `TOGETHER`.
#[inline(always)]
fn load<const N: usize, const SIGNED: bool, const TOGETHER: bool>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
) -> Checked {
    let addresses = cx.core.regs.addresses(args, args.operands - 1, args.imm[0]);
    if args.space == Space::Shared {
        cx.block.count_shared(&addresses, mask, N as u32);
    }
    let mut data = [[0; N]; LANES];
    if !(TOGETHER && load_together(cx, args, mask, &addresses, &mut data)?) {
        for lane in lanes(mask) {
            data[lane] = cx.load(args, lane, addresses[lane])?;
        }
    }
    elements::put::<N, SIGNED>(&mut cx.core.regs, args, mask, &data);
    Ok(())
}

/// Most accesses of a warp are alike in all lanes, and these are checked and made together; of others this says false.
#[inline(always)]
fn load_together<const N: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    addresses: &Row<u64>,
    data: &mut Row<[u8; N]>,
) -> Checked<bool> {
    let units = match args.space {
        Space::Shared => cx.block.shared_load_units::<N>(cx.core.id, cx.pc, addresses, mask)?,
        Space::Global if !args.order.reaches_blocks() => {
            let touch = cx.touch(args, false);
            let check_written = cx.block.options.uninitialised_global;
            cx.block.memory.load_units::<N>(addresses, mask, check_written, touch)
        }
        _ => None,
    };
    let Some(units) = units else { return Ok(false) };
    for (data, &start) in data.iter_mut().zip(&units.at) {
        data.copy_from_slice(&units.bytes[start as usize..][..N]);
    }
    if args.space == Space::Global {
        cx.block.stats.global_load_bytes += N as u64 * u64::from(mask.count_ones());
    }
    Ok(true)
}

/// A load of a parameter, of whatever size.
pub(super) fn of_parameter(signed: bool) -> Access {
    Access::plain(if signed { load_parameter::<true> } else { load_parameter::<false> })
}

/// The whole warp reads one parameter; its bounds were checked when the module was loaded.
#[expect(clippy::unnecessary_wraps, reason = "the signature is that of all accesses")]
fn load_parameter<const SIGNED: bool>(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
    let [start, bytes] = args.imm.map(|value| value as usize);
    let elements = cx.block.params[start..][..bytes].chunks_exact(bytes / args.operands);
    for (index, (&reg, element)) in args.r.iter().zip(elements).enumerate() {
        let value = elements::extended(element, SIGNED);
        if args.is_wide(index) {
            cx.core.regs.set::<u64>(reg, mask, &[value; LANES]);
        } else {
            cx.core.regs.set::<u32>(reg, mask, &[value as u32; LANES]);
        }
    }
    Ok(())
}
