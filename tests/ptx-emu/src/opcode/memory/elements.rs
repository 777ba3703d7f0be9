//! What lanes load and store, as bytes and as registers: one element, or a vector of them.

use crate::program::Args;
use crate::regs::{LANES, Regs, Row};

/// An element, extended to 64 bits.
#[inline(always)]
pub(super) fn extended(bytes: &[u8], signed: bool) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let value = u64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len() as u32;
    if signed { ((value << unused) as i64 >> unused) as u64 } else { value }
}

/// Whether elements may have that many bytes: vectors of others are in no table, and their code is left out.
const fn is_element(bytes: usize) -> bool {
    matches!(bytes, 1..=8)
}

/// Puts the `N` bytes of each lane into the registers that stand first among the operands, before the address.
#[inline(always)]
pub(super) fn put<const N: usize, const SIGNED: bool>(regs: &mut Regs, args: &Args, mask: u32, data: &Row<[u8; N]>) {
    match args.operands - 1 {
        1 => put_each::<N, 1, SIGNED>(regs, args, mask, data),
        2 => put_each::<N, 2, SIGNED>(regs, args, mask, data),
        _ => put_each::<N, 4, SIGNED>(regs, args, mask, data),
    }
}

/// The same, as `COUNT` elements. Registers may be wider than these.
#[inline(always)]
fn put_each<const N: usize, const COUNT: usize, const SIGNED: bool>(
    regs: &mut Regs,
    args: &Args,
    mask: u32,
    data: &Row<[u8; N]>,
) {
    let bytes = N / COUNT;
    if !is_element(bytes) {
        return;
    }
    for index in 0..COUNT {
        let element = |lane: usize| extended(&data[lane][bytes * index..][..bytes], SIGNED);
        if bytes == 8 || args.is_wide(index) {
            let mut out = [0; LANES];
            for (lane, value) in out.iter_mut().enumerate() {
                *value = element(lane);
            }
            regs.set::<u64>(args.r[index], mask, &out);
        } else {
            let mut out = [0; LANES];
            for (lane, value) in out.iter_mut().enumerate() {
                *value = element(lane) as u32;
            }
            regs.set::<u32>(args.r[index], mask, &out);
        }
    }
}

/// The `N` bytes of each lane, from the registers that stand behind the address.
#[inline(always)]
pub(super) fn take<const N: usize>(regs: &Regs, args: &Args) -> Row<[u8; N]> {
    match args.operands - 1 {
        1 => take_each::<N, 1>(regs, args),
        2 => take_each::<N, 2>(regs, args),
        _ => take_each::<N, 4>(regs, args),
    }
}

#[inline(always)]
fn take_each<const N: usize, const COUNT: usize>(regs: &Regs, args: &Args) -> Row<[u8; N]> {
    let mut data = [[0; N]; LANES];
    let bytes = N / COUNT;
    if !is_element(bytes) {
        return data;
    }
    for index in 0..COUNT {
        let reg = args.r[index + 1];
        if bytes == 8 || args.is_wide(index + 1) {
            for (data, value) in data.iter_mut().zip(regs.get::<u64>(reg)) {
                data[bytes * index..][..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            }
        } else {
            for (data, value) in data.iter_mut().zip(regs.get::<u32>(reg)) {
                data[bytes * index..][..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            }
        }
    }
    data
}
