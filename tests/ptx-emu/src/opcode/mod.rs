//! The instruction table: every accepted mnemonic, the operands it takes and the function that executes it.
//!
//! A mnemonic is accepted exactly as it is entered here, modifiers included and in order, so nothing is ever half
//! understood. To add an instruction, add one line to the file of its family and one case to `tests/arithmetic.rs` or `tests/effects.rs`.

mod async_copy;
mod atomic;
mod bits;
mod control;
mod convert;
mod float;
mod integer;
mod memory;
mod predicate;
mod tensor;
mod warp;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::block::Cx;
use crate::error::Checked;
use crate::program::Args;
use crate::regs::Regs;
use crate::ty::{Space, Ty};

pub(crate) use async_copy::Copies;

/// What an operand may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A register that is written; `_` throws the value away.
    Dst(Ty),
    /// A register, special register or literal.
    Src(Ty),
    /// As `Src`, or the address of a variable.
    Value(Ty),
    /// As `Dst` and `Src`, but the register may be wider than the type.
    DstRelaxed(Ty),
    SrcRelaxed(Ty),
    /// `{a, b, ..}` of that many elements.
    DstVec(Ty, u8),
    SrcVec(Ty, u8),
    DstVecRelaxed(Ty, u8),
    SrcVecRelaxed(Ty, u8),
    /// `%d|%p`.
    DstPair(Ty),
    /// A predicate that may be negated.
    SrcNot,
    /// `[address]`.
    Addr,
    /// `[parameter]`, of which that many bytes are read.
    Param(u32),
    /// An integer known when the module is loaded.
    Int,
    /// This integer.
    Exactly(u32),
    /// Where to branch.
    Label,
}

/// Which lanes must meet at a `.sync` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    /// All that have not exited; the whole warp must still run if `full`.
    Warp { full: bool },
    /// The mask in `r[index]`.
    Operand(usize),
}

/// Executes an instruction that may fail, for the lanes in the mask.
pub(crate) type Access = fn(&mut Cx<'_, '_>, &Args, u32) -> Checked;

/// How an instruction executes. The mask passed holds the lanes that do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// Touches only registers.
    Lanes(fn(&mut Regs, &Args, u32)),
    /// Touches memory or anything else that may fail.
    Access(Access),
    /// As `Access`, once the members have met.
    Collective(Members, Access),
    Branch,
    Exit,
    /// `bar.sync`: barrier and thread count are in `imm`.
    Barrier,
}

/// One way to write a mnemonic.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) slots: Vec<Slot>,
    pub(crate) run: Run,
    /// Where it accesses memory and how many bytes per lane at once, if it does.
    pub(crate) access: Option<(Space, u32)>,
}

/// All mnemonics.
#[derive(Default)]
pub(crate) struct Table {
    forms: HashMap<String, Vec<Form>>,
}

impl Table {
    fn add(&mut self, name: impl Into<String>, slots: &[Slot], run: Run) {
        let form = Form { slots: slots.to_vec(), run, access: None };
        self.forms.entry(name.into()).or_default().push(form);
    }

    /// As `add`, for an instruction that accesses `bytes` bytes per lane in `space`.
    fn add_access(&mut self, name: impl Into<String>, slots: &[Slot], space: Space, bytes: u32, run: Run) {
        let form = Form { slots: slots.to_vec(), run, access: Some((space, bytes)) };
        self.forms.entry(name.into()).or_default().push(form);
    }

    /// The forms of `mnemonic`, or why there are none.
    pub(crate) fn lookup(&self, mnemonic: &str) -> Result<&[Form], String> {
        if let Some(forms) = self.forms.get(mnemonic) {
            return Ok(forms);
        }
        let base = mnemonic.split('.').next().unwrap_or(mnemonic);
        let known = self.forms.keys().any(|name| name.split('.').next() == Some(base));
        Err(if known {
            format!("`{base}` is not implemented with the modifiers of `{mnemonic}`")
        } else {
            format!("unknown instruction `{base}`")
        })
    }

    /// Every mnemonic, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.forms.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// The one table, built at first use.
pub(crate) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::default();
        integer::register(&mut table);
        bits::register(&mut table);
        float::register(&mut table);
        convert::register(&mut table);
        predicate::register(&mut table);
        memory::register(&mut table);
        atomic::register(&mut table);
        async_copy::register(&mut table);
        control::register(&mut table);
        warp::register(&mut table);
        tensor::register(&mut table);
        table
    })
}

/// Enters instructions whose operands all have one type: `same!(table, "add.s32", S32: i32, |a, b| a.wrapping_add(b))`.
macro_rules! same {
    ($table:ident, $name:expr, $ty:ident: $rust:ty, |$a:ident| $e:expr) => {
        $table.add(
            $name,
            &[$crate::opcode::Slot::Dst($crate::ty::Ty::$ty), $crate::opcode::Slot::Src($crate::ty::Ty::$ty)],
            $crate::opcode::Run::Lanes(|regs, args, mask| regs.map1(args, mask, |$a: $rust| -> $rust { $e })),
        )
    };
    ($table:ident, $name:expr, $ty:ident: $rust:ty, |$a:ident, $b:ident| $e:expr) => {
        $table.add(
            $name,
            &[
                $crate::opcode::Slot::Dst($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
            ],
            $crate::opcode::Run::Lanes(|regs, args, mask| {
                regs.map2(args, mask, |$a: $rust, $b: $rust| -> $rust { $e })
            }),
        )
    };
    ($table:ident, $name:expr, $ty:ident: $rust:ty, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        $table.add(
            $name,
            &[
                $crate::opcode::Slot::Dst($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
                $crate::opcode::Slot::Src($crate::ty::Ty::$ty),
            ],
            $crate::opcode::Run::Lanes(|regs, args, mask| {
                regs.map3(args, mask, |$a: $rust, $b: $rust, $c: $rust| -> $rust { $e })
            }),
        )
    };
}
pub(crate) use same;
