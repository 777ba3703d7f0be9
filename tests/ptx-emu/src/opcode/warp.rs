//! Exchange between the lanes of a warp.

use super::{Members, Run, Slot, Table};
use crate::access::Cx;
use crate::error::{Checked, FaultKind, RawFault};
use crate::program::Args;
use crate::regs::{FULL, LANES, Row, lanes, mask_of};
use crate::ty::Ty;
use crate::vector::{Access, access};

pub(super) fn register(table: &mut Table) {
    shuffles(table);
    votes(table);
    matches(table);
    reductions(table);
    table.add(
        "activemask.b32",
        &[Slot::Dst(Ty::B32)],
        Run::Access(Access::plain(|cx, args, mask| {
            cx.core.regs.set::<u32>(args.r[0], mask, &[mask; LANES]);
            Ok(())
        })),
    );
}

/// How a shuffle chooses the lane to read.
#[derive(Clone, Copy)]
enum Mode {
    Up,
    Down,
    Butterfly,
    Index,
}

impl Mode {
    /// The lane that `lane` reads with operand `b` and control word `c`, and whether that is in its segment.
    #[inline(always)]
    fn source(self, lane: u32, b: u32, c: u32) -> (u32, bool) {
        let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
        let low = lane & segment;
        let high = low | clamp & !segment;
        match self {
            Self::Up => (lane.wrapping_sub(b), b <= lane && lane - b >= high),
            Self::Down => (lane + b, lane + b <= high),
            Self::Butterfly => (lane ^ b, lane ^ b <= high),
            Self::Index => (low | b & !segment, low | b & !segment <= high),
        }
    }
}

fn shuffles(table: &mut Table) {
    let tail = [Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32)];
    let plain = [[Slot::Dst(Ty::B32)].as_slice(), &tail].concat();
    let paired = [[Slot::DstPair(Ty::B32)].as_slice(), &tail].concat();
    macro_rules! shuffle {
        ($($name:literal, $mode:ident;)*) => {$({
            #[inline(always)]
            fn one(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
                shuffle(cx, args, mask, 1, Mode::$mode).map(|_| ())
            }
            #[inline(always)]
            fn with_predicate(cx: &mut Cx<'_, '_>, args: &Args, mask: u32) -> Checked {
                let in_range = shuffle(cx, args, mask, 2, Mode::$mode)?;
                cx.core.regs.set_pred(args.r[1], mask, in_range);
                Ok(())
            }
            table.add($name, &plain, Run::Collective(Members::Operand(4), access!(one)));
            table.add($name, &paired, Run::Collective(Members::Operand(5), access!(with_predicate)));
        })*};
    }
    shuffle! {
        "shfl.sync.up.b32", Up;
        "shfl.sync.down.b32", Down;
        "shfl.sync.bfly.b32", Butterfly;
        "shfl.sync.idx.b32", Index;
    }
}

/// Executes a shuffle whose source operands start at `first`; returns the lanes whose source was in range.
#[inline(always)]
fn shuffle(cx: &mut Cx<'_, '_>, args: &Args, mask: u32, first: usize, mode: Mode) -> Checked<u32> {
    let regs = &cx.core.regs;
    let values = regs.get::<u32>(args.r[first]);
    let (operands, controls) = (regs.get::<u32>(args.r[first + 1]), regs.get::<u32>(args.r[first + 2]));
    let mut from = [0; LANES];
    let mut in_range = 0;
    for lane in 0..LANES {
        let (source, is_in_range) = mode.source(lane as u32, operands[lane], controls[lane]);
        // A lane without a source keeps its own value.
        from[lane] = if is_in_range { source } else { lane as u32 };
        in_range |= u32::from(is_in_range) << lane;
    }
    if mask != FULL && cx.block.options.inactive_lanes {
        for lane in lanes(mask) {
            if mask >> from[lane] & 1 == 0 {
                let from = from[lane];
                let message = format!("shuffle reads lane {from}, which does not take part; lanes {mask:#010x} do");
                return Err(RawFault::at_lane(FaultKind::InactiveLane, lane, message));
            }
        }
    }
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = values[from[lane] as usize & 31];
    }
    cx.core.regs.set::<u32>(args.r[0], mask, &out);
    Ok(in_range)
}

/// The lanes that take part and for which the predicate operand holds.
fn ballot(cx: &Cx<'_, '_>, args: &Args, mask: u32) -> u32 {
    let pred = cx.core.regs.pred(args.r[1]);
    mask & if args.negated { !pred } else { pred }
}

