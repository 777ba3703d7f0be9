//! `atom` and `red`.

use super::{Run, Slot, Table, order_of};
use crate::access::Cx;
use crate::check::blocks::Order;
use crate::error::Checked;
use crate::program::Args;
use crate::regs::{Lane, lanes};
use crate::ty::{Space, Ty};
use crate::vector::Access;

/// Ordering and scope, which matter only to what is taken for a race: blocks run one after another.
const ORDERS: [&str; 14] = [
    "",
    ".relaxed.cta",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".acquire.cta",
    ".acquire.gpu",
    ".acquire.sys",
    ".release.cta",
    ".release.gpu",
    ".release.sys",
    ".acq_rel.cta",
    ".acq_rel.gpu",
    ".acq_rel.sys",
    ".relaxed",
];
const SPACES: [(&str, Space); 4] =
    [("", Space::Generic), (".global", Space::Global), (".shared", Space::Shared), (".shared::cta", Space::Shared)];

pub(super) fn register(table: &mut Table) {
    macro_rules! atomics {
        ($($name:literal, $ty:ident: $rust:ty, $bytes:literal, |$old:ident, $new:ident| $e:expr;)*) => {$(
            enter(
                table,
                $name,
                Ty::$ty,
                &[Slot::Src(Ty::$ty)],
                Access::plain(|cx, args, mask| update::<$rust, $bytes>(cx, args, mask, true, |$old, $new, _| $e)),
                Some(Access::plain(|cx, args, mask| {
                    update::<$rust, $bytes>(cx, args, mask, false, |$old, $new, _| $e)
                })),
            );
        )*};
    }
    atomics! {
        "add.u32", U32: u32, 4, |old, x| old.wrapping_add(x);
        "add.s32", S32: u32, 4, |old, x| old.wrapping_add(x);
        "add.u64", U64: u64, 8, |old, x| old.wrapping_add(x);
        "add.f32", F32: f32, 4, |old, x| old + x;
        "add.f64", F64: f64, 8, |old, x| old + x;
        "min.u32", U32: u32, 4, |old, x| old.min(x);
        "max.u32", U32: u32, 4, |old, x| old.max(x);
        "min.s32", S32: i32, 4, |old, x| old.min(x);
        "max.s32", S32: i32, 4, |old, x| old.max(x);
        "min.u64", U64: u64, 8, |old, x| old.min(x);
        "max.u64", U64: u64, 8, |old, x| old.max(x);
        "min.s64", S64: i64, 8, |old, x| old.min(x);
        "max.s64", S64: i64, 8, |old, x| old.max(x);
        "and.b32", B32: u32, 4, |old, x| old & x;
        "or.b32", B32: u32, 4, |old, x| old | x;
        "xor.b32", B32: u32, 4, |old, x| old ^ x;
        "and.b64", B64: u64, 8, |old, x| old & x;
        "or.b64", B64: u64, 8, |old, x| old | x;
        "xor.b64", B64: u64, 8, |old, x| old ^ x;
        "inc.u32", U32: u32, 4, |old, x| if old >= x { 0 } else { old + 1 };
        "dec.u32", U32: u32, 4, |old, x| if old == 0 || old > x { x } else { old - 1 };
    }
    macro_rules! exchange {
        ($($ty:ident: $rust:ty, $bytes:literal, $exch:literal, $cas:literal;)*) => {$(
            enter(table, $exch, Ty::$ty, &[Slot::Src(Ty::$ty)], Access::plain(|cx, args, mask| {
                update::<$rust, $bytes>(cx, args, mask, true, |_, new, _| new)
            }), None);
            enter(table, $cas, Ty::$ty, &[Slot::Src(Ty::$ty), Slot::Src(Ty::$ty)], Access::plain(|cx, args, mask| {
                update::<$rust, $bytes>(cx, args, mask, true, |old, expected, new| {
                    if old == expected { new } else { old }
                })
            }), None);
        )*};
    }
    exchange! {
        B32: u32, 4, "exch.b32", "cas.b32";
        B64: u64, 8, "exch.b64", "cas.b64";
    }
}

/// Enters an operation as `atom`, and as `red` where there is one, in all spaces and orders.
fn enter(table: &mut Table, operation: &str, ty: Ty, sources: &[Slot], atom: Access, red: Option<Access>) {
    for (infix, space) in SPACES {
        for order in ORDERS {
            let slots = [[Slot::Dst(ty), Slot::Addr].as_slice(), sources].concat();
            let name = |base: &str| format!("{base}{order}{infix}.{operation}");
            let access = (space, ty.bytes());
            // Without a qualifier it is relaxed.
            let order = if order.is_empty() { Order::Relaxed } else { order_of(order) };
            table.add_ordered(name("atom"), &slots, access, order, Run::Access(atom));
            if let Some(red) = red {
                table.add_ordered(name("red"), &slots[1..], access, order, Run::Access(red));
            }
        }
    }
}

/// A value as bytes in memory.
trait Stored<const N: usize>: Lane {
    fn from_memory(bytes: [u8; N]) -> Self;
    fn into_memory(self) -> [u8; N];
}

macro_rules! stored {
    ($($ty:ty, $bytes:literal;)*) => {$(
        impl Stored<$bytes> for $ty {
            fn from_memory(bytes: [u8; $bytes]) -> Self {
                Self::from_le_bytes(bytes)
            }
            fn into_memory(self) -> [u8; $bytes] {
                self.to_le_bytes()
            }
        }
    )*};
}

stored! { u32, 4; i32, 4; f32, 4; u64, 8; i64, 8; f64, 8; }

/// Lane after lane, replaces what is in memory by `f(old, operand, second operand)`.
fn update<T: Stored<N>, const N: usize>(
    cx: &mut Cx<'_, '_>,
    args: &Args,
    mask: u32,
    returns: bool,
    f: impl Fn(T, T, T) -> T,
) -> Checked {
    let address_at = usize::from(returns);
    let addresses = cx.core.regs.addresses(args, address_at, args.imm[0]);
    if args.space == Space::Shared {
        cx.block.count_shared(&addresses, mask, N as u32);
    }
    for lane in lanes(mask) {
        let (space, address) = args.space.resolve(addresses[lane]);
        Cx::aligned(lane, address, N, space)?;
        let first: T = cx.core.regs.lane(args.r[address_at + 1], lane);
        // Only `cas` has a second operand; without one this is some register of the right file, and `f` ignores it.
        let second: T =
            if args.operands > address_at + 2 { cx.core.regs.lane(args.r[address_at + 2], lane) } else { first };
        let apply = |old: [u8; N]| f(T::from_memory(old), first, second).into_memory();
        let old = match space {
            Space::Shared => cx.block.shared_atomic(cx.who(lane), address, apply)?,
            Space::Local => {
                let range = cx.local_range(lane, address, N)?;
                let mut old = [0; N];
                old.copy_from_slice(&cx.core.local[range.clone()]);
                cx.core.local[range].copy_from_slice(&apply(old));
                old
            }
            Space::Global | Space::Const | Space::Generic => {
                cx.watch(args, lane, address, N, returns, true)?;
                let old: [u8; N] = cx.block.global_load(lane, address)?;
                cx.block.global_store(lane, address, apply(old))?;
                cx.block.stats.global_load_bytes += N as u64;
                cx.block.stats.global_store_bytes += N as u64;
                old
            }
        };
        if returns {
            cx.core.regs.set_lane(args.r[0], lane, T::from_memory(old));
        }
    }
    Ok(())
}
