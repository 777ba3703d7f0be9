//! Which operands an instruction form takes, and the values of literals.

use crate::opcode::{Form, Slot};
use crate::program::Special;
use crate::syntax::{Literal, Operand};
use crate::ty::Ty;

/// What a preset register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Narrow(u32),
    Wide(u64),
    Pred(bool),
    Special(Special),
    /// Where `_` writes: one register per file, named by a type that lives there.
    Scratch(Ty),
}

/// Whether the operands have the shapes that `form` takes; types are checked later.
pub(crate) fn fits(form: &Form, operands: &[Operand<'_>]) -> bool {
    form.slots.len() == operands.len()
        && form.slots.iter().zip(operands).all(|(&slot, operand)| has_shape(slot, operand))
}

fn has_shape(slot: Slot, operand: &Operand<'_>) -> bool {
    match slot {
        Slot::Dst(_) | Slot::DstRelaxed(_) | Slot::Label => matches!(operand, Operand::Name(_)),
        Slot::Src(_) | Slot::SrcRelaxed(_) | Slot::Value(_) => {
            matches!(operand, Operand::Name(_) | Operand::Literal(_))
        }
        Slot::DstVec(_, count)
        | Slot::SrcVec(_, count)
        | Slot::DstVecRelaxed(_, count)
        | Slot::SrcVecRelaxed(_, count) => {
            matches!(operand, Operand::Vector(parts) if parts.len() == usize::from(count))
        }
        Slot::DstPair(_) => matches!(operand, Operand::Pair(..)),
        Slot::SrcNot => matches!(operand, Operand::Name(_) | Operand::Not(_)),
        Slot::Addr | Slot::Param(_) => matches!(operand, Operand::Address { .. }),
        Slot::Int => matches!(operand, Operand::Literal(Literal::Int { .. })),
        Slot::Exactly(value) => {
            matches!(operand, Operand::Literal(Literal::Int { bits, .. }) if *bits == u64::from(value))
        }
    }
}

/// Says what the forms of `opcode` take.
pub(crate) fn misfit(opcode: &str, forms: &[Form]) -> String {
    let describe = |form: &Form| form.slots.iter().map(|&slot| shape_name(slot)).collect::<Vec<_>>().join(", ");
    let known: Vec<_> = forms.iter().map(|form| format!("({})", describe(form))).collect();
    format!("operands do not fit `{opcode}`, which takes {}", known.join(" or "))
}

fn shape_name(slot: Slot) -> String {
    match slot {
        Slot::Dst(ty) | Slot::DstRelaxed(ty) => format!("register .{}", ty.name()),
        Slot::Src(ty) | Slot::SrcRelaxed(ty) | Slot::Value(ty) => format!(".{}", ty.name()),
        Slot::DstVec(ty, count)
        | Slot::SrcVec(ty, count)
        | Slot::DstVecRelaxed(ty, count)
        | Slot::SrcVecRelaxed(ty, count) => format!("{{{count} x .{}}}", ty.name()),
        Slot::DstPair(ty) => format!(".{}|.pred", ty.name()),
        Slot::SrcNot => "predicate".to_owned(),
        Slot::Addr => "[address]".to_owned(),
        Slot::Param(_) => "[parameter]".to_owned(),
        Slot::Int => "integer".to_owned(),
        Slot::Exactly(value) => value.to_string(),
        Slot::Label => "label".to_owned(),
    }
}

/// The bits of a literal as a `ty`.
pub(crate) fn literal_of(ty: Ty, literal: Literal) -> Result<Constant, String> {
    let wrong = || format!("{literal:?} is no .{}", ty.name());
    match (ty, literal) {
        (Ty::Pred, Literal::Int { bits, .. }) => Ok(Constant::Pred(bits != 0)),
        (Ty::F32 | Ty::B32, Literal::Single(bits)) => Ok(Constant::Narrow(bits)),
        (Ty::F64 | Ty::B64, Literal::Double(bits)) => Ok(Constant::Wide(bits)),
        (Ty::F32 | Ty::F64 | Ty::Pred, _) | (_, Literal::Single(_) | Literal::Double(_)) => Err(wrong()),
        (_, Literal::Int { bits, negative }) => {
            let width = 8 * ty.bytes();
            let magnitude = if negative { bits.wrapping_neg() } else { bits };
            let limit = if negative { 1 << (width - 1) } else { u64::MAX >> (64 - width) };
            if magnitude > limit {
                return Err(format!("the literal does not fit a .{}", ty.name()));
            }
            Ok(if ty.is_wide() { Constant::Wide(bits) } else { Constant::Narrow(bits as u32) })
        }
    }
}