fn votes(table: &mut Table) {
    let members = Members::Operand(2);
    table.add(
        "vote.sync.ballot.b32",
        &[Slot::Dst(Ty::B32), Slot::SrcNot, Slot::Src(Ty::B32)],
        Run::Collective(
            members,
            Access::plain(|cx, args, mask| {
                let votes = ballot(cx, args, mask);
                cx.core.regs.set::<u32>(args.r[0], mask, &[votes; LANES]);
                Ok(())
            }),
        ),
    );
    macro_rules! vote {
        ($($name:literal, |$votes:ident, $mask:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::Pred), Slot::SrcNot, Slot::Src(Ty::B32)],
                Run::Collective(members, Access::plain(|cx, args, $mask| {
                    let $votes = ballot(cx, args, $mask);
                    cx.core.regs.set_pred(args.r[0], $mask, if $e { FULL } else { 0 });
                    Ok(())
                })),
            );
        )*};
    }
    vote! {
        "vote.sync.any.pred", |votes, mask| votes != 0 && mask != 0;
        "vote.sync.all.pred", |votes, mask| votes == mask;
        "vote.sync.uni.pred", |votes, mask| votes == 0 || votes == mask;
    }
}

/// `match.any`: the lanes that hold the same value. `match.all`: all members if they all do, else none.
fn matches(table: &mut Table) {
    macro_rules! matches {
        ($($any:literal, $all:literal, $ty:ident: $rust:ty;)*) => {$(
            table.add(
                $any,
                &[Slot::Dst(Ty::B32), Slot::Src(Ty::$ty), Slot::Src(Ty::B32)],
                Run::Collective(Members::Operand(2), Access::plain(|cx, args, mask| {
                    let values = cx.core.regs.get::<$rust>(args.r[1]);
                    let equal = std::array::from_fn(|lane| mask & mask_of(|other| values[other] == values[lane]));
                    cx.core.regs.set::<u32>(args.r[0], mask, &equal);
                    Ok(())
                })),
            );
            table.add(
                $all,
                &[Slot::Dst(Ty::B32), Slot::Src(Ty::$ty), Slot::Src(Ty::B32)],
                Run::Collective(Members::Operand(2), Access::plain(|cx, args, mask| {
                    let all = all_equal(&cx.core.regs.get::<$rust>(args.r[1]), mask);
                    cx.core.regs.set::<u32>(args.r[0], mask, &[all; LANES]);
                    Ok(())
                })),
            );
            table.add(
                $all,
                &[Slot::DstPair(Ty::B32), Slot::Src(Ty::$ty), Slot::Src(Ty::B32)],
                Run::Collective(Members::Operand(3), Access::plain(|cx, args, mask| {
                    let all = all_equal(&cx.core.regs.get::<$rust>(args.r[2]), mask);
                    cx.core.regs.set::<u32>(args.r[0], mask, &[all; LANES]);
                    cx.core.regs.set_pred(args.r[1], mask, if all != 0 { FULL } else { 0 });
                    Ok(())
                })),
            );
        )*};
    }
    matches! {
        "match.any.sync.b32", "match.all.sync.b32", B32: u32;
        "match.any.sync.b64", "match.all.sync.b64", B64: u64;
    }
}

/// The members if they hold the same value, else none.
fn all_equal<T: PartialEq>(values: &Row<T>, mask: u32) -> u32 {
    let first = &values[mask.trailing_zeros() as usize & 31];
    if lanes(mask).all(|lane| values[lane] == *first) { mask } else { 0 }
}

fn reductions(table: &mut Table) {
    macro_rules! reduce {
        ($($name:literal, $ty:ident, |$a:ident, $b:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::$ty), Slot::Src(Ty::$ty), Slot::Src(Ty::B32)],
                Run::Collective(Members::Operand(2), Access::plain(|cx, args, mask| {
                    let values = cx.core.regs.get::<u32>(args.r[1]);
                    let total = lanes(mask).map(|lane| values[lane]).reduce(|$a, $b| $e).unwrap_or_default();
                    cx.core.regs.set::<u32>(args.r[0], mask, &[total; LANES]);
                    Ok(())
                })),
            );
        )*};
    }
    reduce! {
        "redux.sync.add.u32", U32, |a, b| a.wrapping_add(b);
        "redux.sync.add.s32", S32, |a, b| a.wrapping_add(b);
        "redux.sync.min.u32", U32, |a, b| a.min(b);
        "redux.sync.max.u32", U32, |a, b| a.max(b);
        "redux.sync.min.s32", S32, |a, b| (a as i32).min(b as i32) as u32;
        "redux.sync.max.s32", S32, |a, b| (a as i32).max(b as i32) as u32;
        "redux.sync.and.b32", B32, |a, b| a & b;
        "redux.sync.or.b32", B32, |a, b| a | b;
        "redux.sync.xor.b32", B32, |a, b| a ^ b;
    }
}
