//! Exchange between the lanes of a warp.

use super::{Members, Run, Slot, Table};
use crate::block::Cx;
use crate::error::{Checked, FaultKind, RawFault};
use crate::program::Args;
use crate::regs::{FULL, LANES, lanes, mask_of};
use crate::ty::Ty;

pub(super) fn register(table: &mut Table) {
    shuffles(table);
    votes(table);
    matches(table);
    reductions(table);
    table.add(
        "activemask.b32",
        &[Slot::Dst(Ty::B32)],
        Run::Access(|cx, args, mask| {
            cx.core.regs.set::<u32>(args.r[0], mask, &[mask; LANES]);
            Ok(())
        }),
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
    /// The lane that `lane` reads with operand `b` and control word `c`; `None` if that is out of its segment.
    #[inline(always)]
    fn source(self, lane: u32, b: u32, c: u32) -> Option<usize> {
        let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
        let low = lane & segment;
        let high = low | clamp & !segment;
        let from = match self {
            Self::Up => return lane.checked_sub(b).filter(|&from| from >= high).map(|from| from as usize),
            Self::Down => lane + b,
            Self::Butterfly => lane ^ b,
            Self::Index => low | b & !segment,
        };
        (from <= high).then_some(from as usize)
    }
}

fn shuffles(table: &mut Table) {
    let tail = [Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32)];
    let plain = [[Slot::Dst(Ty::B32)].as_slice(), &tail].concat();
    let paired = [[Slot::DstPair(Ty::B32)].as_slice(), &tail].concat();
    macro_rules! shuffle {
        ($($name:literal, $mode:ident;)*) => {$(
            table.add($name, &plain, Run::Collective(Members::Operand(4), |cx, args, mask| {
                shuffle(cx, args, mask, 1, Mode::$mode).map(|_| ())
            }));
            table.add($name, &paired, Run::Collective(Members::Operand(5), |cx, args, mask| {
                let in_range = shuffle(cx, args, mask, 2, Mode::$mode)?;
                cx.core.regs.set_pred(args.r[1], mask, in_range);
                Ok(())
            }));
        )*};
    }
    shuffle! {
        "shfl.sync.up.b32", Up;
        "shfl.sync.down.b32", Down;
        "shfl.sync.bfly.b32", Butterfly;
        "shfl.sync.idx.b32", Index;
    }
}

/// Executes a shuffle whose source operands start at `first`; returns the lanes whose source was in range.
fn shuffle(cx: &mut Cx<'_, '_>, args: &Args, mask: u32, first: usize, mode: Mode) -> Checked<u32> {
    let [values, operands, controls] =
        [first, first + 1, first + 2].map(|index| cx.core.regs.get::<u32>(args.r[index]));
    let mut out = values;
    let mut in_range = 0;
    for lane in lanes(mask) {
        let source = mode.source(lane as u32, operands[lane], controls[lane]);
        let from = source.unwrap_or(lane);
        if mask >> from & 1 == 0 && cx.block.options.inactive_lanes {
            let message = format!("shuffle reads lane {from}, which does not take part; lanes {mask:#010x} do");
            return Err(RawFault::at_lane(FaultKind::InactiveLane, lane, message));
        }
        out[lane] = values[from];
        in_range |= u32::from(source.is_some()) << lane;
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
        Run::Collective(members, |cx, args, mask| {
            let votes = ballot(cx, args, mask);
            cx.core.regs.set::<u32>(args.r[0], mask, &[votes; LANES]);
            Ok(())
        }),
    );
    macro_rules! vote {
        ($($name:literal, |$votes:ident, $mask:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::Pred), Slot::SrcNot, Slot::Src(Ty::B32)],
                Run::Collective(members, |cx, args, $mask| {
                    let $votes = ballot(cx, args, $mask);
                    cx.core.regs.set_pred(args.r[0], $mask, if $e { FULL } else { 0 });
                    Ok(())
                }),
            );
        )*};
    }
    vote! {
        "vote.sync.any.pred", |votes, mask| votes != 0 && mask != 0;
        "vote.sync.all.pred", |votes, mask| votes == mask;
        "vote.sync.uni.pred", |votes, mask| votes == 0 || votes == mask;
    }
}

/// `match.any`: the lanes that hold the same value.
fn matches(table: &mut Table) {
    table.add(
        "match.any.sync.b32",
        &[Slot::Dst(Ty::B32), Slot::Src(Ty::B32), Slot::Src(Ty::B32)],
        Run::Collective(Members::Operand(2), |cx, args, mask| {
            let values = cx.core.regs.get::<u32>(args.r[1]);
            let equal = std::array::from_fn(|lane| mask & mask_of(|other| values[other] == values[lane]));
            cx.core.regs.set::<u32>(args.r[0], mask, &equal);
            Ok(())
        }),
    );
}

fn reductions(table: &mut Table) {
    macro_rules! reduce {
        ($($name:literal, $ty:ident, |$a:ident, $b:ident| $e:expr;)*) => {$(
            table.add(
                $name,
                &[Slot::Dst(Ty::$ty), Slot::Src(Ty::$ty), Slot::Src(Ty::B32)],
                Run::Collective(Members::Operand(2), |cx, args, mask| {
                    let values = cx.core.regs.get::<u32>(args.r[1]);
                    let total = lanes(mask).map(|lane| values[lane]).reduce(|$a, $b| $e).unwrap_or_default();
                    cx.core.regs.set::<u32>(args.r[0], mask, &[total; LANES]);
                    Ok(())
                }),
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
